//! Settings of the tools that act outside Houston: `web.toml`, `sandbox.toml`, `endpoints/*`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use houston_domain::setting::{WrongSetting, positive, within};
use houston_tools::outside::{Provider, SearchSettings, Web};
use houston_web::json_api::{Endpoint, from_openapi, from_toml};
use houston_web::{Limits, ListedHost};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::folder::{self, File};
use super::{ConfigError, Result};
use crate::environment::environment;

/// The folder of endpoints.
pub(super) const ENDPOINTS: &str = "endpoints";

/// `jobs/web.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebSettings {
    hosts: Vec<String>,
    #[serde(deserialize_with = "positive")]
    timeout_s: u64,
    #[serde(deserialize_with = "positive")]
    max_bytes: usize,
    search: Search,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    provider: SearchProvider,
    url: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SearchProvider {
    None,
    #[serde(untagged)]
    Some(Provider),
}

/// `jobs/sandbox.toml`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SandboxSettings {
    /// Children at once.
    #[serde(deserialize_with = "positive")]
    pub(crate) children: usize,
    /// How long code may run unless the call says otherwise.
    #[serde(deserialize_with = "within::<1, { houston_sandbox::MAX_TIME.as_secs() }, _, _>")]
    pub(crate) time_s: u64,
    /// How many tools code may call in one call.
    #[serde(deserialize_with = "within::<1, 1000, _, _>")]
    pub(crate) calls: usize,
    /// What runs commands of the system.
    pub(crate) shell: ShellProgram,
    /// How long a command of the system may run.
    #[serde(deserialize_with = "within::<1, 300, _, _>")]
    pub(crate) shell_time_s: u64,
    /// How many snippets of a user may be tools: what a model can choose from.
    #[serde(deserialize_with = "within::<0, 50, _, _>")]
    pub(crate) snippet_tools: u32,
}

/// What runs commands of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShellProgram {
    /// Nothing.
    None,
    /// `bwrap`.
    Bubblewrap,
}

impl WebSettings {
    /// The clients; none of them is made yet.
    pub(crate) fn web(&self) -> Web {
        // Checked when the settings were loaded.
        let hosts = self.hosts.iter().filter_map(|url| ListedHost::of(url).ok()).collect();
        let limits =
            Limits { whole: Duration::from_secs(self.timeout_s), body: self.max_bytes, ..Limits::default() };
        let search = match self.search.provider {
            SearchProvider::None => None,
            SearchProvider::Some(provider) => Some(SearchSettings {
                provider,
                url: Some(self.search.url.clone()).filter(|url| !url.is_empty()),
                key: environment(provider.key_variable()).map(SecretString::from),
            }),
        };
        Web::new(hosts, limits, search)
    }

    /// A client without the operator's own hosts, for what tenants name.
    pub(crate) fn public(&self) -> Web {
        Self { hosts: Vec::new(), ..self.clone() }.web()
    }

    /// Checks the addresses.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is wrong.
    pub(super) fn check(&self) -> Result<(), WrongSetting> {
        let wrong = |url: &String| ListedHost::of(url).err().map(|refusal| format!("`{url}`: {refusal}"));
        if let Some(reason) = self.hosts.iter().find_map(wrong) {
            return Err(WrongSetting::new("/hosts", reason));
        }
        let Search { provider, url } = &self.search;
        let needs_url = matches!(provider, SearchProvider::Some(Provider::Searxng));
        let missing = "searxng needs the address of your server, for example http://localhost:8888";
        let reason = if url.is_empty() { needs_url.then(|| missing.to_owned()) } else { wrong(url) };
        reason.map_or(Ok(()), |reason| Err(WrongSetting::new("/search/url", reason)))
    }
}

/// The endpoints of all files in the folder `endpoints` of each of `folders`. A file replaces one of the same name in an
/// earlier folder.
///
/// # Errors
/// [`ConfigError`] for the first definition that is wrong, or a file that cannot be read.
pub(crate) fn endpoints<'f>(folders: impl IntoIterator<Item = &'f Path>) -> Result<Vec<Endpoint>> {
    let files = folder::files(folders, ENDPOINTS, &[".toml", ".json"])?;
    let files = files.into_iter().map(|file| (file.path.file_name().map(OsStr::to_owned), file));
    let mut endpoints = Vec::new();
    for File { path, text, .. } in files.collect::<BTreeMap<_, _>>().into_values() {
        let file = path.display().to_string();
        if path.extension().is_some_and(|extension| extension == "toml") {
            endpoints.extend(from_toml(&text, &file).map_err(ConfigError::new)?);
            continue;
        }
        let loaded = from_openapi(&text, &file, None).map_err(ConfigError::new)?;
        for skipped in loaded.skipped {
            tracing::warn!(at = skipped.at, reason = skipped.message, "an operation is no tool");
        }
        endpoints.extend(loaded.endpoints);
    }
    Ok(endpoints)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRM: &str = r#"
base = "https://crm.example.com"
[[endpoint]]
name = "list_orders"
description = "Orders."
method = "GET"
path = "/orders"
"#;

    #[test]
    fn endpoints_are_read_and_later_folders_replace() {
        let [first, second] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let write = |folder: &Path, name: &str, text: &str| {
            std::fs::create_dir_all(folder.join(ENDPOINTS)).unwrap();
            std::fs::write(folder.join(ENDPOINTS).join(name), text).unwrap();
        };
        write(first.path(), "crm.toml", CRM);
        write(first.path(), "notes.md", "not a definition");
        let names = |folders: &[&Path]| -> Vec<String> {
            let endpoints = endpoints(folders.iter().copied()).unwrap();
            endpoints.into_iter().map(|endpoint| endpoint.name).collect()
        };
        assert_eq!(names(&[first.path(), second.path()]), ["list_orders"]);
        write(second.path(), "crm.toml", &CRM.replace("list_orders", "all_orders"));
        assert_eq!(names(&[first.path(), second.path()]), ["all_orders"]);
        write(second.path(), "crm.toml", &CRM.replace("GET", "FETCH"));
        let error = endpoints([second.path()]).unwrap_err().to_string();
        assert!(error.contains("crm.toml:6") && error.contains("FETCH"), "{error}");
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let settings = |hosts: &str, search: &str| -> WebSettings {
            let text = format!("hosts = {hosts}\ntimeout_s = 20\nmax_bytes = 9\n[search]\n{search}");
            toml::from_str(&text).unwrap()
        };
        let key = |settings: WebSettings| settings.check().err().map(|wrong| wrong.key());
        assert_eq!(key(settings(r#"["http://127.0.0.1:8080"]"#, "provider = 'none'\nurl = ''")), None);
        assert_eq!(key(settings(r#"["wiki"]"#, "provider = 'none'\nurl = ''")), Some("hosts".to_owned()));
        assert_eq!(key(settings("[]", "provider = 'searxng'\nurl = ''")), Some("search.url".to_owned()));
        assert_eq!(
            key(settings("[]", "provider = 'tavily'\nurl = 'ftp://x'")),
            Some("search.url".to_owned())
        );
        assert_eq!(key(settings("[]", "provider = 'brave'\nurl = ''")), None);
    }
}

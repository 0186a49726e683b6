//! `jobs/tools.toml`: what is called in the place of tools that failed.

use houston_domain::fallback::Fallbacks;

use super::Result;
use super::error::like;
use super::layers::Layers;

/// Checks that both tools of each fallback exist, except those that the settings call a tenant's own: tenants add and remove
/// those while Houston runs. `tools`: the names of all tools of the installation.
///
/// # Errors
/// [`super::ConfigError`] for the first that does not, or that cannot work.
pub(super) fn check(fallbacks: &Fallbacks, tools: &[String], layers: &Layers) -> Result<()> {
    let names: Vec<&str> = tools.iter().map(String::as_str).collect();
    let missing = |name: &str| {
        let like = like(name, &names);
        let like = if like.is_empty() { "." } else { &like };
        format!(
            "there is no tool `{name}`; there are: {}{like} A tool of a tenant's own, or a snippet of a user, is named with \
             `own = true`",
            names.join(", ")
        )
    };
    let unknown = fallbacks.checked_tools().find(|(_, name)| !names.contains(name));
    let unknown = unknown.map(|(key, name)| (key, missing(name)));
    let mistake = fallbacks.mistake().or(unknown);
    mistake.map_or(Ok(()), |(key, reason)| Err(layers.refuse(format!("tools.{key}"), reason)))
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    fn read(text: &str) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tools.toml"), text).unwrap();
        let loaded = load(Some(folder.path()), &tools()).map_err(|error| error.to_string())?;
        Ok(loaded.settings.tools.of("search_web").map(|fallback| fallback.tool.clone()))
    }

    #[test]
    fn fallbacks_name_tools_that_exist() {
        assert_eq!(read(""), Ok(None));
        assert_eq!(read("[search_web]\nfallback = 'fetch_page'"), Ok(Some("fetch_page".to_owned())));
        let own = "[search_web]\nfallback = { tool = 'find_pages', own = true }\n[list_orders]\nown = true\nfallback = 'fetch_page'";
        assert_eq!(read(own), Ok(Some("find_pages".to_owned())));
        for (text, parts) in [
            ("[list_orders]\nfallback = 'fetch_page'", ["tools.list_orders", "named with `own = true`"]),
            (
                "[list_orders]\nown = true\nfallback = 'fetch_pge'",
                ["tools.list_orders.fallback", "`fetch_page`?"],
            ),
            ("[search_wb]\nfallback = 'fetch_page'", ["tools.search_wb", "did you mean `search_web`?"]),
            ("[search_web]\nfallback = 'fetch_pge'", ["tools.search_web.fallback", "`fetch_page`?"]),
            ("[search_web]\nfallback = 'search_web'", ["tools.search_web.fallback", "its own fallback"]),
            ("[search_web]\nfalback = 'fetch_page'", ["tools.toml", "did you mean `fallback`?"]),
            ("[search_web]\nfallback = { tool = 'fetch_page', on = ['TIMEOT'] }", ["tools.toml", "TIMEOUT"]),
        ] {
            let error = read(text).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{text}: `{part}` is not in: {error}");
            }
        }
    }
}

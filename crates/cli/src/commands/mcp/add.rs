//! `houston mcp add`: writes a server to `mcp.toml`, and approves its tools.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use houston_mcp::{Catalogue, ServerSettings};

use super::approve::approve;
use super::{Context, Failure, file, folder};
use crate::output::print_stderr;

/// The beginning of a path that the reader must replace.
const BLANK: &str = "/path/to/";

pub(super) fn add(
    context: &Context,
    name: &str,
    kinds: Vec<String>,
    env: Vec<String>,
    command: Vec<String>,
) -> Result<ExitCode, Failure> {
    let mut settings = context.loaded.settings.mcp.clone();
    if settings.servers.contains_key(name) {
        let error = anyhow!(
            "there is a server `{name}` already: change it in mcp.toml, or give this one another name"
        );
        return Err(Failure::Usage(error));
    }
    let (mut server, needs) = server_of(name, command).map_err(Failure::Usage)?;
    server.env.extend(env);
    // Checked before it is written: a kind that does not exist would stop every command.
    let existing = &context.loaded.kinds;
    if let Some(wrong) = kinds.iter().find(|kind| !existing.contains_key(*kind)) {
        let names: Vec<&str> = existing.keys().map(String::as_str).collect();
        let like = crate::config::nearest(wrong, &names).map(|like| format!("; did you mean `{like}`?"));
        return Err(Failure::Usage(anyhow!(
            "--kind: there is no agent type `{wrong}`{}; there are: {}",
            like.unwrap_or_default(),
            names.join(", ")
        )));
    }
    server.kinds = match context.loaded.first_kind() {
        Some(kind) if kinds.is_empty() => vec![kind.kind.clone()],
        _ => kinds,
    };
    settings.servers.insert(name.to_owned(), server.clone());
    settings.check().map_err(|error| Failure::Usage(error.into()))?;
    let path = folder(context)?.join("mcp.toml");
    append(&path, name, &server)?;
    print_stderr(&format!("added {name} to {}", path.display()));
    if !needs.is_empty() {
        print_stderr(&format!("before its first start: {needs}"));
    }
    if server.args.iter().any(|arg| arg.starts_with(BLANK)) {
        print_stderr(&format!("then: houston mcp approve {name}"));
        return Ok(ExitCode::SUCCESS);
    }
    approve(context, &settings, name, &[]).map_err(|failure| match failure {
        Failure::Usage(error) | Failure::Other(error) => Failure::Other(anyhow!(
            "{error:#}\n{name} is in {path} now, and none of its tools is offered. When the reason is gone: houston mcp \
             approve {name}. If you do not want it: delete [servers.{name}] there",
            path = path.display()
        )),
    })
}

/// The settings of the server to add, and what it needs.
fn server_of(name: &str, command: Vec<String>) -> anyhow::Result<(ServerSettings, String)> {
    let mut words = command.into_iter();
    if let Some(command) = words.next() {
        return Ok((ServerSettings::new(command, words.collect()), String::new()));
    }
    let mut catalogue = Catalogue::built_in()?;
    let entry = catalogue.servers.remove(name).ok_or_else(|| {
        let names: Vec<&str> = catalogue.servers.keys().map(String::as_str).collect();
        let like = crate::config::nearest(name, &names).map(|like| format!("; did you mean `{like}`?"));
        anyhow!(
            "the catalogue has no server `{name}`{}; it has: {}. A server of your own needs its command: \
             houston mcp add {name} -- <command> <arguments>",
            like.unwrap_or_default(),
            names.join(", ")
        )
    })?;
    Ok((entry.server, entry.needs))
}

/// Writes a server at the end of a file, which keeps its comments.
fn append(path: &Path, name: &str, server: &ServerSettings) -> Result<(), Failure> {
    let table = BTreeMap::from([("servers", BTreeMap::from([(name, server)]))]);
    let added = toml::to_string(&table).context("the settings cannot be written")?;
    let before = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(anyhow!("cannot read {}: {error}", path.display()).into()),
    };
    let gap = if before.is_empty() { "" } else { "\n" };
    let text = format!("{before}{gap}{added}");
    let _: toml::Table = text.parse().with_context(|| format!("{} cannot be extended", path.display()))?;
    Ok(file::replace(path, &text)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use houston_tools::Registry;

    use super::*;

    /// `houston mcp add` of a server with this command, with the settings of a folder.
    fn added(folder: &Path, kind: &str, command: &str) -> Result<ExitCode, String> {
        let loaded = crate::config::load(Some(folder), &crate::toolbox::built_in()).unwrap();
        let context = Context { loaded, registry: Registry::default(), folder: folder.join("data") };
        let added = add(&context, "mine", vec![kind.to_owned()], Vec::new(), vec![command.to_owned()]);
        added.map_err(|failure| match failure {
            Failure::Usage(error) | Failure::Other(error) => format!("{error:#}"),
        })
    }

    #[test]
    fn misspelt_kind_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let error = added(folder.path(), "gaol", "some-program").unwrap_err();
        assert!(error.contains("`gaol`") && error.contains("did you mean `goal`?"), "{error}");
        assert!(!folder.path().join("mcp.toml").exists());
    }

    #[test]
    fn failed_first_start_says_how_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let error = added(folder.path(), "goal", "no-such-program-here").unwrap_err();
        assert!(
            error.contains("no-such-program-here") && error.contains("houston mcp approve mine"),
            "{error}"
        );
        let loaded = crate::config::load(Some(folder.path()), &crate::toolbox::built_in()).unwrap();
        assert!(loaded.settings.mcp.servers.contains_key("mine"), "`approve` can be called for it");
    }
}

//! `houston mcp add`: writes a server to `mcp.toml`, and approves its tools.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use houston_mcp::{Catalogue, ServerSettings};

use super::{Context, Failure, Result, approve, folder};
use crate::commands::mcp;
use crate::config::like;
use crate::output::print_stderr;

/// The beginning of a path that the reader must replace.
const BLANK: &str = "/path/to/";

/// The options of `houston mcp add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// A name of the catalogue (`houston mcp list --catalogue`), one of your own, or the address of a server over HTTP
    server: String,
    /// Agent type that may call its tools; may be given several times [default: that of the demo]
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Name of an environment variable that it gets; may be given several times
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// The name under which a server over HTTP is added [default: from its address]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Name of the environment variable with the key of a server over HTTP
    #[arg(long, value_name = "VARIABLE")]
    bearer: Option<String>,
    /// Header of a server over HTTP, and the environment variable with its value; may be given several times
    #[arg(long = "header", value_name = "HEADER=VARIABLE")]
    headers: Vec<String>,
    /// The server over HTTP is in a network of your own
    #[arg(long)]
    private: bool,
    /// The command of a server that is not in the catalogue, after `--`: `-- npx -y some-server@1.2.3`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The server to add.
struct NewServer {
    name: String,
    settings: ServerSettings,
    /// What it needs before its first start; may be empty.
    needs: String,
}

impl Add {
    pub(super) fn run(self, context: &Context) -> Result<()> {
        let mut settings = context.loaded.settings.mcp.clone();
        let kinds = kinds(context, &self.kinds).map_err(Failure::Usage)?;
        let NewServer { name, settings: mut server, needs } = self.server().map_err(Failure::Usage)?;
        if settings.servers.contains_key(&name) {
            let error = anyhow!(
                "there is a server `{name}` already: change it in mcp.toml, or give this one another name"
            );
            return Err(Failure::Usage(error));
        }
        server.kinds = kinds;
        settings.servers.insert(name.clone(), server.clone());
        settings.check().map_err(Failure::usage)?;
        let path = folder(context)?.join("mcp.toml");
        append(&path, &name, &server)?;
        print_stderr(&format!("added {name} to {}", path.display()));
        if !needs.is_empty() {
            print_stderr(&format!("before its first start: {needs}"));
        }
        if server.args.iter().any(|arg| arg.starts_with(BLANK)) {
            print_stderr(&format!("then: houston mcp approve {name}"));
            return Ok(());
        }
        approve(context, &settings, &name, &[]).map_err(|failure| match failure {
            Failure::Usage(error) | Failure::Other(error) => Failure::Other(anyhow!(
                "{error:#}\n{name} is in {path} now, and none of its tools is offered. When the reason is gone: houston \
                 mcp approve {name}. If you do not want it: delete [servers.{name}] there",
                path = path.display()
            )),
        })
    }

    fn server(self) -> anyhow::Result<NewServer> {
        let is_address = self.server.starts_with("http://") || self.server.starts_with("https://");
        let of_http =
            self.name.is_some() || self.bearer.is_some() || !self.headers.is_empty() || self.private;
        if of_http && !is_address {
            bail!(
                "--name, --bearer, --header and --private are for servers over HTTP: name its address, as https://…"
            );
        }
        if is_address {
            let Some(name) = self.name.or_else(|| name_of(&self.server)) else {
                bail!("{} says no name for the server: add --name <NAME>", self.server);
            };
            let headers = self.headers.iter().map(|header| {
                let (header, variable) = header.split_once('=').with_context(|| {
                    format!("--header {header}: write the header, `=` and the name of a variable")
                })?;
                Ok((header.to_owned(), variable.to_owned()))
            });
            let headers = headers.collect::<anyhow::Result<_>>()?;
            let (bearer, private, env) = (self.bearer, self.private, self.env);
            let server = ServerSettings { bearer, headers, private, env, ..ServerSettings::at(self.server) };
            return Ok(NewServer { name, settings: server, needs: String::new() });
        }
        let (mut server, needs) = program(&self.server, self.command)?;
        server.env.extend(self.env);
        Ok(NewServer { name: self.server, settings: server, needs })
    }
}

/// The agent types that may call the tools. Checked before anything is written: one that does not exist would stop every
/// command.
fn kinds(context: &Context, named: &[String]) -> anyhow::Result<Vec<String>> {
    let existing = &context.loaded.kinds;
    if let Some(wrong) = named.iter().find(|kind| !existing.contains_key(*kind)) {
        let names: Vec<&str> = existing.keys().map(String::as_str).collect();
        let like = like(wrong, &names);
        bail!("--kind: there is no agent type `{wrong}`{like}; there are: {}", names.join(", "));
    }
    match context.loaded.first_kind() {
        Some(kind) if named.is_empty() => Ok(vec![kind.kind.clone()]),
        _ => Ok(named.to_vec()),
    }
}

/// The name of a server at this address: `linear` for `https://mcp.linear.app/mcp`.
fn name_of(url: &str) -> Option<String> {
    let host = url.split_once("://")?.1.split(['/', ':', '?', '#']).next()?;
    let (rest, top) = host.rsplit_once('.')?;
    let name = rest.rsplit('.').next()?;
    // Not of an address in digits.
    (!name.is_empty() && top.chars().all(|c| c.is_ascii_alphabetic())).then(|| name.to_ascii_lowercase())
}

/// The settings of a server with a program of its own, and what it needs.
fn program(name: &str, command: Vec<String>) -> anyhow::Result<(ServerSettings, String)> {
    let mut words = command.into_iter();
    if let Some(command) = words.next() {
        return Ok((ServerSettings::new(command, words.collect()), String::new()));
    }
    let mut catalogue = Catalogue::built_in()?;
    let entry = catalogue.servers.remove(name).ok_or_else(|| {
        let names: Vec<&str> = catalogue.servers.keys().map(String::as_str).collect();
        anyhow!(
            "the catalogue has no server `{name}`{}; it has: {}. A server of your own needs its command: \
             houston mcp add {name} -- <command> <arguments>",
            like(name, &names),
            names.join(", ")
        )
    })?;
    Ok((entry.server, entry.needs))
}

/// Writes a server at the end of a file, which keeps its comments.
fn append(path: &Path, name: &str, server: &ServerSettings) -> Result<()> {
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
    Ok(mcp::replace_file(path, &text)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use houston_tools::Registry;

    use super::*;

    /// `houston mcp add` of a server with this command, with the settings of a folder.
    fn added(folder: &Path, kind: &str, command: &str) -> Result<(), String> {
        let loaded = crate::config::load(Some(folder), &crate::toolbox::built_in()).unwrap();
        let (registry, folder) = (Registry::default(), folder.join("data"));
        let context = Context { loaded, registry, folder, jobs: None };
        let add = Add {
            server: "mine".to_owned(),
            kinds: vec![kind.to_owned()],
            env: Vec::new(),
            name: None,
            bearer: None,
            headers: Vec::new(),
            private: false,
            command: vec![command.to_owned()],
        };
        let added = add.run(&context);
        added.map_err(|failure| match failure {
            Failure::Usage(error) | Failure::Other(error) => format!("{error:#}"),
        })
    }

    #[test]
    fn server_over_http_is_named_by_its_address() {
        assert_eq!(name_of("https://mcp.linear.app/mcp").as_deref(), Some("linear"));
        assert_eq!(name_of("https://Example.org").as_deref(), Some("example"));
        assert_eq!(name_of("http://localhost:3000/mcp"), None);
        assert_eq!(name_of("http://127.0.0.1:3000/mcp"), None);
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

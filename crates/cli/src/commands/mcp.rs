//! `houston mcp`: adds MCP servers, and shows, checks and approves what they offer.

mod add;
mod own;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use houston_mcp::pins::{self, Standing};
use houston_mcp::server::Look;
use houston_mcp::{Catalogue, Listed, McpSettings, Pins, ServerSettings, trust};
use serde::Serialize;

use super::agentable::{print_table, yes_or_no};
use super::{Context, Failure, Result, runtime};
use crate::config::user_path;
use crate::environment::environment;
use crate::output::{print, print_json, print_stderr};

/// Seconds of a server's first start: its package may be installed then.
const FIRST_START_S: u64 = 300;

/// Add MCP servers, whose tools agents may call, and check and approve what they offer (jobs/mcp.toml).
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Add a server to mcp.toml, start it, and approve the tools it lists
    Add(add::Add),
    /// List the servers, or those of the catalogue
    List {
        /// The servers that `add` knows
        #[arg(long)]
        catalogue: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Start each server, compare its tools with the approved ones, and say what is wrong; exits 1 when a server is red
    Doctor {
        /// Only this server
        name: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Approve the tools of a server as it lists them now
    Approve {
        /// The server
        name: String,
        /// Only these tools, by the names that the server gives them
        tools: Vec<String>,
    },
    /// The servers that tenants and users brought over the API, and the approval of their tools
    #[command(subcommand)]
    Own(own::Action),
}

impl Mcp {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        match self {
            Self::Own(action) => action.run(context)?,
            Self::Add(command) => command.run(&context)?,
            Self::List { catalogue: true, json } => catalogue(json)?,
            Self::List { catalogue: false, json } => servers(&context, json),
            Self::Doctor { name, json } => return doctor(&context, name.as_deref(), json),
            Self::Approve { name, tools } => approve(&context, &context.loaded.settings.mcp, &name, &tools)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The folder whose files are written: the last that is read, or that of the user.
fn folder(context: &Context) -> Result<PathBuf> {
    let last = context.loaded.folders().last().cloned();
    let folder = last.or_else(|| user_path(environment));
    let folder =
        folder.ok_or_else(|| Failure::Usage(anyhow!("name a folder for the settings: --jobs <FOLDER>")))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// Starts a server and reads its tools.
fn look(context: &Context, settings: &McpSettings, name: &str) -> Result<Look> {
    let mut settings = settings.clone();
    settings.limits.start_s = settings.limits.start_s.max(FIRST_START_S);
    let pool = context.loaded.pool(&settings, &context.folder);
    let Some(server) = pool.server(name) else {
        let existing = settings.servers.iter().filter(|(_, server)| server.enabled);
        let existing: Vec<&str> = existing.map(|(name, _)| name.as_str()).collect();
        let error =
            anyhow!("there is no enabled server `{name}` in mcp.toml; there are: {}", existing.join(", "));
        return Err(Failure::Usage(error));
    };
    runtime()?.block_on(async {
        let look = server.look().await;
        pool.close().await;
        Ok(look)
    })
}

fn catalogue(json: bool) -> Result<()> {
    let catalogue = Catalogue::built_in().context("jobs/catalogue.toml cannot be read")?;
    if json {
        print_json(&catalogue);
        return Ok(());
    }
    let rows = catalogue.servers.iter().map(|(name, entry)| {
        [name.clone(), entry.categories.join(", "), entry.server.env.join(", "), entry.about.clone()]
    });
    print_table(["SERVER", "FOR", "NEEDS", "ABOUT"], rows);
    Ok(())
}

/// A line of `houston mcp list`.
#[derive(Serialize)]
struct Row<'r> {
    name: &'r str,
    enabled: bool,
    /// Or its address.
    command: String,
    kinds: &'r [String],
    /// The names under which its approved tools are offered.
    tools: Vec<String>,
}

fn servers(context: &Context, json: bool) {
    let (settings, pins) = (&context.loaded.settings.mcp, &context.loaded.mcp.pins);
    let mut names = houston_mcp::pool::names_of_servers(settings, pins);
    let rows: Vec<Row<'_>> = settings
        .servers
        .iter()
        .map(|(name, server)| {
            let words = [&server.command].into_iter().chain(&server.args).cloned();
            let command = server.url.clone().unwrap_or_else(|| words.collect::<Vec<_>>().join(" "));
            let tools = names.remove(name).unwrap_or_default();
            Row { name, enabled: server.enabled, command, kinds: &server.kinds, tools }
        })
        .collect();
    if json {
        print_json(&serde_json::json!({"data": rows}));
        return;
    }
    let lines = rows.iter().map(|row| {
        let count = row.tools.len().to_string();
        [row.name.to_owned(), yes_or_no(row.enabled), count, row.kinds.join(", "), row.command.clone()]
    });
    print_table(["SERVER", "ENABLED", "TOOLS", "KINDS", "COMMAND OR ADDRESS"], lines);
    if rows.is_empty() {
        print_stderr("there are no MCP servers; `houston mcp list --catalogue` shows some to add");
    }
}

/// What `houston mcp doctor` says of a server.
#[derive(Serialize)]
struct Finding {
    name: String,
    /// `ok`, `warn` or `red`.
    status: &'static str,
    detail: String,
    /// What the server printed, if it could not be started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    printed: Vec<String>,
}

fn doctor(context: &Context, only: Option<&str>, json: bool) -> Result<ExitCode> {
    let settings = &context.loaded.settings.mcp;
    let enabled = settings.servers.iter().filter(|(_, server)| server.enabled).map(|(name, _)| name.as_str());
    let names: Vec<&str> = only.map_or_else(|| enabled.collect(), |name| vec![name]);
    let mut findings = Vec::with_capacity(names.len());
    for name in names {
        findings.push(finding(context, name, look(context, settings, name)?));
    }
    let is_red = findings.iter().any(|finding| finding.status == "red");
    if json {
        print_json(&serde_json::json!({"data": findings}));
    } else {
        let row =
            |finding: &Finding| [finding.status.to_owned(), finding.name.clone(), finding.detail.clone()];
        print_table(["STATUS", "SERVER", "DETAIL"], findings.iter().map(row));
        for finding in &findings {
            finding.printed.iter().for_each(|line| print(&format!("  {}: {line}", finding.name)));
        }
    }
    Ok(if is_red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn finding(context: &Context, name: &str, look: Look) -> Finding {
    let name = name.to_owned();
    let tools = match look.tools {
        Ok(tools) => tools,
        Err(error) => {
            return Finding { name, status: "red", detail: error.to_string(), printed: look.printed };
        }
    };
    let standing = context.loaded.mcp.pins.compare(&name, &tools);
    let of = |wanted: Standing| {
        let names =
            standing.iter().filter(|(_, standing)| **standing == wanted).map(|(tool, _)| tool.as_str());
        names.collect::<Vec<_>>()
    };
    let mut parts = vec![format!("{} tools approved", of(Standing::Approved).len())];
    for wanted in [Standing::Changed, Standing::New, Standing::Gone, Standing::Refused] {
        let names = of(wanted);
        if !names.is_empty() {
            parts.push(format!("{}: {}", wanted.as_str(), names.join(", ")));
        }
    }
    let is_fine = of(Standing::Changed).is_empty() && of(Standing::New).is_empty();
    if !is_fine {
        parts.push(format!("look at them, then: houston mcp approve {name}"));
    }
    Finding {
        name,
        status: if is_fine { "ok" } else { "warn" },
        detail: parts.join("; "),
        printed: Vec::new(),
    }
}

fn approve(context: &Context, settings: &McpSettings, name: &str, only: &[String]) -> Result<()> {
    print_stderr(&format!("starting {name}; the first start may install it"));
    let Look { tools, printed } = look(context, settings, name)?;
    let tools = match tools {
        Ok(tools) => tools,
        Err(error) => {
            printed.iter().for_each(|line| print_stderr(&format!("  {line}")));
            return Err(anyhow!("{name}: {error}").into());
        }
    };
    let unknown = only.iter().find(|wanted| tools.iter().all(|tool| tool.name != **wanted));
    if let Some(unknown) = unknown {
        return Err(no_tool(name, unknown, tools.iter().map(|tool| tool.name.as_str())));
    }
    let mut all = context.loaded.mcp.pins.clone();
    let before = all.compare(name, &tools);
    all.approve(name, &tools, only);
    let server = settings.servers.get(name).context("the server is in the settings")?;
    show_tools(server, &tools, &before);
    let path = folder(context)?.join(pins::FILE);
    write_pins(&path, name, all)?;
    print_stderr(&format!("approved in {}; restart Houston to offer them", path.display()));
    if server.kinds.is_empty() {
        print_stderr(&format!("agents may call them once an agent type lists \"mcp:{name}\" under tools"));
    }
    Ok(())
}

fn no_tool<'t>(server: &str, unknown: &str, tools: impl Iterator<Item = &'t str>) -> Failure {
    let existing = tools.collect::<Vec<_>>().join(", ");
    Failure::Usage(anyhow!("{server} has no tool `{unknown}`; it has: {existing}"))
}

/// Writes the pins of a server beside those that the file has of others. A file that cannot be read is kept beside it.
fn write_pins(path: &Path, server: &str, mut approved: Pins) -> Result<()> {
    let mut pins = match std::fs::read_to_string(path).map(|text| Pins::parse(&text)) {
        Ok(Ok(pins)) => pins,
        Ok(Err(error)) => {
            // A hidden file is not taken for a misspelt one.
            let moved = path.with_file_name(format!(".{}.broken", pins::FILE));
            std::fs::rename(path, &moved).with_context(|| format!("cannot rename {}", path.display()))?;
            let (path, moved) = (path.display(), moved.display());
            print_stderr(&format!(
                "{path} could not be read ({error}): it is now {moved}; approve the other servers again, too"
            ));
            Pins::default()
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Pins::default(),
        Err(error) => return Err(anyhow!("cannot read {}: {error}", path.display()).into()),
    };
    pins.servers.extend(approved.servers.remove_entry(server));
    Ok(replace_file(path, &pins.to_text())?)
}

/// Prints tools as guards see them.
fn show_tools(server: &ServerSettings, tools: &[Listed], standing: &BTreeMap<String, Standing>) {
    let rows = tools.iter().map(|tool| {
        let said = server.tools.get(&tool.name).cloned().unwrap_or_default();
        let (effect, facts) = trust::judged(server.trust, tool.pin.hints, &said);
        let described = tool.pin.description.lines().next().unwrap_or_default();
        let about = tool.refused.clone().unwrap_or_else(|| described.chars().take(80).collect());
        let was = standing.get(&tool.name).map_or("", |standing| standing.as_str());
        [&tool.name, was, effect.as_str(), facts.risk.as_str(), &about].map(str::to_owned)
    });
    print_table(["TOOL", "WAS", "EFFECT", "RISK", "ABOUT"], rows);
}

/// Puts `text` in place of the file. Another process reads the text before or this one, and so does everybody after a crash.
fn replace_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    // A link is followed, so that the file it leads to is replaced, not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().with_context(cannot)?.to_string_lossy();
    // Hidden, so that it is not taken for a misspelt file of settings.
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = std::fs::File::create(&temporary).with_context(cannot)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| std::fs::rename(&temporary, &path)).with_context(|| {
        let _ = std::fs::remove_file(&temporary);
        cannot()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_file_of_approvals_is_kept_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(pins::FILE);
        std::fs::write(&path, "{\"servers\": {").unwrap();
        let approved = Pins { servers: BTreeMap::from([("mine".to_owned(), BTreeMap::new())]) };
        write_pins(&path, "mine", approved.clone()).unwrap();
        assert_eq!(Pins::parse(&std::fs::read_to_string(&path).unwrap()).unwrap(), approved);
        let moved = std::fs::read_to_string(folder.path().join(".mcp_pins.json.broken")).unwrap();
        assert_eq!(moved, "{\"servers\": {");
        crate::config::load(Some(folder.path()), &crate::toolbox::built_in()).unwrap();
    }

    #[test]
    fn file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
        replace_file(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace_file(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn file_stays_as_it_was_if_it_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        // A folder cannot be replaced by a file.
        std::fs::create_dir(&path).unwrap();
        assert!(replace_file(&path, "new").unwrap_err().to_string().contains("cannot write"));
        assert!(path.is_dir() && std::fs::read_dir(folder.path()).unwrap().count() == 1);
    }
}

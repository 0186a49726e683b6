//! `houston mcp`: adds MCP servers, and shows, checks and approves what they offer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_mcp::pins::{self, Standing};
use houston_mcp::server::Look;
use houston_mcp::{Catalogue, Listed, McpSettings, Pins, ServerSettings, trust};
use serde::Serialize;

use super::agentable::table;
use super::{Context, Failure, runtime};
use crate::config::user_path;
use crate::models::environment;
use crate::output::{print, print_json, print_stderr};

/// Seconds of a server's first start: its package may be installed then.
const FIRST_START_S: u64 = 300;
/// The beginning of a path that the reader must replace.
const BLANK: &str = "/path/to/";

/// Add MCP servers, whose tools agents may call, and check and approve what they offer (jobs/mcp.toml).
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Add a server to mcp.toml, start it, and approve the tools it lists
    Add {
        /// A name of the catalogue (`houston mcp list --catalogue`), or one of your own
        name: String,
        /// Agent type that may call its tools; may be given several times [default: that of the demo]
        #[arg(long = "kind", value_name = "KIND")]
        kinds: Vec<String>,
        /// Name of an environment variable that it gets; may be given several times
        #[arg(long, value_name = "NAME")]
        env: Vec<String>,
        /// The command of a server that is not in the catalogue, after `--`: `-- npx -y some-server@1.2.3`
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
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
}

impl Mcp {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Add { name, kinds, env, command } => add(context, &name, kinds, env, command),
            Action::List { catalogue: true, json } => show_catalogue(json),
            Action::List { catalogue: false, json } => Ok(list(context, json)),
            Action::Doctor { name, json } => doctor(context, name.as_deref(), json),
            Action::Approve { name, tools } => approve(context, &context.loaded.settings.mcp, &name, &tools),
        }
    }
}

/// The folder whose files are written: the last that is read, or that of the user.
fn folder(context: &Context) -> Result<PathBuf, Failure> {
    let last = context.loaded.folders().last().cloned();
    let folder = last.or_else(|| user_path(environment));
    let folder =
        folder.ok_or_else(|| Failure::Usage(anyhow!("name a folder for the settings: --jobs <FOLDER>")))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn add(
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
    approve(context, &settings, name, &[])
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
    Ok(std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?)
}

/// Starts a server and reads its tools.
fn look(context: &Context, settings: &McpSettings, name: &str) -> Result<Look, Failure> {
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

fn approve(
    context: &Context,
    settings: &McpSettings,
    name: &str,
    only: &[String],
) -> Result<ExitCode, Failure> {
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
        let existing: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        return Err(Failure::Usage(anyhow!(
            "{name} has no tool `{unknown}`; it has: {}",
            existing.join(", ")
        )));
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
    Ok(ExitCode::SUCCESS)
}

/// Writes the pins of a server beside those that the file has of others.
fn write_pins(path: &Path, server: &str, mut approved: Pins) -> Result<(), Failure> {
    let mut pins = match std::fs::read_to_string(path) {
        Ok(text) => Pins::parse(&text).with_context(|| format!("{} cannot be read", path.display()))?,
        Err(_) => Pins::default(),
    };
    pins.servers.extend(approved.servers.remove_entry(server));
    Ok(std::fs::write(path, pins.to_text()).with_context(|| format!("cannot write {}", path.display()))?)
}

/// Prints tools as guards see them.
fn show_tools(server: &ServerSettings, tools: &[Listed], standing: &BTreeMap<String, Standing>) {
    let rows: Vec<[String; 5]> = tools
        .iter()
        .map(|tool| {
            let said = server.tools.get(&tool.name).cloned().unwrap_or_default();
            let (effect, facts) = trust::judged(server.trust, tool.pin.hints, &said);
            let about = tool.refused.clone().unwrap_or_else(|| first_line(&tool.pin.description));
            let was = standing.get(&tool.name).map_or("", |standing| word(*standing));
            [&tool.name, was, effect.as_str(), facts.risk.as_str(), &about].map(str::to_owned)
        })
        .collect();
    table(&["TOOL", "WAS", "EFFECT", "RISK", "ABOUT"], &rows).iter().for_each(|line| print(line));
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(80).collect()
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Approved => "approved",
        Standing::Changed => "changed",
        Standing::New => "new",
        Standing::Gone => "gone",
        Standing::Refused => "refused",
    }
}

fn show_catalogue(json: bool) -> Result<ExitCode, Failure> {
    let catalogue = Catalogue::built_in().context("jobs/catalogue.toml cannot be read")?;
    if json {
        print_json(&catalogue);
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 4]> = catalogue
        .servers
        .iter()
        .map(|(name, entry)| {
            [name.clone(), entry.categories.join(", "), entry.server.env.join(", "), entry.about.clone()]
        })
        .collect();
    table(&["SERVER", "FOR", "NEEDS", "ABOUT"], &rows).iter().for_each(|line| print(line));
    Ok(ExitCode::SUCCESS)
}

/// A line of `houston mcp list`.
#[derive(Serialize)]
struct Row<'r> {
    name: &'r str,
    enabled: bool,
    command: String,
    kinds: &'r [String],
    /// The names under which its approved tools are offered.
    tools: Vec<String>,
}

fn list(context: &Context, json: bool) -> ExitCode {
    let (settings, pins) = (&context.loaded.settings.mcp, &context.loaded.mcp.pins);
    let mut names = houston_mcp::names::of_servers(settings, pins);
    let rows: Vec<Row<'_>> = settings
        .servers
        .iter()
        .map(|(name, server)| {
            let words = [&server.command].into_iter().chain(&server.args).cloned();
            let command = words.collect::<Vec<_>>().join(" ");
            let tools = names.remove(name).unwrap_or_default();
            Row { name, enabled: server.enabled, command, kinds: &server.kinds, tools }
        })
        .collect();
    if json {
        print_json(&serde_json::json!({"data": rows}));
        return ExitCode::SUCCESS;
    }
    let lines: Vec<[String; 5]> = rows
        .iter()
        .map(|row| {
            let enabled = if row.enabled { "yes" } else { "no" };
            let count = row.tools.len().to_string();
            [row.name.to_owned(), enabled.to_owned(), count, row.kinds.join(", "), row.command.clone()]
        })
        .collect();
    table(&["SERVER", "ENABLED", "TOOLS", "KINDS", "COMMAND"], &lines).iter().for_each(|line| print(line));
    if rows.is_empty() {
        print_stderr("there are no MCP servers; `houston mcp list --catalogue` shows some to add");
    }
    ExitCode::SUCCESS
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

fn doctor(context: &Context, only: Option<&str>, json: bool) -> Result<ExitCode, Failure> {
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
        let rows: Vec<[String; 3]> = findings.iter().map(row).collect();
        table(&["STATUS", "SERVER", "DETAIL"], &rows).iter().for_each(|line| print(line));
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
            parts.push(format!("{}: {}", word(wanted), names.join(", ")));
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

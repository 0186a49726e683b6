//! The servers of `jobs/catalogue.toml` that start without an account: installed, started, asked for their tools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use houston_mcp::Catalogue;
use houston_mcp::catalogue::Entry;
use serde_json::Value;

use crate::guest::Guest;

/// Their names, and how many tools their versions list. Keys are made up: no tool is called.
const SERVERS: [(&str, usize); 25] = [
    ("brave", 8),
    ("deepl", 5),
    ("duckduckgo", 3),
    ("elevenlabs", 27),
    ("everything", 13),
    ("exa", 2),
    ("excel", 46),
    ("fetch", 1),
    ("filesystem", 14),
    ("git", 12),
    ("gitlab", 118),
    ("image", 1),
    ("karakeep", 29),
    ("markitdown", 1),
    ("memory", 9),
    ("notion", 24),
    ("pdf", 1),
    ("pinecone", 9),
    ("playwright", 25),
    ("searxng", 4),
    ("sequential-thinking", 1),
    ("tavily", 5),
    ("time", 2),
    ("todoist", 36),
    ("weather", 6),
];

/// What a server did.
struct Row {
    name: &'static str,
    expected: usize,
    install_s: u64,
    ready_ms: u128,
    /// The tools that are offered and those that are refused, or why it did not start.
    tools: Result<(usize, usize), String>,
}

#[tokio::test]
#[ignore = "installs 25 packages; a part of `cargo xtask evidence`"]
async fn servers_of_the_catalogue_list_their_tools() {
    let catalogue = Catalogue::built_in().unwrap();
    let mut rows = Vec::new();
    for (name, expected) in SERVERS {
        let entry = catalogue.servers[name].clone();
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let place = folder.path().to_owned();
        let installed = tokio::task::spawn_blocking(move || installed(&entry, &place)).await.unwrap();
        let install_s = began.elapsed().as_secs();
        let (ready_ms, tools) = match installed {
            Err(why) => (0, Err(why)),
            Ok(settings) => {
                let guest = Guest::broken(&settings, "");
                let began = Instant::now();
                let look = guest.look().await;
                let ready = began.elapsed().as_millis();
                let counted = look.tools.map(|tools| {
                    let refused = tools.iter().filter(|tool| tool.refused.is_some()).count();
                    (tools.len() - refused, refused)
                });
                (ready, counted.map_err(|error| format!("{error}; {}", look.printed.join(" | "))))
            }
        };
        let row = Row { name, expected, install_s, ready_ms, tools };
        println!("{}", line(&row));
        rows.push(row);
    }
    let started = rows.iter().filter(|row| row.tools == Ok((row.expected, 0))).count();
    println!("{started} of {} servers of the catalogue started and listed the expected tools", rows.len());
    assert_eq!(started, rows.len(), "see the table");
}

fn line(row: &Row) -> String {
    let Row { name, expected, install_s, ready_ms, tools } = row;
    match tools {
        Ok((tools, refused)) => {
            format!(
                "| {name} | installed in {install_s} s | ready in {ready_ms} ms | {tools} tools of {expected}, {refused} refused |"
            )
        }
        Err(why) => format!("| {name} | installed in {install_s} s | failed: {why:.300} |"),
    }
}

/// Installs the package of a server in `folder`, and returns settings that start it there.
fn installed(entry: &Entry, folder: &Path) -> Result<String, String> {
    let place = |arg: &String| match arg.as_str() {
        "/path/to/folder" | "/path/to/repository" => folder.display().to_string(),
        _ => arg.clone(),
    };
    let mut args: Vec<String> = entry.server.args.iter().filter(|arg| *arg != "-y").map(place).collect();
    let package = args.remove(0);
    let (command, args) = match entry.server.command.as_str() {
        "npx" => {
            let script = npm(&package, folder)?;
            ("node".to_owned(), std::iter::once(script).chain(args).collect())
        }
        _ => (pip(&package, folder)?, args),
    };
    run(Command::new("git").args(["init", "--quiet"]).arg(folder))?;
    let dummy = |name: &String| {
        let value = if name.contains("URL") || name.contains("ADDR") { "http://127.0.0.1:9" } else { "none" };
        format!("{name} = {value:?}")
    };
    let set: Vec<String> = entry.server.env.iter().map(dummy).collect();
    Ok(format!("command = {command:?}\nargs = {args:?}\nset = {{ {} }}", set.join(", ")))
}

fn npm(package: &str, folder: &Path) -> Result<String, String> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefix"]);
    run(npm.arg(folder).arg(package))?;
    let name = package.rsplit_once('@').map_or(package, |(name, _)| name);
    let home = folder.join("node_modules").join(name);
    let text = std::fs::read_to_string(home.join("package.json")).map_err(|error| error.to_string())?;
    let about: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let program = match &about["bin"] {
        Value::String(path) => Some(path.clone()),
        Value::Object(programs) => {
            let last = name.rsplit('/').next().unwrap_or(name);
            let path = programs.get(last).or_else(|| programs.values().next());
            path.and_then(Value::as_str).map(str::to_owned)
        }
        _ => None,
    };
    let program = program.ok_or_else(|| format!("{name} has no program"))?;
    Ok(home.join(program).display().to_string())
}

/// Each in an environment of its own: their dependencies exclude each other.
fn pip(package: &str, folder: &Path) -> Result<String, String> {
    let environment: PathBuf = folder.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    run(pip.args(["install", "--quiet", "--disable-pip-version-check", package]))?;
    let name = package.split_once("==").map_or(package, |(name, _)| name);
    Ok(environment.join("bin").join(name).display().to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {printed}")) }
}

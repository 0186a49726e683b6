//! `houston doctor`: checks what Houston needs on this machine, and says what to do where something is missing.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use houston_domain::clock::SystemClock;
use houston_embedded::Servers;
use houston_queue::{DEFAULT_PREFIX, Redis};
use houston_sandbox::{Program, Sandbox, Shell};
use houston_store::Store;
use houston_store::pool::display_target;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::agentable::table;
use super::{Context, Failure, runtime};
use crate::config::ShellProgram;
use crate::connect::{self, CellAddresses};
use crate::models;
use crate::output::{print, print_json, print_stderr};

/// The time limit of Redis's answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Free disk space in MiB below which the check warns, and below which it is red.
const WARN_FREE_MIB: u64 = 1024;
const RED_FREE_MIB: u64 = 100;
/// A lower limit on open files is a warning: some hundred clients exhaust it.
const WARN_OPEN_FILES: u64 = 4096;

/// Check what Houston needs on this machine (settings, Postgres, schema, keys, Redis, models, sandbox, workspaces, disk,
/// file limit, address), and say what to do where something is missing. Changes nothing. Exits 1 when a check is red.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Ok,
    Warn,
    Red,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    id: &'static str,
    status: Status,
    detail: String,
    /// What to do; empty when the check is ok.
    #[serde(skip_serializing_if = "str::is_empty")]
    todo: String,
}

fn ok(id: &'static str, detail: impl Into<String>) -> Finding {
    Finding { id, status: Status::Ok, detail: detail.into(), todo: String::new() }
}

fn warn(id: &'static str, detail: impl Into<String>, todo: impl Into<String>) -> Finding {
    Finding { id, status: Status::Warn, detail: detail.into(), todo: todo.into() }
}

fn red(id: &'static str, detail: impl Into<String>, todo: impl Into<String>) -> Finding {
    Finding { id, status: Status::Red, detail: detail.into(), todo: todo.into() }
}

impl Doctor {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let mut findings = vec![settings(context), running(context)];
        let addresses = connect::database_and_redis(&context.loaded.settings, &context.folder);
        runtime()?.block_on(async {
            match &addresses {
                Ok(addresses) => {
                    for addresses in addresses.cells.iter() {
                        findings.extend(postgres(context, addresses).await);
                        findings.push(redis(&addresses.redis_url).await);
                    }
                }
                Err(Failure::Usage(error)) => {
                    findings.push(warn("postgres", "no database", format!("{error:#}")))
                }
                Err(Failure::Other(error)) => {
                    findings.push(red("postgres", format!("{error:#}"), "read its log in the folder"));
                }
            }
            findings.push(models(context).await);
            findings.push(sandbox().await);
            findings.extend(attachments(context).await);
            if context.loaded.settings.sandbox.shell != ShellProgram::None {
                findings.push(shell().await);
            }
        });
        findings.extend(workspaces(context));
        findings.extend([disk(context), files(), address(context)]);
        let worst = findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Ok);
        if self.json {
            print_json(&serde_json::json!({"status": worst, "checks": findings}));
        } else {
            show(&findings, worst);
        }
        Ok(if worst == Status::Red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn show(findings: &[Finding], worst: Status) {
    let word = |status: Status| match status {
        Status::Ok => "ok",
        Status::Warn => "warn",
        Status::Red => "red",
    };
    let row =
        |finding: &Finding| [word(finding.status).to_owned(), finding.id.to_owned(), finding.detail.clone()];
    let rows: Vec<[String; 3]> = findings.iter().map(row).collect();
    table(&["STATUS", "CHECK", "DETAIL"], &rows).iter().for_each(|line| print(line));
    let todo: Vec<&Finding> = findings.iter().filter(|finding| !finding.todo.is_empty()).collect();
    if !todo.is_empty() {
        print("");
    }
    for finding in todo {
        print(&format!("{}: {}", finding.id, finding.todo));
    }
    print_stderr(&format!(
        "Houston {} on this machine",
        if worst == Status::Red { "cannot work" } else { "can work" }
    ));
}

/// Always ok: invalid settings end every command before it begins.
fn settings(context: &Context) -> Finding {
    let folders: Vec<String> =
        context.loaded.folders().iter().map(|folder| folder.display().to_string()).collect();
    ok(
        "settings",
        match folders.as_slice() {
            [] => "the built-in ones".to_owned(),
            folders => format!("the built-in ones, changed by {}", folders.join(" and ")),
        },
    )
}

fn running(context: &Context) -> Finding {
    let folder = context.folder.display();
    match (Servers::running_in(&context.folder), crate::chat::Demo::read(&context.folder)) {
        (Some(pid), Some(demo)) => {
            ok("dev", format!("running in {folder} as process {pid}, at {}", demo.url))
        }
        (Some(pid), None) => ok("dev", format!("running in {folder} as process {pid}")),
        (None, _) if Servers::exist_in(&context.folder) => {
            ok("dev", format!("not running; its data is in {folder}"))
        }
        (None, _) => ok("dev", format!("no data in {folder}")),
    }
}

/// Time-outs that a pooler has kept from the connections.
async fn timeouts(store: &Store) -> Option<Finding> {
    let missing = store.missing_timeouts().await.ok().filter(|missing| !missing.is_empty())?;
    let todo = "set them for the login, as deploy/README.md says under Poolers and standbys";
    Some(red("timeouts", format!("connections have no {}", missing.join(", ")), todo))
}

async fn postgres(context: &Context, addresses: &CellAddresses) -> Vec<Finding> {
    let target = display_target(&addresses.database_url);
    if let Err(error) = connect::probe(&addresses.database_url).await {
        let todo = "start it, or correct DATABASE_URL";
        return vec![red("postgres", format!("{target} is unreachable: {error}"), todo)];
    }
    let mut findings = vec![ok("postgres", format!("{target} answers"))];
    let store = match connect::open(&context.loaded.settings, &addresses.database_url) {
        Ok(store) => store,
        Err(Failure::Usage(error) | Failure::Other(error)) => {
            findings.push(red("schema", format!("{error:#}"), "correct DATABASE_URL"));
            return findings;
        }
    };
    if let Err(error) = store.find_primary().await {
        findings.push(red("schema", error.to_string(), "promote a standby, or correct DATABASE_URL"));
        return findings;
    }
    findings.extend(timeouts(&store).await);
    match store.check_schema().await {
        Err(error) => {
            findings.push(red("schema", error.to_string(), "run `houston migrate` with the newest binary"))
        }
        Ok(()) => {
            findings.push(ok("schema", "up to date"));
            findings.push(match store.row_security().await {
                Err(error) => red("row_security", error.to_string(), "read the log of Postgres"),
                Ok(found) => match found.todo() {
                    None => ok("row_security", found.to_string()),
                    Some(todo) => warn("row_security", found.to_string(), todo),
                },
            });
            findings.push(match store.operator().list_api_keys().await {
                Err(error) => red("api_keys", error.to_string(), "read the log of Postgres"),
                Ok(keys) => match keys.iter().filter(|key| key.is_valid()).count() {
                    0 => warn("api_keys", "there is no active key", "create one: houston key create"),
                    count => ok("api_keys", format!("{count} active")),
                },
            });
        }
    }
    store.close().await;
    findings
}

async fn redis(url: &str) -> Finding {
    if url.is_empty() {
        let todo = "set HOUSTON_REDIS_URL for `serve` and `work`; `houston dev` starts its own";
        return warn("redis", "no address is set", todo);
    }
    let redis = match Redis::open(url, DEFAULT_PREFIX, Arc::new(SystemClock)) {
        Ok(redis) => redis,
        Err(error) => return red("redis", error.to_string(), "correct HOUSTON_REDIS_URL"),
    };
    let address = redis.address();
    let unreachable = |why: String| {
        let todo = "start it, or correct HOUSTON_REDIS_URL; without Redis runs begin up to a second later";
        red("redis", format!("{address} is unreachable: {why}"), todo)
    };
    match tokio::time::timeout(TIMEOUT, redis.version()).await {
        Ok(Ok(version)) => ok("redis", format!("{address} answers, version {version}")),
        Ok(Err(error)) => unreachable(error.to_string()),
        Err(_) => unreachable(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}

async fn models(context: &Context) -> Finding {
    let todo =
        "set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or start Ollama; `houston ask hello` tests it";
    match models::build(&context.loaded).await {
        Err(error) => red("models", error.to_string(), todo),
        Ok(models) => {
            let summary = models.summary.join("; ");
            match summary.as_str() {
                summary if summary.starts_with("none:") => red("models", summary, todo),
                summary if summary.contains("SIMULATED") => warn("models", summary, todo),
                summary => ok("models", summary),
            }
        }
    }
}

/// Without a whole sandbox, agents can do all but run code and read pages and documents.
async fn sandbox() -> Finding {
    match Sandbox::new(Program::this(), 1).check().await {
        Ok(()) => ok("sandbox", "code, pages and documents are processed behind all walls"),
        Err(error) => warn(
            "sandbox",
            error.to_string(),
            "tools that need it are not offered; use Linux 6.12 or newer with Landlock and seccomp, and in a container a \
             profile that lets the system calls of both through",
        ),
    }
}

/// Whether commands of the system can be run, if the settings want that.
async fn shell() -> Finding {
    let works = match Shell::find(1) {
        Ok(shell) => shell.check().await,
        Err(error) => Err(error),
    };
    match works {
        Ok(()) => ok("shell", "commands of the system are run with bwrap"),
        Err(error) => warn(
            "shell",
            error.to_string(),
            "the tool for it is not offered; install the package bubblewrap, and let this user make user namespaces \
             (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, or the profile of the \
             container)",
        ),
    }
}

/// Whether the object store of attachments can be used, if one is set.
async fn attachments(context: &Context) -> Option<Finding> {
    const ACTION: &str = "correct `url` in attachments.toml, or the credentials (AWS_…), or the bucket";
    Some(match context.loaded.settings.attachments.open() {
        Ok(None) => return None,
        Ok(Some(objects)) => match objects.check().await {
            Ok(()) => ok("attachments", "the object store can be written".to_owned()),
            Err(error) => red("attachments", error.to_string(), ACTION),
        },
        Err(error) => red("attachments", error.to_string(), ACTION),
    })
}

/// Whether the folder of workspaces can be used, if one is set.
fn workspaces(context: &Context) -> Option<Finding> {
    Some(match context.loaded.settings.workspaces.open() {
        Ok(None) => return None,
        Ok(Some(root)) => ok("workspaces", format!("files of agents are in {}", root.path().display())),
        Err(error) => {
            red("workspaces", error.to_string(), "correct `root` in workspaces.toml, or the folder")
        }
    })
}

fn disk(context: &Context) -> Finding {
    // A folder that does not exist yet will be on the file system of the working directory.
    let folder = if context.folder.exists() { context.folder.as_path() } else { std::path::Path::new(".") };
    let Ok(found) = rustix::fs::statvfs(folder) else {
        return warn("disk", "the free disk space cannot be read", "check it with `df`");
    };
    let mib = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    let detail = format!("{mib} MiB free");
    if mib < RED_FREE_MIB {
        red("disk", detail, "free disk space: soon nothing can be stored")
    } else if mib < WARN_FREE_MIB {
        warn("disk", detail, "free disk space")
    } else {
        ok("disk", detail)
    }
}

fn files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < WARN_OPEN_FILES => warn(
            "files",
            format!("at most {files} open files"),
            format!("raise the limit: ulimit -n {WARN_OPEN_FILES}"),
        ),
        Some(files) => ok("files", format!("at most {files} open files")),
        None => ok("files", "unlimited open files"),
    }
}

fn address(context: &Context) -> Finding {
    let address = &context.loaded.settings.server.address;
    let of_dev =
        crate::chat::Demo::read(&context.folder).is_some_and(|demo| demo.url.ends_with(address.as_str()));
    match std::net::TcpListener::bind(address) {
        Ok(_) => ok("address", format!("{address} is free")),
        Err(_) if of_dev && Servers::running_in(&context.folder).is_some() => {
            ok("address", format!("{address} is used by `houston dev` of this folder"))
        }
        Err(error) => {
            let todo =
                "stop the process that listens there, or choose another address: --address 127.0.0.1:8081";
            warn("address", format!("cannot listen on {address}: {error}"), todo)
        }
    }
}

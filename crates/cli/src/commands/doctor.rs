//! `houston doctor`: whether Houston can work here, and what to do where it cannot.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use houston_domain::clock::SystemClock;
use houston_embedded::Servers;
use houston_queue::{DEFAULT_PREFIX, Redis};
use houston_store::pool::shown_target;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::agentable::table;
use super::{Context, Failure, runtime};
use crate::connect::{self, Addresses};
use crate::models;
use crate::output::{print, print_json, tell};

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Free space, in MiB, below which it is worth a word, and below which nothing can be stored soon.
const LITTLE_SPACE_MIB: u64 = 1024;
const NO_SPACE_MIB: u64 = 100;
/// Files below which a server of some hundred clients runs out of them.
const FEW_FILES: u64 = 4096;

/// Check what Houston needs here (settings, Postgres, schema, keys, Redis, models, disk, file limit, address), and say
/// what to do where something is missing. Changes nothing. Exits 1 when something is red.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// One JSON object
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

/// What one check found.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    id: &'static str,
    status: Status,
    detail: String,
    /// What to do; nothing when it is ok.
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
                    findings.extend(postgres(context, addresses).await);
                    findings.push(redis(&addresses.redis_url).await);
                }
                Err(Failure::Usage(error)) => {
                    findings.push(warn("postgres", "there is none yet", format!("{error:#}")))
                }
                Err(Failure::Other(error)) => {
                    findings.push(red("postgres", format!("{error:#}"), "see its log in the folder"));
                }
            }
            findings.push(models(context).await);
        });
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
    tell(&format!("Houston {} here", if worst == Status::Red { "cannot work" } else { "can work" }));
}

/// Settings that are wrong end every command before it begins.
fn settings(context: &Context) -> Finding {
    let folders: Vec<String> =
        context.loaded.folders().iter().map(|folder| folder.display().to_string()).collect();
    ok(
        "settings",
        match folders.as_slice() {
            [] => "those that come with Houston".to_owned(),
            folders => format!("those that come with Houston, changed by {}", folders.join(" and ")),
        },
    )
}

fn running(context: &Context) -> Finding {
    let folder = context.folder.display();
    match (Servers::running_in(&context.folder), crate::chat::Demo::read(&context.folder)) {
        (Some(pid), Some(demo)) => ok("dev", format!("process {pid} runs in {folder}, at {}", demo.url)),
        (Some(pid), None) => ok("dev", format!("process {pid} runs in {folder}")),
        (None, _) if Servers::exist_in(&context.folder) => {
            ok("dev", format!("none runs; its data is in {folder}"))
        }
        (None, _) => ok("dev", format!("none has run in {folder}")),
    }
}

async fn postgres(context: &Context, addresses: &Addresses) -> Vec<Finding> {
    let target = shown_target(&addresses.database_url);
    if let Err(error) = connect::answers(&addresses.database_url).await {
        let todo = "start it, or correct DATABASE_URL";
        return vec![red("postgres", format!("{target} does not answer: {error}"), todo)];
    }
    let mut findings = vec![ok("postgres", format!("{target} answers"))];
    let store = match connect::open(&context.loaded.settings, &addresses.database_url) {
        Ok(store) => store,
        Err(Failure::Usage(error) | Failure::Other(error)) => {
            findings.push(red("schema", format!("{error:#}"), "correct DATABASE_URL"));
            return findings;
        }
    };
    match store.check_schema().await {
        Err(error) => {
            findings.push(red("schema", error.to_string(), "run `houston migrate` with the newest binary"))
        }
        Ok(()) => {
            findings.push(ok("schema", "it is the one of this binary"));
            findings.push(match store.list_api_keys().await {
                Err(error) => red("api_keys", error.to_string(), "see Postgres's log"),
                Ok(keys) => match keys.iter().filter(|key| key.revoked_at.is_none()).count() {
                    0 => warn("api_keys", "none is in use", "make one: houston key create"),
                    count => ok("api_keys", format!("{count} in use")),
                },
            });
        }
    }
    store.close().await;
    findings
}

async fn redis(url: &str) -> Finding {
    if url.is_empty() {
        let todo = "set HOUSTON_REDIS_URL for `serve` and `work`; `houston dev` brings its own";
        return warn("redis", "no address is known", todo);
    }
    let redis = match Redis::open(url, DEFAULT_PREFIX, Arc::new(SystemClock)) {
        Ok(redis) => redis,
        Err(error) => return red("redis", error.to_string(), "correct HOUSTON_REDIS_URL"),
    };
    let address = redis.address();
    let silent = |why: String| {
        let todo = "start it, or correct HOUSTON_REDIS_URL; until then runs begin up to a second later";
        red("redis", format!("{address} does not answer: {why}"), todo)
    };
    match tokio::time::timeout(PATIENCE, redis.version()).await {
        Ok(Ok(version)) => ok("redis", format!("{address} answers, version {version}")),
        Ok(Err(error)) => silent(error.to_string()),
        Err(_) => silent(format!("nothing within {} s", PATIENCE.as_secs())),
    }
}

async fn models(context: &Context) -> Finding {
    let todo =
        "set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or start Ollama; `houston ask hello` tries it";
    match models::build(&context.loaded).await {
        Err(error) => red("models", error.to_string(), todo),
        Ok(models) => {
            let told = models.told.join("; ");
            match told.as_str() {
                told if told.starts_with("none:") => red("models", told, todo),
                told if told.contains("SIMULATED") => warn("models", told, todo),
                told => ok("models", told),
            }
        }
    }
}

fn disk(context: &Context) -> Finding {
    // Of a folder that is not there yet, that of the folder it will be in.
    let folder = if context.folder.exists() { context.folder.as_path() } else { std::path::Path::new(".") };
    let Ok(found) = rustix::fs::statvfs(folder) else {
        return warn("disk", "the free space cannot be read", "look at `df`");
    };
    let mib = found.f_bavail.saturating_mul(found.f_frsize) >> 20;
    let detail = format!("{mib} MiB free");
    if mib < NO_SPACE_MIB {
        red("disk", detail, "make room: nothing can be stored soon")
    } else if mib < LITTLE_SPACE_MIB {
        warn("disk", detail, "make room")
    } else {
        ok("disk", detail)
    }
}

fn files() -> Finding {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < FEW_FILES => {
            warn("files", format!("{files} may be open at once"), format!("raise it: ulimit -n {FEW_FILES}"))
        }
        Some(files) => ok("files", format!("{files} may be open at once")),
        None => ok("files", "any number may be open at once"),
    }
}

fn address(context: &Context) -> Finding {
    let address = &context.loaded.settings.server.address;
    let of_dev =
        crate::chat::Demo::read(&context.folder).is_some_and(|demo| demo.url.ends_with(address.as_str()));
    match std::net::TcpListener::bind(address) {
        Ok(_) => ok("address", format!("{address} is free")),
        Err(_) if of_dev && Servers::running_in(&context.folder).is_some() => {
            ok("address", format!("{address} is that of the `houston dev` of this folder"))
        }
        Err(error) => {
            let todo = "stop what listens there, or choose another: --address 127.0.0.1:8081";
            warn("address", format!("cannot listen on {address}: {error}"), todo)
        }
    }
}

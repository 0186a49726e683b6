//! `houston doctor`: checks what Houston needs on this machine, and says what to do where something is missing.

mod servers;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use houston_domain::cell::CellName;
use houston_domain::health::HealthStatus as Status;
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelErrorCode};
use houston_embedded::Servers;
use houston_llm::{Description, Model, Request, call};
use houston_sandbox::{Program, Sandbox, Shell};
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::agentable::print_table;
use super::{Context, Failure, Result, runtime};
use crate::config::ShellProgram;
use crate::connect;
use crate::models::{self, Models};
use crate::output::{print, print_json, print_stderr};

/// Free disk space in MiB below which the check warns, and below which it is red.
const WARN_FREE_MIB: u64 = 1024;
const RED_FREE_MIB: u64 = 100;
/// A lower limit on open files is a warning: some hundred clients exhaust it.
const WARN_OPEN_FILES: u64 = 4096;

const REMEDY: &str =
    "set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …) or start Ollama; `houston ask hello` tests it";
/// The time limit of a provider's answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The limit of the answer in tokens: some providers refuse less.
const TOKENS: u32 = 16;

/// Check what Houston needs on this machine, and say what to do where something is missing or wrong.
///
/// Looks at the settings, Postgres (version, settings, clock, connections, schema), keys, work that waits, Redis, models,
/// sandbox, workspaces, disk, file limit and address. Each provider is asked one short question, which shows whether its key
/// is valid. Changes nothing. Exits 1 when a check is red, 2 when the settings are invalid.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Do not ask the providers of models
    #[arg(long)]
    no_question: bool,
}

impl Doctor {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let context = &context;
        let mut findings = vec![settings(context), running(context)];
        let addresses = connect::existing(&context.loaded.settings, &context.folder, true);
        runtime()?.block_on(async {
            match &addresses {
                Ok(addresses) => {
                    let several = addresses.cells.count() > 1;
                    for (name, addresses) in addresses.cells.named() {
                        let mut found = servers::postgres(context, addresses).await;
                        found.push(servers::redis(&addresses.redis_url).await);
                        let cell = several.then_some(name);
                        findings.extend(found.into_iter().map(|finding| finding.of_cell(cell)));
                    }
                }
                Err(Failure::Usage(error)) => {
                    findings.push(warn("postgres", "no database", format!("{error:#}")))
                }
                Err(Failure::Other(error)) => {
                    findings.push(red("postgres", format!("{error:#}"), "read its log in the folder"));
                }
            }
            findings.extend(models(context, !self.no_question).await);
            findings.push(sandbox().await);
            findings.extend(attachments(context).await);
            if context.loaded.settings.sandbox.shell != ShellProgram::None {
                findings.push(shell().await);
            }
        });
        findings.extend(workspaces(context));
        findings.extend([disk(context), files(), address(context)]);
        let worst = self.report(&findings);
        Ok(if worst == Status::Red { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// What is found when the settings are invalid: nothing else can be checked then.
    pub(crate) fn invalid_settings(&self, error: &str) -> ExitCode {
        let todo = "correct the file or the variable; `houston config` shows where each setting comes from";
        self.report(&[red("settings", error, todo)]);
        ExitCode::from(2)
    }

    /// Prints what was found, and returns the worst of it.
    fn report(&self, findings: &[Finding]) -> Status {
        let worst = findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Ok);
        if self.json {
            print_json(&serde_json::json!({"status": worst, "checks": findings}));
        } else {
            show(findings, worst);
        }
        worst
    }
}

fn show(findings: &[Finding], worst: Status) {
    let row = |finding: &Finding| {
        [finding.status.as_str().to_owned(), finding.id.to_owned(), finding.detail.clone()]
    };
    print_table(["STATUS", "CHECK", "DETAIL"], findings.iter().map(row));
    let todo: Vec<&Finding> = findings.iter().filter(|finding| !finding.todo.is_empty()).collect();
    if !todo.is_empty() {
        print("");
    }
    for finding in todo {
        print(&format!("{}: {}", finding.id, finding.todo));
    }
    let can = if worst == Status::Red { "cannot" } else { "can" };
    print_stderr(&format!("Houston {can} work on this machine"));
}

/// Ok: with invalid settings this is not reached.
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

impl Finding {
    /// The same, of one cell of several.
    fn of_cell(mut self, cell: Option<&CellName>) -> Self {
        if let Some(name) = cell {
            self.detail = format!("cell {name}: {}", self.detail);
        }
        self
    }
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

/// Whether secrets of tenants can be sealed and opened.
fn secrets(context: &Context, has_secrets: bool) -> Finding {
    const REMEDY: &str = "set HOUSTON_SECRETS_KEY to the same value for `serve` and `work`; a new one: openssl rand -base64 32";
    // `houston dev` makes one in its folder.
    let is_set = context.loaded.secret_keys.is_some() || context.folder.join("secrets-key").exists();
    match (is_set, has_secrets) {
        (true, _) => ok("secrets", "there is a key for secrets of tenants"),
        (false, true) => red("secrets", "secrets are stored, but there is no key to open them", REMEDY),
        (false, false) => {
            warn("secrets", "there is no key: webhooks and MCP servers with a login are refused", REMEDY)
        }
    }
}

/// Whether the folder of workspaces can be used, if one is set.
fn workspaces(context: &Context) -> Option<Finding> {
    Some(match context.loaded.settings.workspaces.open() {
        Ok(None) => return None,
        Ok(Some(root)) => {
            let folder = root.path.display();
            match rustix::fs::access(&root.path, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => ok("workspaces", format!("files of agents are in {folder}")),
                Err(error) => red(
                    "workspaces",
                    format!("{folder} cannot be written: {error}"),
                    "let the user that runs Houston write there (chown), or correct `root` in workspaces.toml",
                ),
            }
        }
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

/// Which models there are; with `asks`, whether each provider answers one question of a few tokens.
async fn models(context: &Context, asks: bool) -> Vec<Finding> {
    let models = match models::build(&context.loaded).await {
        Ok(models) => models,
        Err(error) => return vec![red("models", error.to_string(), REMEDY)],
    };
    let summary = models.summary.join("; ");
    let mut findings = vec![match summary.as_str() {
        summary if summary.starts_with("none:") => red("models", summary, REMEDY),
        summary if summary.contains("SIMULATED") => warn("models", summary, REMEDY),
        summary => ok("models", summary),
    }];
    if asks {
        findings.extend(providers(&models).await);
    }
    findings
}

/// Asks the first model of each provider.
async fn providers(models: &Models) -> Option<Finding> {
    let mut seen = BTreeSet::new();
    let candidates = models.routes.by_use_case.values().flat_map(|route| &route.candidates);
    let asked: Vec<Description> = candidates
        .map(|candidate| candidate.description.clone())
        .filter(|model| !model.simulated && seen.insert(model.provider.clone()))
        .collect();
    let mut failed = Vec::new();
    for description in &asked {
        let model = (models.make)(description.to_string()).await;
        if let Err(error) = ask(&*model).await {
            failed.push((description, error));
        }
    }
    Some(match failed.first() {
        None if asked.is_empty() => return None,
        None => {
            let names: Vec<String> = asked.iter().map(ToString::to_string).collect();
            ok("providers", format!("{} answer", names.join(", ")))
        }
        Some((_, first)) => {
            let details: Vec<String> =
                failed.iter().map(|(model, error)| format!("{model}: {}", error.message)).collect();
            let (detail, todo) = (details.join("; "), advice(first.code));
            if failed.len() == asked.len() {
                red("providers", detail, todo)
            } else {
                warn("providers", detail, todo)
            }
        }
    })
}

async fn ask(model: &dyn Model) -> Result<(), ModelError> {
    let entries = [Entry::user(vec![Block::text("Say hello.")])];
    let request = Request { entries: &entries, max_output_tokens: TOKENS, ..Request::default() };
    match tokio::time::timeout(TIMEOUT, call(model, &request)).await {
        // It answered, if with fewer words than this asked for.
        Ok(Ok(_) | Err(ModelError { code: ModelErrorCode::InvalidResponse, .. })) => Ok(()),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let text = format!("no answer within {} s", TIMEOUT.as_secs());
            Err(ModelError::new(ModelErrorCode::Timeout, text))
        }
    }
}

fn advice(code: ModelErrorCode) -> &'static str {
    match code {
        ModelErrorCode::AuthenticationError => {
            "the key is wrong or has expired: set a valid one, start `serve` and `work` again, and repeat runs that failed"
        }
        ModelErrorCode::ModelNotFound => {
            "correct the model's name: HOUSTON_MODEL, models.toml or the agent's settings"
        }
        ModelErrorCode::RateLimited => {
            "wait, or raise the limit at the provider; runs are repeated by themselves"
        }
        ModelErrorCode::NetworkError | ModelErrorCode::Timeout => {
            "let this machine reach the provider (firewall, proxy, address); runs are repeated by themselves"
        }
        _ => REMEDY,
    }
}

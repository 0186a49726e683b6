//! `houston doctor`: checks what Houston needs on this machine, and says what to do where something is missing.

mod database;
mod finding;
mod machine;
mod providers;
mod redis;
mod work;

use std::process::ExitCode;

use clap::Args;
use houston_embedded::Servers;
use houston_sandbox::{Program, Sandbox, Shell};

use self::finding::{Finding, Status, ok, red, warn};
use super::agentable::table;
use super::{Context, Failure, runtime};
use crate::config::ShellProgram;
use crate::connect;
use crate::output::{print, print_json, print_stderr};

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
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let mut findings = vec![settings(context), running(context)];
        let addresses = connect::database_and_redis(&context.loaded.settings, &context.folder);
        runtime()?.block_on(async {
            match &addresses {
                Ok(addresses) => {
                    let several = addresses.cells.count() > 1;
                    for (name, addresses) in addresses.cells.named() {
                        let mut found = database::postgres(context, addresses).await;
                        found.push(redis::redis(&addresses.redis_url).await);
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
            findings.extend(providers::models(context, !self.no_question).await);
            findings.push(sandbox().await);
            findings.extend(attachments(context).await);
            if context.loaded.settings.sandbox.shell != ShellProgram::None {
                findings.push(shell().await);
            }
        });
        findings.extend(machine::workspaces(context));
        findings.extend([machine::disk(context), machine::files(), machine::address(context)]);
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

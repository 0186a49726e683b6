//! `houston audit`: who changed what, through the API and by commands.

use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use houston_api::Local;
use houston_domain::audit::AuditRecord;
use houston_domain::clock::SystemClock;
use houston_domain::id::{Ids, TenantId};
use houston_store::audit::NewRecord;
use houston_store::{Error, Store};
use serde_json::json;

use super::agentable::{Api, one_line, print_table, segment};
use super::dev::DEMO;
use super::{Context, Failure, Result};
use crate::environment::environment;
use crate::output::{print_json, print_stderr};

/// The tenant of `houston key create`.
const DEFAULT: &str = "default";

/// Show who changed what, newest first: requests that change something, also refused ones, and commands.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The tenant whose log it is, by its name; what was done to workers and lanes is in each
    /// [default: `default`, or that of `houston dev`]
    #[arg(long)]
    tenant: Option<String>,
    /// Only this operation, as in `update_agent`
    #[arg(long)]
    operation: Option<String>,
    /// Only what was done to this thing, as in `agent_…`
    #[arg(long)]
    target: Option<String>,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let filters = [("operation", self.operation), ("target", self.target)];
        let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let path = filters.fold("/v1/audit?".to_owned(), |path, (name, value)| {
            format!("{path}{name}={}&", segment(&value))
        });
        context.with_api(async |api| {
            let api = of_tenant(&api, self.tenant.as_deref()).await?;
            let records: Vec<AuditRecord> = api.list(&path, self.limit.into()).await?.data;
            if self.json {
                print_json(&json!({"data": records}));
                return Ok(());
            }
            print_table(["AT", "ACTOR", "OPERATION", "TARGET", "OUTCOME"], records.iter().map(row));
            if records.is_empty() {
                print_stderr("nothing was changed");
            }
            Ok(())
        })
    }
}

/// The API for the tenant with this name; without one, for the first of those that commands create.
async fn of_tenant(api: &Api, name: Option<&str>) -> Result<Local> {
    let names = name.map_or_else(|| vec![DEFAULT, DEMO], |name| vec![name]);
    for name in &names {
        if let Some(found) = api.of_tenant(name).await? {
            return Ok(found);
        }
    }
    Err(Failure::Other(anyhow!(
        "there is no tenant `{}`: name the one whose log you want with --tenant",
        names.join("` or `")
    )))
}

/// Records what a command has changed, for a tenant or, without one, for the whole installation. If that fails, the change stays,
/// and the log of the process says so.
pub(crate) async fn record(store: &Store, tenant: Option<TenantId>, operation: &str, target: String) {
    check(operation, store.operator().record(tenant, &new(operation, target)).await);
}

/// As [`record`], of a command that has not done, for the whole installation, all that it was asked for: `code` says why.
pub(crate) async fn record_failed(store: &Store, operation: &str, target: String, code: &str) {
    let record = NewRecord { code: Some(code.to_owned()), ..new(operation, target) };
    check(operation, store.operator().record(None, &record).await);
}

fn check(operation: &str, recorded: Result<(), Error>) {
    if let Err(error) = recorded {
        tracing::warn!(%error, operation, "a change was not recorded in the audit log");
    }
}

fn new(operation: &str, target: String) -> NewRecord {
    NewRecord::without_request(Ids::new(Arc::new(SystemClock)).next(), actor(), operation, target)
}

/// The login of the machine, as far as its environment says.
pub(crate) fn actor() -> String {
    let login = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(environment);
    login.map_or_else(|| "houston".to_owned(), |login| format!("houston ({})", one_line(&login, 60)))
}

fn row(record: &AuditRecord) -> [String; 5] {
    let outcome = match &record.code {
        Some(code) if record.status == 0 => code.clone(),
        Some(code) => format!("{} {code}", record.status),
        None if record.status == 0 => "done".to_owned(),
        None => record.status.to_string(),
    };
    let (actor, target) = (&record.actor, record.target.as_deref().unwrap_or("-"));
    let actor = record.actor_name.as_ref().map_or_else(|| actor.clone(), |name| format!("{name} ({actor})"));
    [
        record.at.0.format("%Y-%m-%d %H:%M:%S").to_string(),
        one_line(&actor, 80),
        record.operation.clone(),
        one_line(target, 60),
        outcome,
    ]
}

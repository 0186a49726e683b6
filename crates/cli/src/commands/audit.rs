//! `houston audit`: who changed what, through the API and by commands.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use houston_domain::clock::SystemClock;
use houston_domain::id::{Ids, TenantId};
use houston_store::audit::{NewRecord, Record, RecordFilter};
use houston_store::{Error, Store, TenantStore};
use serde_json::{Value, json};

use super::agentable::{Database, one_line, table};
use super::dev::DEMO;
use super::{Context, Failure};
use crate::environment::environment;
use crate::output::{print, print_json, print_stderr};

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
    #[command(flatten)]
    database: Database,
}

impl Audit {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        let filter =
            RecordFilter { operation: self.operation, target: self.target, ..RecordFilter::default() };
        self.database.with(context, async |_, stores| {
            let tenant = tenant(stores.home(), self.tenant.as_deref()).await?;
            let mut records = Vec::new();
            for store in stores.iter() {
                records.extend(store.tenant(tenant).records(&filter, None, self.limit.into()).await?);
                records.extend(store.operator().records_of_installation(&filter, self.limit.into()).await?);
            }
            records.sort_unstable_by_key(|record| std::cmp::Reverse(record.of.id));
            records.truncate(self.limit.into());
            if self.json {
                print_json(&json!({"data": records.iter().map(as_json).collect::<Vec<Value>>()}));
                return Ok(ExitCode::SUCCESS);
            }
            let rows: Vec<[String; 5]> = records.iter().map(row).collect();
            let heads = ["AT", "ACTOR", "OPERATION", "TARGET", "OUTCOME"];
            table(&heads, &rows).iter().for_each(|line| print(line));
            if records.is_empty() {
                print_stderr("nothing was changed");
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The tenant with this name; without one, the first of those that commands create.
async fn tenant(store: &Store, name: Option<&str>) -> Result<TenantId, Failure> {
    let names = name.map_or_else(|| vec![DEFAULT, DEMO], |name| vec![name]);
    for name in &names {
        match store.operator().tenant_named(name).await {
            Err(Error::NotFound { .. }) => {}
            found => return Ok(found?),
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

/// As [`record`], for the tenant of `store`. Operations and targets are named as those of requests that do the same.
pub(crate) async fn record_of(store: TenantStore<'_>, operation: &str, target: impl ToString) {
    check(operation, store.write_audit(&new(operation, target.to_string())).await);
}

fn check(operation: &str, recorded: Result<(), Error>) {
    if let Err(error) = recorded {
        tracing::warn!(%error, operation, "a change was not recorded in the audit log");
    }
}

fn new(operation: &str, target: String) -> NewRecord {
    NewRecord {
        id: Ids::new(Arc::new(SystemClock)).next(),
        actor: actor(),
        on_behalf_of: None,
        operation: operation.to_owned(),
        target: Some(target),
        status: 0,
        code: None,
        request_id: None,
    }
}

/// The login of the machine, as far as its environment says.
fn actor() -> String {
    let login = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(environment);
    login.map_or_else(|| "houston".to_owned(), |login| format!("houston ({})", one_line(&login, 60)))
}

fn row(Record { of, actor_name, at }: &Record) -> [String; 5] {
    let outcome = match &of.code {
        Some(code) if of.status == 0 => code.clone(),
        Some(code) => format!("{} {code}", of.status),
        None if of.status == 0 => "done".to_owned(),
        None => of.status.to_string(),
    };
    let target = of.target.as_deref().unwrap_or("-");
    let actor = actor_name.as_ref().map_or_else(|| of.actor.clone(), |name| format!("{name} ({})", of.actor));
    [
        at.format("%Y-%m-%d %H:%M:%S").to_string(),
        one_line(&actor, 80),
        of.operation.clone(),
        one_line(target, 60),
        outcome,
    ]
}

fn as_json(Record { of, actor_name, at }: &Record) -> Value {
    json!({
        "id": of.id, "at": at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true), "actor": of.actor,
        "actor_name": actor_name, "on_behalf_of": of.on_behalf_of, "operation": of.operation, "target": of.target, "status": of.status,
        "code": of.code, "request_id": of.request_id,
    })
}

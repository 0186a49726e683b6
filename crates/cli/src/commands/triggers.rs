//! `houston triggers`: what starts without a message: lists triggers of a user, adds, pauses and deletes them.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::id::{Ids, TriggerId, UserId};
use houston_domain::trigger::effect::Firing;
use houston_protocol::trigger::{CreateTrigger, TriggerWhen};
use houston_store::trigger::{Trigger, TriggerChange};
use houston_store::{Error, Store, TenantStore};
use serde_json::{Value, json};

use super::agentable::{Database, one_line, table};
use super::{Context, Failure, audit};
use crate::output::{print, print_json};

/// Maximum size of a file with a trigger, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// List the triggers of a user, add, pause, resume and delete them, and see what became of each.
#[derive(Debug, Args)]
pub(crate) struct Triggers {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the triggers of a user
    List {
        /// `user_…`
        user: UserId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
    /// Add a trigger for a user, as `POST /v1/users/{id}/triggers` does
    Add {
        /// `user_…`
        user: UserId,
        /// File with the body of the request, JSON; `-` for stdin
        file: PathBuf,
        #[command(flatten)]
        database: Database,
    },
    /// Switch a trigger off: it does not fire until it is resumed
    Pause {
        /// `trigger_…`
        id: TriggerId,
        #[command(flatten)]
        database: Database,
    },
    /// Switch a trigger on: times and events from before now are left out
    Resume {
        /// `trigger_…`
        id: TriggerId,
        #[command(flatten)]
        database: Database,
    },
    /// Delete a trigger
    Delete {
        /// `trigger_…`
        id: TriggerId,
        #[command(flatten)]
        database: Database,
    },
    /// Print the last 20 times that a trigger was due: what it has made, or why it did not fire
    Firings {
        /// `trigger_…`
        id: TriggerId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
}

impl Triggers {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { user, json, database } => database.with(context, async |_, stores| {
                let store = stores.of(user);
                let tenant = store.operator().tenant_of(user).await?;
                show(&store.tenant(tenant).triggers(user).await?, json);
                Ok(ExitCode::SUCCESS)
            }),
            Action::Add { user, file, database } => database.with(context, async |context, stores| {
                let store = stores.of(user);
                let tenant = store.operator().tenant_of(user).await?;
                add(&context, store.tenant(tenant), user, read(&file)?).await?;
                Ok(ExitCode::SUCCESS)
            }),
            Action::Pause { id, database } => switch(context, database, id, false),
            Action::Resume { id, database } => switch(context, database, id, true),
            Action::Delete { id, database } => database.with(context, async |_, stores| {
                let store = of_trigger(stores.of(id), id).await?;
                store.delete_trigger(id).await?;
                audit::record_of(store, "delete_trigger", id).await;
                print(&format!("{id}: deleted"));
                Ok(ExitCode::SUCCESS)
            }),
            Action::Firings { id, json, database } => database.with(context, async |_, stores| {
                show_firings(&of_trigger(stores.of(id), id).await?.trigger_firings(id).await?, json);
                Ok(ExitCode::SUCCESS)
            }),
        }
    }
}

/// The handle for the tenant that a trigger belongs to.
async fn of_trigger(store: &Store, id: TriggerId) -> Result<TenantStore<'_>, Failure> {
    let tenant = store.operator().tenant_of_trigger(id).await.map_err(|error| match error {
        Error::NotFound { .. } => Failure::Other(anyhow!(
            "there is no {id}; `houston triggers list USER` prints the triggers of a user"
        )),
        error => error.into(),
    })?;
    Ok(store.tenant(tenant))
}

fn switch(context: Context, database: Database, id: TriggerId, enabled: bool) -> Result<ExitCode, Failure> {
    database.with(context, async |_, stores| {
        let change = TriggerChange { enabled: Some(enabled), ..TriggerChange::default() };
        let store = of_trigger(stores.of(id), id).await?;
        store.change_trigger(id, change, SystemClock.now()).await?;
        audit::record_of(store, "update_trigger", id).await;
        print(&format!("{id}: {}", if enabled { "resumed" } else { "paused" }));
        Ok(ExitCode::SUCCESS)
    })
}

fn read(file: &std::path::Path) -> Result<CreateTrigger, Failure> {
    let mut text = String::new();
    let read = match file.to_str() {
        Some("-") => std::io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text),
        _ => std::fs::File::open(file).and_then(|open| open.take(MAX_FILE_BYTES).read_to_string(&mut text)),
    };
    read.with_context(|| format!("{} cannot be read", file.display())).map_err(Failure::Usage)?;
    let example = r#"{"name": "Every morning", "when": {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin"}, "then": {"type": "tell", "agentable_id": "goal_…", "instructions": "Look for new offers."}}"#;
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|error| Failure::Usage(anyhow!("{error}; a trigger is as {example}")))
}

async fn add(
    context: &Context,
    store: TenantStore<'_>,
    user: UserId,
    request: CreateTrigger,
) -> Result<(), Failure> {
    let ids = Ids::new(Arc::new(SystemClock));
    let types = context.loaded.agent_types();
    let expressions = json!({"when": request.when, "then": request.then});
    let trigger =
        houston_api::new_trigger(&types, (ids.beside(user), user), request, (SystemClock.now(), None))
            .map_err(|error| Failure::Usage(anyhow!("{}", said(error))))?;
    let tried = houston_meter::try_expressions(user.0, &expressions).await;
    tried.map_err(|problem| Failure::Usage(anyhow!("{problem}")))?;
    let (agentable, kind) = &trigger.agentable;
    let has_none = || Failure::Other(anyhow!("{user} has no {}", agentable.public_id(kind)));
    let stored = store.kind_for_trigger(user, *agentable).await.map_err(|error| match error {
        Error::NotFound { .. } => has_none(),
        error => error.into(),
    })?;
    if stored != *kind {
        return Err(has_none());
    }
    store.create_trigger(&trigger, None, &Value::Null).await?;
    audit::record_of(store, "create_trigger", user).await;
    print(&format!("{}: added", trigger.id));
    Ok(())
}

/// The error with its positions in the file.
fn said(error: houston_api::ApiError) -> String {
    match error {
        houston_api::ApiError::InvalidRequest { errors } => {
            let each =
                errors.into_iter().map(|one| format!("{}: {}", one.pointer.unwrap_or_default(), one.detail));
            each.collect::<Vec<_>>().join("; ")
        }
        error => error.to_string(),
    }
}

fn when_of(trigger: &Trigger) -> String {
    let when = TriggerWhen::from(trigger.when.clone());
    one_line(&serde_json::to_string(&when).unwrap_or_default(), 80)
}

fn show(triggers: &[Trigger], json: bool) {
    let does = |trigger: &Trigger| {
        let of = trigger.agentable.0.public_id(&trigger.agentable.1);
        format!("{} {of}", if trigger.task.is_some() { "task of" } else { "tell" })
    };
    let next = |trigger: &Trigger| trigger.next_at.map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true));
    if json {
        let rows: Vec<Value> = triggers
            .iter()
            .map(|one| {
                json!({
                    "id": one.id, "name": one.name, "when": TriggerWhen::from(one.when.clone()), "then": does(one),
                    "enabled": one.enabled, "next_at": next(one), "fired": one.fired, "refused": one.refused.0,
                    "refusal": one.refused.1,
                })
            })
            .collect();
        return print_json(&json!({"triggers": rows}));
    }
    if triggers.is_empty() {
        return print("the user has no triggers");
    }
    let rows: Vec<[String; 7]> = triggers
        .iter()
        .map(|one| {
            let refused = match &one.refused {
                (0, _) => "0".to_owned(),
                (count, why) => format!("{count} ({})", one_line(why.as_deref().unwrap_or_default(), 60)),
            };
            let state = if one.enabled {
                next(one).unwrap_or_else(|| "listens".to_owned())
            } else {
                "paused".to_owned()
            };
            [
                one.id.to_string(),
                one_line(&one.name, 40),
                when_of(one),
                does(one),
                state,
                one.fired.to_string(),
                refused,
            ]
        })
        .collect();
    let heads = ["ID", "NAME", "WHEN", "THEN", "NEXT", "FIRED", "REFUSED"];
    table(&heads, &rows).iter().for_each(|line| print(line));
}

fn show_firings(firings: &[Firing], json: bool) {
    if json {
        return print_json(&json!({"firings": firings}));
    }
    if firings.is_empty() {
        return print("it was never due");
    }
    let rows: Vec<[String; 4]> = firings
        .iter()
        .map(|firing| {
            let refused =
                || format!("refused: {}", one_line(firing.refusal.as_deref().unwrap_or_default(), 80));
            [
                firing.at.to_rfc3339_opts(SecondsFormat::Secs, true),
                firing.topic.clone().unwrap_or_else(|| "its time".to_owned()),
                firing.agentable.clone().unwrap_or_default(),
                firing.made.clone().unwrap_or_else(refused),
            ]
        })
        .collect();
    table(&["AT", "WHY", "OF", "MADE"], &rows).iter().for_each(|line| print(line));
}

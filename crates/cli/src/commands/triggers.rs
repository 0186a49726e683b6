//! `houston triggers`: what starts without a message: lists triggers of a user, adds, pauses and deletes them.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use houston_api::Local;
use houston_domain::id::{TriggerId, UserId};
use houston_protocol::trigger::{
    CreateTrigger, TriggerFiring, TriggerFiringList, TriggerList, TriggerResponse, TriggerThen, UpdateTrigger,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::agentable::{OfUser, USERS, at, one_line, open, print_rows};
use super::{Context, Failure, Result};
use crate::output::print;

/// Maximum size of a file with a trigger, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// List the triggers of a user, add, pause, resume and delete them, and see what became of each.
#[derive(Debug, Subcommand)]
pub(crate) enum Triggers {
    /// Print the triggers of a user
    List(OfUser),
    /// Add a trigger for a user, as `POST /v1/users/{id}/triggers` does
    Add {
        /// `user_…`
        user: UserId,
        /// File with the body of the request, JSON; `-` for stdin
        file: PathBuf,
    },
    /// Switch a trigger off: it does not fire until it is resumed
    Pause(TriggerArg),
    /// Switch a trigger on: times and events from before now are left out
    Resume(TriggerArg),
    /// Delete a trigger
    Delete(TriggerArg),
    /// Print the last 20 times that a trigger was due: what it has made, or why it did not fire
    Firings {
        #[command(flatten)]
        of: TriggerArg,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// The trigger of a command.
#[derive(Debug, Args)]
pub(crate) struct TriggerArg {
    /// `trigger_…`
    id: TriggerId,
}

impl TriggerArg {
    /// Runs `work` with the API of the trigger's tenant, and the path of the trigger.
    fn with_api(self, context: Context, work: impl AsyncFnOnce(Local, &str) -> Result<()>) -> Result<()> {
        let Self { id } = self;
        context.with_api(async |api| work(api.of(id, TRIGGERS).await?, &format!("/v1/triggers/{id}")).await)
    }

    /// Switches it on or off.
    fn switch(self, context: Context, enabled: bool) -> Result<()> {
        let id = self.id;
        self.with_api(context, async |api, path| {
            let change = UpdateTrigger { enabled: Some(enabled), ..UpdateTrigger::default() };
            api.change::<TriggerResponse>(Method::PATCH, path, &change).await?;
            print(&format!("{id}: {}", if enabled { "resumed" } else { "paused" }));
            Ok(())
        })
    }
}

impl Triggers {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::List(of) => of.with_api(context, async |api, path, json| {
                show(&api.get::<TriggerList>(&format!("{path}/triggers")).await?.data, json);
                Ok(())
            }),
            Self::Add { user, file } => context.with_api(async |api| {
                let (api, path) = (api.of(user, USERS).await?, format!("/v1/users/{user}/triggers"));
                let added: TriggerResponse = api.change(Method::POST, &path, &read(&file)?).await?;
                print(&format!("{}: added", added.id));
                Ok(())
            }),
            Self::Pause(of) => of.switch(context, false),
            Self::Resume(of) => of.switch(context, true),
            Self::Delete(of) => {
                let id = of.id;
                of.with_api(context, async |api, path| {
                    api.delete(path).await?;
                    print(&format!("{id}: deleted"));
                    Ok(())
                })
            }
            Self::Firings { of, json } => of.with_api(context, async |api, path| {
                let firings: TriggerFiringList = api.get(&format!("{path}/firings")).await?;
                show_firings(&firings.data, json);
                Ok(())
            }),
        }
    }
}

/// What lists triggers.
const TRIGGERS: &str = "`houston triggers list USER` prints the triggers of a user";

fn read(file: &std::path::Path) -> Result<CreateTrigger> {
    let text = open(file, MAX_FILE_BYTES).and_then(std::io::read_to_string);
    let text = text.with_context(|| format!("{} cannot be read", file.display())).map_err(Failure::Usage)?;
    let example = r#"{"name": "Every morning", "when": {"type": "cron", "cron": "30 7 * * 1-5", "zone": "Europe/Berlin"}, "then": {"type": "tell", "agentable_id": "goal_…", "instructions": "Look for new offers."}}"#;
    let parsed = serde_json::from_str(&text);
    parsed.map_err(|error| Failure::Usage(anyhow!("{error}; a trigger is as {example}")))
}

fn show(triggers: &[TriggerResponse], json: bool) {
    let does = |trigger: &TriggerResponse| match &trigger.then {
        TriggerThen::Tell { agentable_id, .. } => format!("tell {agentable_id}"),
        TriggerThen::Task { agentable_id, .. } | TriggerThen::Plan { agentable_id, .. } => {
            format!("task of {agentable_id}")
        }
    };
    let next = |trigger: &TriggerResponse| trigger.next_at.map(|next| at(next.0));
    let as_json = |one: &TriggerResponse| {
        json!({
            "id": one.id, "name": one.name, "when": one.when, "then": does(one), "enabled": one.enabled,
            "next_at": next(one), "fired": one.fired, "refused": one.refused, "refusal": one.refusal,
        })
    };
    let all = json.then(|| json!({"triggers": triggers.iter().map(as_json).collect::<Value>()}));
    let heads = ["ID", "NAME", "WHEN", "THEN", "NEXT", "FIRED", "REFUSED"];
    print_rows(all, triggers, "the user has no triggers", heads, |one| {
        let refused = match one.refused {
            0 => "0".to_owned(),
            count => format!("{count} ({})", one_line(one.refusal.as_deref().unwrap_or_default(), 60)),
        };
        [
            one.id.to_string(),
            one_line(&one.name, 40),
            one_line(&serde_json::to_string(&one.when).unwrap_or_default(), 80),
            does(one),
            match one.enabled {
                true => next(one).unwrap_or_else(|| "listens".to_owned()),
                false => "paused".to_owned(),
            },
            one.fired.to_string(),
            refused,
        ]
    });
}

fn show_firings(firings: &[TriggerFiring], json: bool) {
    let all = json.then(|| json!({"firings": firings}));
    print_rows(all, firings, "it was never due", ["AT", "WHY", "OF", "MADE"], |firing| {
        let refused = || format!("refused: {}", one_line(firing.refusal.as_deref().unwrap_or_default(), 80));
        [
            at(firing.at.0),
            firing.topic.clone().unwrap_or_else(|| "its time".to_owned()),
            firing.agentable_id.clone().unwrap_or_default(),
            firing.made.clone().unwrap_or_else(refused),
        ]
    });
}

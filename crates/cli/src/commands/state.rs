//! `houston state`: how an agent stands, and what that means.

use std::process::ExitCode;

use clap::Args;
use houston_domain::standing::Standing;

use super::agentable::Which;
use super::{Context, Failure};
use crate::output::print;

/// How an agent stands: its lock, its run, its last error, and what that means.
#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(flatten)]
    which: Which,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl State {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        self.which.with(context, async |found| {
            let standing = found.store.standing(found.tenant, found.agentable.id).await?;
            let shown = standing.shown(&found.agentable.kind, found.agentable.id, found.status());
            if self.json {
                print(&serde_json::json!(shown).to_string());
                return Ok(ExitCode::SUCCESS);
            }
            let status = shown.status.clone().unwrap_or_else(|| "none".to_owned());
            print(&format!("{}  {}", shown.id, found.agentable.title));
            for told in &shown.diagnosis {
                print(&format!("  {told}"));
            }
            print("");
            for (name, value) in lines(&standing, &status) {
                print(&format!("{name:<16}  {value}"));
            }
            if let Some(origin) = &shown.forked_from {
                print(&format!("{:<16}  {origin}", "forked from"));
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn lines(standing: &Standing, status: &str) -> Vec<(&'static str, String)> {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let none = || "none".to_owned();
    let holder = standing.holder.as_ref().map_or_else(none, |holder| {
        let name = holder.name.as_deref().unwrap_or("gone");
        let lease = if standing.holder_lives() { "alive" } else { "dead" };
        format!("{} ({name}), {lease}", holder.worker)
    });
    let run = standing.run.map_or_else(none, |run| {
        let (attempt, iterations) = (run.attempt, run.iterations);
        format!("{}: {}, attempt {attempt}, {iterations} model calls", run.id, run.status.as_str())
    });
    let error = standing.last_error.as_ref();
    let error =
        error.map_or_else(none, |error| format!("{} in {}: {}", error.code, error.run, error.message));
    let next = standing.next_attempt_at.map_or_else(none, |next| next.to_rfc3339());
    let session = standing.session;
    vec![
        ("status", status.to_owned()),
        ("run", run),
        ("run open", yes(standing.run.is_some_and(|run| run.open))),
        ("lock held by", holder),
        ("epoch", standing.epoch.to_string()),
        ("wake", yes(standing.wake)),
        ("unread messages", standing.unread.to_string()),
        ("failed attempts", standing.failed_attempts.to_string()),
        ("next attempt", next),
        ("deaths", standing.deaths.to_string()),
        ("last error", error),
        ("session", format!("{} entries, {} in closed ones", session.entries, session.closed_entries)),
        (
            "last event",
            standing
                .last_event_at
                .map_or_else(none, |at| format!("{} at {}", standing.last_seq, at.to_rfc3339())),
        ),
        ("workers alive", yes(standing.workers_alive)),
    ]
}

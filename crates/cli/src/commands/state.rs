//! `houston state`: the state of an agent, and a diagnosis.

use clap::Args;
use houston_domain::runtime_state::RuntimeStateView;

use super::agentable::{AgentArg, heading, yes_or_no};
use super::{Context, Result};
use crate::output::{print, print_json};

/// Show the state of an agent: its lock, its run, its last error, and a diagnosis.
#[derive(Debug, Args)]
pub(crate) struct State {
    #[command(flatten)]
    agent: AgentArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl State {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        self.agent.with_api(context, async |api, path| {
            let view: RuntimeStateView = api.get(&format!("{path}/state")).await?;
            if self.json {
                print_json(&view);
                return Ok(());
            }
            print(&heading(&api.get(path).await?));
            for line in &view.diagnosis {
                print(&format!("  {line}"));
            }
            print("");
            lines(&view).iter().for_each(|line| print(line));
            Ok(())
        })
    }
}

fn lines(RuntimeStateView { state, status, forked_from, .. }: &RuntimeStateView) -> Vec<String> {
    // Houston's own terms are explained.
    let line = |name: &str, value: String, meaning: &str| match meaning {
        "" => format!("{name:<16}  {value}"),
        meaning => format!("{name:<16}  {value:<24}  ({meaning})"),
    };
    let none = || "none".to_owned();
    let holder = state.holder.as_ref().map_or_else(none, |holder| {
        let name = holder.name.as_deref().unwrap_or("gone");
        let lease = if state.holder_is_alive() { "alive" } else { "dead" };
        format!("{} ({name}), {lease}", holder.worker)
    });
    let run = state.run.map_or_else(none, |run| {
        let (attempt, iterations) = (run.attempt, run.iterations);
        format!("{}: {}, attempt {attempt}, {iterations} model calls", run.id, run.status.as_str())
    });
    let error = state.last_error.as_ref();
    let error =
        error.map_or_else(none, |error| format!("{} in {}: {}", error.code, error.run, error.message));
    let next = state.next_attempt_at.map_or_else(none, |next| next.to_rfc3339());
    let (entries, closed) = (state.session.entries, state.session.closed_entries);
    let session = format!("{entries} entries, {closed} in closed ones");
    let last_event =
        state.last_event_at.map_or_else(none, |at| format!("{} at {}", state.last_seq, at.to_rfc3339()));
    let mut lines = vec![
        line("status", status.clone().unwrap_or_else(none), ""),
        line("run", run, ""),
        line("run open", yes_or_no(state.run.is_some_and(|run| run.open)), "whether an answer is expected"),
        line("lock held by", holder, "the worker that drives the run; a dead one loses the lock to another"),
        line("epoch", state.epoch.to_string(), "how often the lock was claimed"),
        line("wake", yes_or_no(state.wake), "whether the agentable has a reason to run"),
        line("unread messages", state.unread.to_string(), ""),
        line("failed attempts", state.failed_attempts.to_string(), "of the open run"),
        line("next attempt", next, ""),
        line("deaths", state.deaths.to_string(), "workers that died during the run since its last step"),
        line("last error", error, ""),
        line("session", session, "a model is sent the entries of the open session"),
        line("last event", last_event, "its position in the stream"),
        line("workers alive", yes_or_no(state.workers_alive), ""),
    ];
    lines.extend(forked_from.as_ref().map(|origin| line("forked from", origin.to_string(), "")));
    lines
}

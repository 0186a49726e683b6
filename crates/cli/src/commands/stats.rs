//! `houston stats`: statistics of a conversation.

use clap::Args;
use houston_domain::model::Usage;
use houston_domain::statistics::{Messages, Statistics};

use super::agentable::{AgentArg, heading};
use super::{Context, Result};
use crate::output::{print, print_json};

/// Show statistics of a conversation; of a long one, for its latest runs and messages.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    agent: AgentArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        self.agent.with_api(context, async |api, path| {
            let stats: Statistics = api.get(&format!("{path}/stats")).await?;
            if self.json {
                print_json(&stats);
                return Ok(());
            }
            print(&heading(&api.get(path).await?));
            for (name, value) in lines(&stats) {
                print(&format!("{name:<16}  {value}"));
            }
            Ok(())
        })
    }
}

fn lines(stats: &Statistics) -> Vec<(&'static str, String)> {
    let latest = |more: bool| if more { " (the latest)" } else { "" };
    let (runs, messages) = (&stats.runs, &stats.messages);
    let listed = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let by_status = runs.by_status.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let tools = messages.tools.iter().map(|tool| match tool.failed {
        0 => format!("{} {}", tool.calls, tool.name),
        failed => format!("{} {} ({failed} failed)", tool.calls, tool.name),
    });
    let cost = stats.cost.map_or("unknown".to_owned(), |cost| format!("${cost}"));
    let unpriced = match stats.unpriced_calls {
        0 => String::new(),
        calls => format!(", and {calls} calls without a known price"),
    };
    let took = runs.duration_ms.map_or("none ended".to_owned(), |took| {
        format!("{} ms (median), {} ms (p95), {} ms (longest)", took.p50, took.p95, took.max)
    });
    let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = runs.usage;
    let Messages { user, agent, error, more, .. } = messages;
    vec![
        (
            "messages",
            format!("{user} from the user, {agent} from the agent, {error} errors{}", latest(*more)),
        ),
        ("tools", listed(tools.collect())),
        ("entries", format!("{}, {} of them in the open session", stats.entries, stats.session_entries)),
        ("runs", format!("{}{}", listed(by_status), latest(runs.more))),
        ("durations", took),
        ("tokens", format!("{input_tokens} in ({cache_read_tokens} from caches), {output_tokens} out")),
        ("cost", format!("{cost}{unpriced}")),
        ("notes", stats.notes.to_string()),
        ("learnings", stats.learnings.to_string()),
    ]
}

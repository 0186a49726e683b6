//! `houston history`: prints the history of an agent, entry by entry.

use clap::Args;
use houston_domain::history::{Block, Entry, Role, complete};
use houston_domain::inner_call::inner_call;
use houston_domain::runtime_state::RuntimeStateView;
use houston_protocol::session::HistoryEntryResponse;
use serde_json::json;

use super::agentable::{AgentArg, one_line, print_table};
use super::{Context, Result};
use crate::output::{print_json, print_stderr};

/// Calls of one tool in a row that are reported.
const SAME_TOOL: usize = 3;

/// Show the history of an agent (what its model reads), entry by entry.
#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    agent: AgentArg,
    /// Only entries after this position [default: those of the open session]
    #[arg(long, value_name = "POSITION")]
    after: Option<i64>,
    /// Maximum number of entries
    #[arg(long, default_value_t = 200)]
    limit: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let Self { agent, after, limit, json } = self;
        agent.with_api(context, async |api, path| {
            let RuntimeStateView { state, .. } = api.get(&format!("{path}/state")).await?;
            let session = state.session;
            let after = after.unwrap_or(session.closed_entries);
            let page = api.history(&format!("{path}/history"), after, limit.into()).await?;
            let entries: Vec<HistoryEntryResponse> = page.data;
            if json {
                let closed = session.closed_entries;
                print_json(&json!({"data": entries, "closed_entries": closed, "has_more": page.has_more}));
                return Ok(());
            }
            print_table(["POSITION", "ROLE", "COMMITTED", "CONTENT"], entries.iter().map(row));
            if page.has_more {
                let last = entries.last().map_or(after, |placed| placed.position);
                print_stderr(&format!("more entries exist: use --after {last}"));
            }
            let (open, closed) = (session.entries, session.closed_entries);
            print_stderr(&format!("{open} entries in the open session, {closed} in closed ones"));
            let alone = |HistoryEntryResponse { role, content, .. }| Entry { role, content };
            let alone: Vec<Entry> = entries.into_iter().map(alone).collect();
            oddities(&alone).iter().for_each(|line| print_stderr(line));
            Ok(())
        })
    }
}

fn row(placed: &HistoryEntryResponse) -> [String; 4] {
    let blocks: Vec<String> = placed.content.iter().map(block).collect();
    [
        placed.position.to_string(),
        placed.role.as_str().to_owned(),
        placed.created_at.0.format("%Y-%m-%d %H:%M:%S").to_string(),
        blocks.join(" | "),
    ]
}

fn block(block: &Block) -> String {
    match block {
        Block::Text { text, .. } => one_line(text, 80),
        Block::ToolUse { id, name, input, .. } => {
            format!("tool_use {name} {} ({id})", one_line(&input.to_string(), 60))
        }
        Block::ToolResult { tool_use_id, content, is_error, .. } => {
            let failed = if *is_error { " FAILED" } else { "" };
            format!("tool_result{failed} {} ({tool_use_id})", one_line(content, 60))
        }
        Block::Thinking { text, .. } => format!("thinking {}", one_line(text, 60)),
        Block::Image(_) => "image".to_owned(),
        Block::Document(_) => "document".to_owned(),
        Block::Opaque { .. } => "provider-specific block".to_owned(),
    }
}

/// Lines about what deserves attention: open calls, loops, failures.
fn oddities(entries: &[Entry]) -> Vec<String> {
    let mut lines = Vec::new();
    if complete(entries) < entries.len() {
        lines.push(
            "the last turn has a tool call without a result: a run is working on it, or was cut off"
                .to_owned(),
        );
    }
    let mut streak: (&str, usize) = ("", 0);
    let mut longest = streak;
    for entry in entries {
        for block in &entry.content {
            match block {
                Block::ToolUse { name, input, .. } => {
                    let (name, _) = inner_call(name, input);
                    streak = if streak.0 == name { (name, streak.1 + 1) } else { (name, 1) };
                    longest = if streak.1 > longest.1 { streak } else { longest };
                }
                // A user message in between ends the streak: every answer may be a call of the same tool.
                Block::Text { .. } if entry.role == Role::User => streak = ("", 0),
                _ => {}
            }
        }
    }
    if longest.1 >= SAME_TOOL {
        lines.push(format!("{} was called {} times in a row: check its results", longest.0, longest.1));
    }
    let results = entries.iter().flat_map(|entry| &entry.content);
    let failed = results.filter(|block| matches!(block, Block::ToolResult { is_error: true, .. })).count();
    if failed > 0 {
        lines.push(format!("{failed} tool calls failed"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_failures_and_open_calls_are_reported() {
        let call = |id: &str| {
            let (id, name) = (id.to_owned(), "fetch".to_owned());
            Entry::assistant(vec![Block::ToolUse { id, name, input: json!({}), raw: None }])
        };
        let failed = |id: &str| {
            let (tool_use_id, content) = (id.to_owned(), "no".to_owned());
            Entry::user(vec![Block::ToolResult { tool_use_id, content, is_error: true, code: None }])
        };
        let done = |id: &str| {
            let (tool_use_id, content) = (id.to_owned(), "done".to_owned());
            Entry::user(vec![Block::ToolResult { tool_use_id, content, is_error: false, code: None }])
        };
        let mut entries = vec![Entry::user(vec![Block::text("go")])];
        assert!(oddities(&entries).is_empty());
        for id in ["a", "b", "c"] {
            entries.extend([call(id), failed(id)]);
        }
        assert_eq!(
            oddities(&entries),
            ["fetch was called 3 times in a row: check its results", "3 tool calls failed"]
        );
        entries.pop();
        assert!(oddities(&entries)[0].contains("without a result"));
        let answers = ["a", "b", "c"].map(|id| [Entry::user(vec![Block::text("and?")]), call(id), done(id)]);
        assert!(oddities(answers.as_flattened()).is_empty(), "one answer per message is no loop");
    }
}

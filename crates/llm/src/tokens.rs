//! About how many tokens a request has. What a provider reported is always better: see
//! [`ContextBudget`](crate::ContextBudget).

mod estimate;

use houston_domain::history::{Block, Entry};
use houston_domain::tool_call::ToolDefinition;

pub use estimate::estimate;

use crate::model::{Request, SystemPart};

/// What a provider puts around an entry, and around a call or result in it: roles, ids, marks.
const PER_ENTRY: u64 = 4;
const PER_CALL: u64 = 8;

/// What a provider adds to a request as soon as it has tools, in tokens. The differences between 710 recorded usages
/// and what o200k makes of the requests, in the median (November 2026).
pub(crate) fn tool_overhead(provider: &str) -> u64 {
    match provider {
        "anthropic" => 695,
        "google" | "gemini" => 75,
        _ => 70,
    }
}

/// A whole request.
#[must_use]
pub fn of_request(request: &Request<'_>, provider: &str) -> u64 {
    of_frame(request, provider) + of_entries(request.entries)
}

/// What stands around the history: system prompt and tools before it, the system context after it.
#[must_use]
pub fn of_frame(request: &Request<'_>, provider: &str) -> u64 {
    of_preamble(request.system, request.tools, provider) + request.system_context.map_or(0, estimate)
}

/// What comes before the history: system prompt and tools.
#[must_use]
pub fn of_preamble(system: &[SystemPart], tools: &[ToolDefinition], provider: &str) -> u64 {
    let system: u64 = system.iter().map(|part| estimate(&part.text)).sum();
    let overhead = if tools.is_empty() { 0 } else { tool_overhead(provider) };
    let tools: u64 = tools
        .iter()
        .map(|tool| {
            estimate(&tool.name) + estimate(&tool.description) + estimate(&tool.input_schema.to_string())
        })
        .sum();
    system + overhead + tools
}

/// Entries of a history.
#[must_use]
pub fn of_entries(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| PER_ENTRY + entry.content.iter().map(of_block).sum::<u64>()).sum()
}

fn of_block(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => estimate(text),
        Block::ToolUse { name, input, .. } => PER_CALL + estimate(name) + estimate(&input.to_string()),
        Block::ToolResult { content, .. } => PER_CALL + estimate(content),
        Block::Opaque { raw } => estimate(&raw.json),
    }
}

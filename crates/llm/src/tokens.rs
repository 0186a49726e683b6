//! Estimates how many tokens a request has. Use what the provider reported where available: see
//! [`ContextBudget`](crate::ContextBudget).

mod estimate;

use houston_domain::history::{Block, Entry};
use houston_domain::tool_call::ToolDefinition;

pub use estimate::estimate;

use crate::model::{Request, SystemPart};

/// Tokens a provider adds around an entry, and around a tool call or result in it: roles, ids, delimiters.
const PER_ENTRY: u64 = 4;
const PER_CALL: u64 = 8;

/// Tokens a provider adds to a request that has tools: the median difference between 710 recorded usages and the
/// o200k count of the requests (November 2026).
pub(crate) fn tool_overhead(provider: &str) -> u64 {
    match provider {
        "anthropic" => 695,
        "google" | "gemini" => 75,
        _ => 70,
    }
}

/// Estimates a whole request.
#[must_use]
pub fn of_request(request: &Request<'_>, provider: &str) -> u64 {
    of_frame(request, provider) + of_entries(request.entries)
}

/// Estimates everything but the history: system prompt, tools and system context.
#[must_use]
pub fn of_frame(request: &Request<'_>, provider: &str) -> u64 {
    of_preamble(request.system, request.tools, provider) + request.system_context.map_or(0, estimate)
}

/// Estimates what precedes the history: system prompt and tools.
#[must_use]
pub fn of_preamble(system: &[SystemPart], tools: &[ToolDefinition], provider: &str) -> u64 {
    let system: u64 = system.iter().map(|part| estimate(&part.text)).sum();
    let overhead = if tools.is_empty() { 0 } else { tool_overhead(provider) };
    system + overhead + of_tools(tools)
}

/// Estimates definitions of tools, without what a provider adds.
#[must_use]
pub fn of_tools(tools: &[ToolDefinition]) -> u64 {
    let of_tool = |tool: &ToolDefinition| {
        estimate(&tool.name) + estimate(&tool.description) + estimate(&tool.input_schema.to_string())
    };
    tools.iter().map(of_tool).sum()
}

/// Estimates entries of a history.
#[must_use]
pub fn of_entries(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| PER_ENTRY + entry.content.iter().map(of_block).sum::<u64>()).sum()
}

fn of_block(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } | Block::Thinking { text, .. } => estimate(text),
        Block::ToolUse { name, input, .. } => PER_CALL + estimate(name) + estimate(&input.to_string()),
        Block::ToolResult { content, .. } => PER_CALL + estimate(content),
        Block::Image(image) => image.tokens(),
        Block::Document(document) => document.tokens(),
        Block::Opaque { raw } => estimate(&raw.json),
    }
}

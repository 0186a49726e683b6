//! What committed entries say about the run that wrote them.

use super::{Phase, SEND_MESSAGE};
use crate::history::{Block, Entry, Role};
use crate::inner_call::inner_call;
use crate::run::RunStatus;
use crate::tool_call::ToolCall;

/// Number of text blocks sent to the agent in this entry.
pub(super) fn user_texts(entry: &Entry) -> usize {
    let is_text = |block: &&Block| matches!(block, Block::Text { .. });
    if entry.role == Role::User { entry.content.iter().filter(is_text).count() } else { 0 }
}

pub(super) fn tool_names(entry: &Entry) -> Vec<&str> {
    entry
        .content
        .iter()
        .filter_map(|block| match block {
            Block::ToolUse { name, input, .. } => Some(inner_call(name, input).0),
            _ => None,
        })
        .collect()
}

/// Whether the call `id` of `entry` is a call of [`SEND_MESSAGE`].
pub(super) fn is_send_message(entry: &Entry, id: &str) -> bool {
    entry.content.iter().any(|block| match block {
        Block::ToolUse { id: call, name, input, .. } => {
            call == id && inner_call(name, input).0 == SEND_MESSAGE
        }
        _ => false,
    })
}

/// The phase of a run whose last committed entry is `last`.
pub(super) fn phase_after(last: Option<&Entry>) -> Phase {
    match last {
        Some(entry) if entry.role == Role::Assistant => {
            let calls: Vec<ToolCall> = entry
                .content
                .iter()
                .filter_map(|block| match block {
                    Block::ToolUse { id, name, input, .. } => Some(ToolCall::of_block(id, name, input, None)),
                    _ => None,
                })
                .collect();
            if calls.is_empty() { Phase::Ended(RunStatus::Completed) } else { Phase::Tools(calls) }
        }
        _ => Phase::Ready,
    }
}

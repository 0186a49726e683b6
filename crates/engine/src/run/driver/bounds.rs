//! What a kind bounds besides the stop rules: tool calls of a run, and tokens of a request.

use super::RunDriver;
use crate::run::storage::RunStorage;

/// Error code of a run that asked for more tool calls than its kind allows.
const TOOL_CALL_LIMIT: &str = "TOOL_CALL_LIMIT";
/// Error code of a run or a step whose request is larger than its kind allows.
pub(super) const REQUEST_TOO_LARGE: &str = "REQUEST_TOO_LARGE";

impl<S: RunStorage> RunDriver<'_, S> {
    /// How many of the calls that the model asks for now, and are counted already, may be executed.
    pub(super) fn calls_left(&self, now: usize) -> usize {
        let before = self.run.tool_calls().saturating_sub(now);
        self.most_calls().map_or(usize::MAX, |most| most.saturating_sub(before))
    }

    /// Why the run ends before its next model call: a code, and the reason for operators.
    pub(super) fn has_too_many_calls(&self) -> Option<(&'static str, String)> {
        let (most, made) = (self.most_calls()?, self.run.tool_calls());
        let kind = &self.setup.agent_type.kind;
        (made > most).then(|| {
            let text =
                format!("asked for {made} tool calls; a run of {kind} may make {most}: give it less to do");
            (TOOL_CALL_LIMIT, text)
        })
    }

    /// Why a request of `tokens` is not sent: a code, and the reason for operators.
    pub(super) fn is_too_large(&self, tokens: u64) -> Option<(&'static str, String)> {
        let most = self.setup.agent_type.max_request_tokens?;
        let kind = &self.setup.agent_type.kind;
        (tokens > most).then(|| {
            let text = format!(
                "not sent: the request has {tokens} tokens; one of {kind} may have {most}: give it less to read"
            );
            (REQUEST_TOO_LARGE, text)
        })
    }

    fn most_calls(&self) -> Option<usize> {
        self.setup.agent_type.max_tool_calls.and_then(|most| usize::try_from(most).ok())
    }
}

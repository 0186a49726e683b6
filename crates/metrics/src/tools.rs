//! [`Tools`]: calls of tools.

use houston_domain::tool_call::ToolResponse;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::labels::counters;

/// The values of the label `outcome`: success, then the kinds of failure in the order of [`ToolErrorCode`].
///
/// [`ToolErrorCode`]: houston_domain::tool_call::ToolErrorCode
const OUTCOMES: [&str; 10] = [
    "ok",
    "validation_error",
    "io_error",
    "config_error",
    "permission_denied",
    "rate_limited",
    "not_found",
    "llm_assist_required",
    "timeout",
    "unknown",
];

/// Calls of tools that have their response.
pub struct Tools {
    calls: [Counter; OUTCOMES.len()],
}

impl Tools {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let help = "Calls of tools that have their response, by the code of the response";
        Self { calls: counters(registry, ("tool_calls", help), "outcome", OUTCOMES) }
    }

    /// A call has its response.
    pub fn answered(&self, response: &ToolResponse) {
        let outcome = match response {
            ToolResponse::Success { .. } => 0,
            ToolResponse::Failure { code, .. } => 1 + *code as usize,
        };
        self.calls[outcome].inc();
    }
}

//! [`Tools`]: calls of tools.

use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use crate::labels::counters;

/// The values of the label `outcome`: success, then the kinds of failure.
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
            ToolResponse::Failure { code, .. } => match code {
                ToolErrorCode::ValidationError => 1,
                ToolErrorCode::IoError => 2,
                ToolErrorCode::ConfigError => 3,
                ToolErrorCode::PermissionDenied => 4,
                ToolErrorCode::RateLimited => 5,
                ToolErrorCode::NotFound => 6,
                ToolErrorCode::LlmAssistRequired => 7,
                ToolErrorCode::Timeout => 8,
                ToolErrorCode::Unknown => 9,
            },
        };
        self.calls[outcome].inc();
    }
}

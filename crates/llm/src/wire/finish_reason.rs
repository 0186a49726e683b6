//! Finish reasons of protocols without a closed list of them.

use houston_domain::model::{ModelError, StopReason};

use super::AnswerEnd;
use crate::error;

/// Maps a `finish_reason` of OpenAI-compatible servers or of Ollama, and most reasons of Anthropic and Cohere.
///
/// # Errors
/// `NETWORK_ERROR` when the reason means that the answer is incomplete; `INVALID_RESPONSE` for an unknown reason,
/// unless `end` is [`AnswerEnd::Unknown`]: then it counts as a normal end.
pub(crate) fn stop_reason(finish_reason: &str, end: AnswerEnd) -> Result<StopReason, ModelError> {
    let reason = finish_reason.trim().to_ascii_lowercase();
    Ok(match reason.as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "end" | "complete" | "completed"
        | "done" | "normal" | "finished" => StopReason::EndTurn,
        "tool_calls" | "tool_call" | "tool_use" | "function_call" => StopReason::ToolUse,
        "length"
        | "model_length"
        | "max_tokens"
        | "max_output_tokens"
        | "max_output"
        | "max_new_tokens"
        | "model_context_window_exceeded"
        | "context_length_exceeded" => StopReason::MaxTokens,
        // `sensitive` is Zhipu's.
        "content_filter"
        | "content_filtered"
        | "content_policy_violation"
        | "refusal"
        | "sensitive"
        | "safety"
        | "recitation"
        | "prohibited_content"
        | "blocklist"
        | "spii"
        | "guardrail_intervened" => StopReason::Refusal,
        // DeepSeek (`insufficient_system_resource`), Zhipu (`network_error`), vLLM (`abort`), OpenRouter, Mistral.
        "error"
        | "network_error"
        | "insufficient_system_resource"
        | "abort"
        | "aborted"
        | "cancelled"
        | "canceled"
        | "timeout"
        | "server_error"
        | "internal_error"
        | "failed" => {
            return Err(error::broken_off(finish_reason));
        }
        _ if end == AnswerEnd::Unknown => StopReason::EndTurn,
        _ => return Err(error::unknown_end(finish_reason)),
    })
}

#[cfg(test)]
mod tests {
    use houston_domain::model::ModelErrorCode as Code;

    use super::*;

    #[test]
    fn failure_finish_reasons_are_errors() {
        let known = |reason| stop_reason(reason, AnswerEnd::DoneMark).map_err(|error| error.code);
        assert_eq!(known("insufficient_system_resource"), Err(Code::NetworkError));
        assert_eq!(known("network_error"), Err(Code::NetworkError));
        assert_eq!(known("error"), Err(Code::NetworkError));
        assert_eq!(known("sensitive"), Ok(StopReason::Refusal));
        assert_eq!(known("content_filter"), Ok(StopReason::Refusal));
        assert_eq!(known("model_context_window_exceeded"), Ok(StopReason::MaxTokens));
        assert_eq!(known("STOP"), Ok(StopReason::EndTurn));
        assert_eq!(known("banana"), Err(Code::InvalidResponse));
        assert_eq!(stop_reason("banana", AnswerEnd::Unknown).ok(), Some(StopReason::EndTurn));
    }
}

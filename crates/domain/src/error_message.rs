//! The error message that a run posts into its thread: what failed, and what happens next. A run has at most one; it is
//! posted with the first failed attempt and changes from then on.
//!
//! Its metadata is what a client displays:
//!
//! | state | `retryable` | other fields |
//! |---|---|---|
//! | waits for the next attempt | `true` | `attempt` of `of`, `retry_at` (count down to it), `since`, maybe `hung` |
//! | the next attempt succeeded | `false` | `resolved: true`: no longer of interest |
//! | cancelled while it waited | `false` | `resolved: false` |
//! | failed permanently | `false` | `failed_permanently: true`; the text says so too |
//! | goes on without files that the provider refused | `false` | `left_out`: how many |
//! | stopped by a content filter | `false` | `stopped: true`; the run is `completed` |
//!
//! `code` is always present: one of the ten model error codes, `DEAD_LETTERED`, `UNKNOWN_KIND`, `CONTENT_FILTER`, ….
//! `retry_at` and `since` are RFC 3339 and present only in the first state, as are the models that did not answer in time
//! (`hung`), which the next attempt asks last:
//!
//! ```json
//! {"code": "RATE_LIMITED", "retryable": true, "attempt": 2, "of": 5,
//!  "retry_at": "2026-11-20T10:00:12.000Z", "since": "2026-11-20T10:00:00.000Z"}
//! ```

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::event::Event;
use crate::id::{MessageId, RunId};
use crate::model::ModelError;
use crate::overseer::{OVERSEER_KILLED, OVERSEER_STOPPED};

/// The prefix of an error message after which the run is not retried.
pub const FAILED_PERMANENTLY: &str = "Failed permanently: ";

/// The code of a run that its provider stopped: by a content filter, or because the model refused.
pub const CONTENT_FILTER: &str = "CONTENT_FILTER";

/// The code of a run whose answer did not have the form that was asked for.
pub const RESULT_MISMATCH: &str = "RESULT_MISMATCH";

/// The code of an image or a file that the provider refused.
pub const FILE_REFUSED: &str = "FILE_REFUSED";

/// The text that end users read for an error code. Causes and remedies are for operators: see the run's
/// `error`.
pub fn user_text(code: &str) -> &'static str {
    match code {
        "RATE_LIMITED" => "The AI model is busy right now.",
        "NETWORK_ERROR" | "TIMEOUT" => "The AI model could not be reached.",
        "INVALID_RESPONSE" | "UNKNOWN" => "The AI model gave no answer that could be used.",
        "CONTEXT_LENGTH_EXCEEDED" => "This conversation has become too long for the AI model.",
        "OUTPUT_LIMIT_REACHED" => "The AI model thought for too long and gave no answer.",
        RESULT_MISMATCH => "The AI model gave no answer in the form that was asked for.",
        "BUDGET_EXCEEDED" => "The budget for this is used up.",
        "TOOL_CALL_LIMIT" => "I stopped: this took more tool calls than one run may make.",
        "REQUEST_TOO_LARGE" => "I stopped: there was more to read than one request may have.",
        OVERSEER_KILLED | OVERSEER_STOPPED => "I stopped: I was not getting any further.",
        FILE_REFUSED => {
            "The AI model could not read a file that was sent, so I go on without it. Send it again in another form."
        }
        CONTENT_FILTER => {
            "The answer was stopped by the AI provider's content filter. Try again in other words."
        }
        _ => "This assistant cannot answer as it is set up now.",
    }
}

/// The current state of a run's error message.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorMessage {
    /// Its id, which is the id of the run: a run has at most one, and it must be found without a query.
    pub id: MessageId,
    /// The text for the user.
    pub content: String,
    /// What a client displays beside it; see the [module](self).
    pub metadata: Value,
}

/// A retry that a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRetry {
    /// Number of the retry, from 1.
    pub attempt: i32,
    /// Maximum number of retries.
    pub of: i32,
    /// When it is due.
    pub retry_at: DateTime<Utc>,
    /// When the first attempt failed.
    pub since: DateTime<Utc>,
}

impl ErrorMessage {
    /// The id of the error message of `run`.
    pub fn id_of(run: RunId) -> MessageId {
        MessageId(run.0)
    }

    fn new(run: RunId, content: impl Into<String>, metadata: Value) -> Self {
        Self { id: Self::id_of(run), content: content.into(), metadata }
    }

    /// An attempt failed and will be retried. `hung` are the models that did not answer in time, as `provider/model`.
    pub fn waiting(run: RunId, error: &ModelError, retry: &PendingRetry, hung: &[String]) -> Self {
        let rfc3339 = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut metadata = json!({
            "code": error.code,
            "retryable": true,
            "attempt": retry.attempt,
            "of": retry.of,
            "retry_at": rfc3339(retry.retry_at),
            "since": rfc3339(retry.since),
        });
        if !hung.is_empty() {
            metadata["hung"] = json!(hung);
        }
        Self::new(run, user_text(error.code.as_str()), metadata)
    }

    /// The provider refused so many files: the run goes on without them.
    pub fn left_out(run: RunId, files: usize) -> Self {
        let metadata = json!({"code": FILE_REFUSED, "retryable": false, "left_out": files});
        Self::new(run, user_text(FILE_REFUSED), metadata)
    }

    /// The provider stopped the answer, which ended the run. The run did not fail, so it is not retried; the text
    /// written until then stays in the thread.
    pub fn stopped(run: RunId, code: &str) -> Self {
        Self::new(run, user_text(code), json!({"code": code, "retryable": false, "stopped": true}))
    }

    /// The run will not be retried; `text` and `code` say why.
    pub fn permanent(run: RunId, code: &str, text: &str) -> Self {
        let metadata = json!({"code": code, "retryable": false, "failed_permanently": true});
        Self::new(run, format!("{FAILED_PERMANENTLY}{text}"), metadata)
    }

    /// This message after the wait has ended: the run continued (`resolved`), or was ended.
    #[must_use]
    pub fn settled(mut self, resolved: bool) -> Self {
        if let Value::Object(fields) = &mut self.metadata {
            fields.retain(|name, _| !matches!(name.as_str(), "retry_at" | "since" | "hung"));
            fields.insert("retryable".to_owned(), json!(false));
            fields.insert("resolved".to_owned(), json!(resolved));
        }
        self
    }

    /// When the first attempt failed; `None` unless the message waits for a retry.
    pub fn since(&self) -> Option<DateTime<Utc>> {
        self.metadata["since"].as_str()?.parse().ok()
    }

    /// The models that did not answer in time, as `provider/model`.
    pub fn hung(&self) -> Vec<String> {
        let names = self.metadata["hung"].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    }

    /// The event that informs streams of the current state.
    pub fn event(&self) -> Event {
        Event::ErrorShown {
            message_id: self.id,
            content: self.content.clone(),
            metadata: self.metadata.clone(),
        }
    }

    /// What a stream's client receives: the metadata, with the text as its field `text`.
    pub fn client_fields(content: &str, metadata: &Value) -> Value {
        let mut fields = metadata.as_object().cloned().unwrap_or_else(Map::new);
        fields.insert("text".to_owned(), json!(content));
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use uuid::Uuid;

    use super::*;
    use crate::model::ModelErrorCode;

    #[test]
    fn user_texts_contain_no_settings_or_status_codes() {
        for code in [
            "RATE_LIMITED",
            "NETWORK_ERROR",
            "TIMEOUT",
            "INVALID_RESPONSE",
            "UNKNOWN",
            "CONTEXT_LENGTH_EXCEEDED",
            "OUTPUT_LIMIT_REACHED",
            "BUDGET_EXCEEDED",
            "TOOL_CALL_LIMIT",
            RESULT_MISMATCH,
            "REQUEST_TOO_LARGE",
            CONTENT_FILTER,
            FILE_REFUSED,
            "AUTHENTICATION_ERROR",
            "AGENT_UNAVAILABLE",
        ] {
            let text = user_text(code);
            assert!(
                text.ends_with('.') && !text.contains(['_', '`', '/']) && !text.contains("HTTP"),
                "{text}"
            );
        }
        let stopped = ErrorMessage::stopped(RunId(Uuid::nil()), CONTENT_FILTER);
        assert_eq!(stopped.metadata, json!({"code": "CONTENT_FILTER", "retryable": false, "stopped": true}));
    }

    #[test]
    fn retry_times_are_removed_once_settled() {
        let run = RunId(Uuid::from_u128(7));
        let since = DateTime::UNIX_EPOCH;
        let error = ModelError::new(ModelErrorCode::RateLimited, "openai: slow down (HTTP 429)");
        let retry = PendingRetry { attempt: 2, of: 5, retry_at: since + TimeDelta::seconds(12), since };
        let waiting = ErrorMessage::waiting(run, &error, &retry, &[]);
        assert_eq!(waiting.id.0, run.0);
        assert_eq!(waiting.since(), Some(since));
        assert_eq!(
            waiting.content, "The AI model is busy right now.",
            "users do not read the provider's error"
        );
        assert_eq!(
            waiting.metadata,
            json!({"code": "RATE_LIMITED", "retryable": true, "attempt": 2, "of": 5,
                   "retry_at": "1970-01-01T00:00:12.000Z", "since": "1970-01-01T00:00:00.000Z"})
        );

        let settled = waiting.clone().settled(true);
        assert_eq!((settled.id, &settled.content), (waiting.id, &waiting.content));
        assert_eq!(
            settled.metadata,
            json!({"code": "RATE_LIMITED", "retryable": false, "attempt": 2, "of": 5, "resolved": true})
        );
        assert_eq!(settled.since(), None);

        let hung = ["openai/a".to_owned()];
        let waiting = ErrorMessage::waiting(run, &error, &retry, &hung);
        assert_eq!((waiting.hung(), waiting.settled(true)), (hung.to_vec(), settled));

        let last = ErrorMessage::permanent(run, "RATE_LIMITED", "openai: slow down");
        assert_eq!(
            (last.id, last.content.as_str()),
            (ErrorMessage::id_of(run), "Failed permanently: openai: slow down")
        );
        assert_eq!(
            last.metadata,
            json!({"code": "RATE_LIMITED", "retryable": false, "failed_permanently": true})
        );
        assert_eq!(
            ErrorMessage::client_fields("no", &json!({"code": "x"})),
            json!({"code": "x", "text": "no"})
        );
    }
}

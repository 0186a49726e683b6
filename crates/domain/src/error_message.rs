//! The message by which Houston tells a user that a run met an error, and what becomes of it. A run has one at
//! most: it enters the thread with the first failed attempt and changes from then on.
//!
//! What a client can show is in its metadata:
//!
//! | state | `retryable` | others |
//! |---|---|---|
//! | waits for the next attempt | `true` | `attempt` of `of`, `retry_at` (count down to it), `since` |
//! | the next attempt went well | `false` | `resolved: true`: no longer of interest |
//! | cancelled while it waited | `false` | `resolved: false` |
//! | given up | `false` | `failed_permanently: true`; the text says so too |
//! | stopped by a content filter | `false` | `stopped: true`; the run is `completed` |
//!
//! `code` is there always: one of the ten model error codes, `DEAD_LETTERED`, `UNKNOWN_KIND`, `CONTENT_FILTER`, …. `retry_at` and
//! `since` are RFC 3339 and stand nowhere but in the first state.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::event::Event;
use crate::id::{MessageId, RunId};
use crate::model::ModelError;

/// What a text begins with that is the last word of its run.
pub const FAILED_PERMANENTLY: &str = "Failed permanently: ";

/// The code of a run that its model's provider stopped: a content filter, or the model's own refusal.
pub const CONTENT_FILTER: &str = "CONTENT_FILTER";

/// What an end user reads of an error, by its code. Causes and remedies are for operators: those are in the run's `error`.
#[must_use]
pub fn user_text(code: &str) -> &'static str {
    match code {
        "RATE_LIMITED" => "The AI model is busy right now.",
        "NETWORK_ERROR" | "TIMEOUT" => "The AI model could not be reached.",
        "INVALID_RESPONSE" | "UNKNOWN" => "The AI model gave no answer that could be used.",
        "CONTEXT_LENGTH_EXCEEDED" => "This conversation has become too long for the AI model.",
        "BUDGET_EXCEEDED" => "The budget for this is used up.",
        CONTENT_FILTER => {
            "The answer was stopped by the AI provider's content filter. Try again in other words."
        }
        _ => "This assistant cannot answer as it is set up now.",
    }
}

/// The error message of a run, as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorMessage {
    /// Its id: that of the run, as one run has one at most and it must be found without asking.
    pub id: MessageId,
    /// What a person reads.
    pub content: String,
    /// What a client shows beside it; see the module.
    pub metadata: Value,
}

/// The attempt that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRetry {
    /// Which retry it is, from 1.
    pub attempt: i32,
    /// How many there are at most.
    pub of: i32,
    /// When it is due.
    pub retry_at: DateTime<Utc>,
    /// When the first attempt failed.
    pub since: DateTime<Utc>,
}

impl ErrorMessage {
    /// The id of the error message of `run`.
    #[must_use]
    pub fn id_of(run: RunId) -> MessageId {
        MessageId(run.0)
    }

    /// An attempt failed, and there will be another.
    #[must_use]
    pub fn waiting(run: RunId, error: &ModelError, retry: &PendingRetry) -> Self {
        let rfc3339 = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let metadata = json!({
            "code": error.code,
            "retryable": true,
            "attempt": retry.attempt,
            "of": retry.of,
            "retry_at": rfc3339(retry.retry_at),
            "since": rfc3339(retry.since),
        });
        Self { id: Self::id_of(run), content: user_text(error.code.as_str()).to_owned(), metadata }
    }

    /// The answer ended early, and the run with it: it did not fail, so nothing is tried again. What was written until
    /// then stands in the thread.
    #[must_use]
    pub fn stopped(run: RunId, code: &str) -> Self {
        Self {
            id: Self::id_of(run),
            content: user_text(code).to_owned(),
            metadata: json!({"code": code, "retryable": false, "stopped": true}),
        }
    }

    /// There will be no other attempt; `text` says why, and so does `code` to programs.
    #[must_use]
    pub fn permanent(run: RunId, code: &str, text: &str) -> Self {
        Self {
            id: Self::id_of(run),
            content: format!("{FAILED_PERMANENTLY}{text}"),
            metadata: json!({"code": code, "retryable": false, "failed_permanently": true}),
        }
    }

    /// The same message once nothing is waited for any more: the run went on (`resolved`), or was ended.
    #[must_use]
    pub fn settled(mut self, resolved: bool) -> Self {
        if let Value::Object(fields) = &mut self.metadata {
            fields.retain(|name, _| !matches!(name.as_str(), "retry_at" | "since"));
            fields.insert("retryable".to_owned(), json!(false));
            fields.insert("resolved".to_owned(), json!(resolved));
        }
        self
    }

    /// When the first attempt failed, of one that waits.
    #[must_use]
    pub fn since(&self) -> Option<DateTime<Utc>> {
        self.metadata["since"].as_str()?.parse().ok()
    }

    /// The event by which streams learn how it stands.
    #[must_use]
    pub fn event(&self) -> Event {
        Event::ErrorShown {
            message_id: self.id,
            content: self.content.clone(),
            metadata: self.metadata.clone(),
        }
    }

    /// What a stream's client is shown of it: the metadata with the text among them.
    #[must_use]
    pub fn shown(content: &str, metadata: &Value) -> Value {
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
    fn end_users_read_no_settings_and_no_status_codes() {
        for code in [
            "RATE_LIMITED",
            "NETWORK_ERROR",
            "TIMEOUT",
            "INVALID_RESPONSE",
            "UNKNOWN",
            "CONTEXT_LENGTH_EXCEEDED",
            "BUDGET_EXCEEDED",
            CONTENT_FILTER,
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
    fn a_countdown_is_shown_and_then_gone() {
        let run = RunId(Uuid::from_u128(7));
        let since = DateTime::UNIX_EPOCH;
        let error = ModelError::new(ModelErrorCode::RateLimited, "openai: slow down (HTTP 429)");
        let retry = PendingRetry { attempt: 2, of: 5, retry_at: since + TimeDelta::seconds(12), since };
        let waiting = ErrorMessage::waiting(run, &error, &retry);
        assert_eq!(waiting.id.0, run.0);
        assert_eq!(waiting.since(), Some(since));
        assert_eq!(
            waiting.content, "The AI model is busy right now.",
            "the provider's words are for operators"
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

        let last = ErrorMessage::permanent(run, "RATE_LIMITED", "openai: slow down");
        assert_eq!((last.id, last.content.as_str()), (waiting.id, "Failed permanently: openai: slow down"));
        assert_eq!(
            last.metadata,
            json!({"code": "RATE_LIMITED", "retryable": false, "failed_permanently": true})
        );
        assert_eq!(ErrorMessage::shown("no", &json!({"code": "x"})), json!({"code": "x", "text": "no"}));
    }
}

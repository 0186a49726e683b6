//! Parts of the details of errors.

use std::time::Duration;

use houston_domain::rate::Quota;
use serde_json::Value;

/// `a goal`, `an agent`.
pub(super) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// The detail of a request for events that were deleted by age: those before `from`.
pub(super) fn expired(from: i64) -> String {
    format!(
        "events of this agentable before position {from} were deleted by age (`retention` in jobs/health_monitor.toml); read its \
         `messages`, then stream without a position, or with `after={}` for all events that are kept",
        from - 1
    )
}

/// ` with <answer>`, of a question that was answered.
pub(super) fn decided(answer: Option<&Value>) -> String {
    answer.map_or_else(String::new, |answer| format!(" with {answer}"))
}

/// The detail of a request that was not answered in time.
pub(super) fn timed_out(within: Duration, changes: bool) -> String {
    let seconds = within.as_secs();
    let advice = if changes {
        "the change may have been made all the same: send the request again with its Idempotency-Key, which applies it \
         once; without a key, check first"
    } else {
        "try again in a second"
    };
    format!("no answer within {seconds} s, because the database is slow or does not respond; {advice}")
}

/// The detail of a request beyond a rate limit.
pub(super) fn rate_limited(policy: &str, Quota { quota, window_s }: Quota) -> String {
    let what = match policy {
        "requests" => "requests of this user that start work",
        "key" => "requests with this API key that start work",
        _ => "tokens of this user's runs",
    };
    format!(
        "rate limit `{policy}` exceeded: at most {quota} {what} in {window_s} s, and nothing was done; send the request again after the \
         seconds in `Retry-After`"
    )
}

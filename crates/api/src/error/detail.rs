//! Parts of the details of errors.

use std::time::Duration;

use serde_json::Value;

/// `a goal`, `an agent`.
pub(super) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
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

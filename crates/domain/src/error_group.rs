//! Failures that have the same cause, as far as their texts say: one group for each code and normal text.
//!
//! The normal text has `#` where texts of the same cause differ: numbers, ids, quoted texts, addresses. So an outage is one line for
//! an operator, however many runs it hits.

use std::borrow::Cow;
use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::RunId;
use crate::time::Time;

/// The most characters of a normal text.
const MAX_CHARS: usize = 300;

/// A run that failed, or is retried because it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRun {
    /// The run.
    pub run: RunId,
    /// The error code.
    pub code: String,
    /// The error for people.
    pub message: String,
    /// When it ended, or was accepted if it is open.
    pub at: DateTime<Utc>,
    /// How it is now.
    pub outcome: Outcome,
}

/// How a failed run is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has failed.
    Failed,
    /// It was given up, because its workers died with it.
    DeadLettered,
    /// It waits for another attempt.
    Retrying,
}

/// Runs that failed for the same cause, as far as the text says: numbers, ids and quoted texts are `#` in it.
///
/// ```json
/// {"fingerprint": "8c1f06d2b1a94e77", "code": "RATE_LIMITED", "message": "openai: slow down (HTTP #)", "count": 12,
///  "dead_lettered": 0, "retrying": 3, "first_seen": "2026-11-22T09:00:00.000Z", "last_seen": "2026-11-22T09:10:00.000Z",
///  "sample_run_id": "run_0190…"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ErrorGroupResponse))]
pub struct ErrorGroup {
    /// Names the group: the same code and message have the same fingerprint.
    pub fingerprint: String,
    /// The error code.
    pub code: String,
    pub message: String,
    /// Number of runs.
    pub count: u64,
    /// How many of them were given up because their workers died.
    pub dead_lettered: u64,
    /// How many of them wait for another attempt.
    pub retrying: u64,
    pub first_seen: Time,
    pub last_seen: Time,
    /// The latest of the runs.
    #[serde(rename = "sample_run_id")]
    pub sample: RunId,
}

/// Groups failures: the largest group first.
pub fn grouped(failures: impl IntoIterator<Item = FailedRun>) -> Vec<ErrorGroup> {
    let mut groups: HashMap<(String, String), ErrorGroup> = HashMap::new();
    for failure in failures {
        let key = (failure.code, normal(&failure.message));
        let group = groups.entry(key).or_insert_with_key(|(code, message)| ErrorGroup {
            fingerprint: fingerprint(code, message),
            code: code.clone(),
            message: message.clone(),
            count: 0,
            dead_lettered: 0,
            retrying: 0,
            first_seen: failure.at.into(),
            last_seen: failure.at.into(),
            sample: failure.run,
        });
        group.count += 1;
        group.dead_lettered += u64::from(failure.outcome == Outcome::DeadLettered);
        group.retrying += u64::from(failure.outcome == Outcome::Retrying);
        group.first_seen = group.first_seen.min(failure.at.into());
        if failure.at >= *group.last_seen {
            (group.last_seen, group.sample) = (failure.at.into(), failure.run);
        }
    }
    let mut groups: Vec<ErrorGroup> = groups.into_values().collect();
    groups.sort_by(|one, other| {
        (other.count, other.last_seen, &one.fingerprint).cmp(&(one.count, one.last_seen, &other.fingerprint))
    });
    groups
}

/// The fingerprint of the group of a failure with this code and message.
pub fn fingerprint_of(code: &str, message: &str) -> String {
    fingerprint(code, &normal(message))
}

/// Names a group.
fn fingerprint(code: &str, message: &str) -> String {
    let hash = Sha256::new().chain_update(code).chain_update([0]).chain_update(message).finalize();
    hex::encode(&hash[..8])
}

/// The text with `#` for what differs between failures of the same cause.
pub fn normal(message: &str) -> String {
    let mut text = String::with_capacity(message.len().min(MAX_CHARS));
    let mut chars = 0;
    for word in message.split_whitespace() {
        if !text.is_empty() {
            text.push(' ');
            chars += 1;
        }
        let word = normal_word(word);
        chars += word.chars().count();
        text.push_str(&word);
        if chars >= MAX_CHARS {
            break;
        }
    }
    if let Some((end, _)) = text.char_indices().nth(MAX_CHARS) {
        text.truncate(end);
    }
    text
}

/// A word without what differs: `#` for one that has a digit, is an address, or follows a quotation mark, with the signs around it.
fn normal_word(word: &str) -> Cow<'_, str> {
    let from_body = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    let body = from_body.trim_end_matches(|c: char| !c.is_alphanumeric());
    let (before, after) = (&word[..word.len() - from_body.len()], &from_body[body.len()..]);
    let differs = body.bytes().any(|byte| byte.is_ascii_digit())
        || before.ends_with(['`', '"', '\''])
        || body.contains("://");
    if differs && !body.is_empty() { format!("{before}#{after}").into() } else { word.into() }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn failure(run: u128, code: &str, message: &str) -> FailedRun {
        FailedRun {
            run: RunId(Uuid::from_u128(run)),
            code: code.to_owned(),
            message: message.to_owned(),
            at: DateTime::UNIX_EPOCH + TimeDelta::seconds(i64::try_from(run).unwrap()),
            outcome: Outcome::Failed,
        }
    }

    #[test]
    fn numbers_ids_and_quoted_texts_do_not_split_a_group() {
        let same = [
            "openai: slow down, retry in 12 s (HTTP 429), request req_0a1b",
            "openai: slow down, retry in 3 s (HTTP 429), request req_ff00",
        ];
        assert_eq!(normal(same[0]), "openai: slow down, retry in # s (HTTP #), request #");
        assert_eq!(normal(same[0]), normal(same[1]));
        assert_eq!(normal("no model `gpt-x` at https://a.example/v1"), "no model `#` at #");
        assert_ne!(normal("the key is wrong"), normal("the key has expired"));
    }

    #[test]
    fn groups_have_counts_times_and_the_latest_run() {
        let dead = FailedRun { outcome: Outcome::DeadLettered, ..failure(4, "CRASHED", "workers died") };
        let all =
            [failure(1, "AUTH", "key 1"), failure(3, "AUTH", "key 2"), dead, failure(2, "AUTH", "key 3")];
        let groups = grouped(all);
        let [auth, crashed] = groups.as_slice() else { panic!("{groups:?}") };
        assert_eq!((auth.code.as_str(), auth.count, auth.sample.0.as_u128()), ("AUTH", 3, 3));
        assert_eq!((*auth.last_seen - *auth.first_seen).num_seconds(), 2);
        assert_eq!((crashed.count, crashed.dead_lettered), (1, 1));
        assert!(auth.fingerprint != crashed.fingerprint && auth.fingerprint.len() == 16);
    }

    proptest! {
        #[test]
        fn normal_text_is_short_and_stays_as_it_is(message in ".{0,400}") {
            let once = normal(&message);
            prop_assert!(once.chars().count() <= MAX_CHARS);
            prop_assert!(!once.contains(|c: char| c.is_ascii_digit()));
            prop_assert_eq!(normal(&once), once.trim_end());
        }
    }
}

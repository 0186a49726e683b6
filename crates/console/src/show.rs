//! How values look: times, durations, amounts, ids, statuses.

use std::fmt;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use houston_domain::health::HealthStatus;
use houston_domain::run::RunStatus;
use houston_protocol::time::Time;
use rust_decimal::Decimal;
use url::form_urlencoded::{Serializer, byte_serialize};

/// An instant for the macro `time`. All empty: there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) iso: String,
    pub(crate) full: String,
    pub(crate) ago: String,
}

/// A word with a colour for the macro `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) text: String,
    pub(crate) tone: &'static str,
}

/// A name with a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// Something to choose: a link, unless it is chosen.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) href: String,
    pub(crate) name: String,
    pub(crate) current: bool,
}

pub(crate) fn fact(name: &'static str, value: impl Into<String>) -> Fact {
    Fact { name, value: value.into() }
}

/// An instant, as seen at `now`.
pub(crate) fn when(at: Time, now: DateTime<Utc>) -> When {
    When {
        iso: at.0.to_rfc3339_opts(SecondsFormat::Millis, true),
        full: at.0.format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(),
        ago: ago(at.0, now),
    }
}

pub(crate) fn when_if(at: Option<Time>, now: DateTime<Utc>) -> When {
    at.map(|at| when(at, now)).unwrap_or_default()
}

/// `3 min ago`, `in 12 s`, `now`. The script counts on in the same way.
fn ago(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let seconds = (now - at).num_milliseconds();
    let far = (seconds.abs() + 500) / 1000;
    if far < 5 {
        return "now".to_owned();
    }
    let (size, unit) = match far {
        172_800.. => (86_400, "d"),
        7_200.. => (3_600, "h"),
        120.. => (60, "min"),
        _ => (1, "s"),
    };
    let text = format!("{} {unit}", far / size);
    if seconds < 0 { format!("in {text}") } else { format!("{text} ago") }
}

/// `14 ms`, `2.1 s`, `3 min 20 s`, `5 h 2 min`, `4 d 3 h`. Negative spans, by clocks that differ, are none.
pub(crate) fn took(span: TimeDelta) -> String {
    let ms = span.num_milliseconds().max(0);
    let two = |large: i64, of: &str, small: i64, rest: &str| match small {
        0 => format!("{large} {of}"),
        _ => format!("{large} {of} {small} {rest}"),
    };
    let s = ms / 1000;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", s, ms % 1000 / 100),
        60_000..3_600_000 => two(s / 60, "min", s % 60, "s"),
        3_600_000..86_400_000 => two(s / 3_600, "h", s % 3_600 / 60, "min"),
        _ => two(s / 86_400, "d", s % 86_400 / 3_600, "h"),
    }
}

/// `1,234,567`; what is below 0 is 0.
pub(crate) fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `$0.0123`; empty if it is unknown, which is not 0.
pub(crate) fn dollars(cost: Option<Decimal>) -> String {
    let Some(cost) = cost else { return String::new() };
    let digits = if cost.abs() < Decimal::ONE { 4 } else { 2 };
    let rounded = cost.round_dp(digits);
    if cost.is_zero() {
        return "$0".to_owned();
    }
    // Amounts too small for these digits are not nothing.
    if rounded.is_zero() {
        return "< $0.0001".to_owned();
    }
    format!("${rounded:.*}", digits as usize)
}

/// The cost of calls, some of which may have no price.
pub(crate) fn cost(sum: Option<Decimal>, unpriced: i32) -> String {
    match (dollars(sum), unpriced) {
        (sum, 0) => sum,
        (sum, unpriced) if sum.is_empty() => format!("{unpriced} unpriced"),
        (sum, unpriced) => format!("{sum} + {unpriced} unpriced"),
    }
}

/// The end of an id, which differs most: `run_…3f2a91c0`.
pub(crate) fn short(id: impl fmt::Display) -> String {
    let id = id.to_string();
    match id.rsplit_once('_') {
        Some((kind, digits)) if digits.len() > 12 && digits.is_ascii() => {
            format!("{kind}_…{}", &digits[digits.len() - 8..])
        }
        _ => id,
    }
}

/// A text on one line, of at most `most` characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= most {
        return flat;
    }
    let cut: String = flat.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// A kind in paths of the API.
pub(crate) fn plural(kind: &str) -> String {
    segment(&format!("{kind}s"))
}

/// A part of a path: what is no id or name finds nothing.
pub(crate) fn segment(text: &str) -> String {
    byte_serialize(text.as_bytes()).collect()
}

/// `path` with the parameters that are not empty.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// How the status of a run looks.
pub(crate) fn run_status(status: RunStatus) -> Status {
    let tone = match status {
        RunStatus::Queued => "idle",
        RunStatus::Running => "busy",
        RunStatus::Retrying => "warn",
        RunStatus::Waiting => "wait",
        RunStatus::Completed | RunStatus::MessageSent => "good",
        RunStatus::MaxIterations
        | RunStatus::SameTool
        | RunStatus::MaxDuration
        | RunStatus::HistoryFull
        | RunStatus::MaxTokens => "warn",
        RunStatus::Cancelled => "off",
        RunStatus::Failed | RunStatus::DeadLettered => "bad",
    };
    Status { text: status.as_str().replace('_', " "), tone }
}

/// How a severity looks.
pub(crate) fn severity(status: HealthStatus) -> Status {
    let (text, tone) = match status {
        HealthStatus::Ok => ("ok", "good"),
        HealthStatus::Warn => ("look at it", "warn"),
        HealthStatus::Red => ("broken", "bad"),
    };
    Status { text: text.to_owned(), tone }
}

/// Yes or no.
pub(crate) fn switch(on: bool, yes: &str, no: &str) -> Status {
    let (text, tone) = if on { (yes, "good") } else { (no, "off") };
    Status { text: text.to_owned(), tone }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (ms, text) in [
            (-4, "0 ms"),
            (14, "14 ms"),
            (2_199, "2.1 s"),
            (200_000, "3 min 20 s"),
            (3_600_000, "1 h"),
            (18_120_000, "5 h 2 min"),
            (356_400_000, "4 d 3 h"),
        ] {
            assert_eq!(took(TimeDelta::milliseconds(ms)), text);
        }
    }

    #[test]
    fn times_are_relative_in_both_directions() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(9);
        for (seconds, text) in
            [(0, "now"), (-20, "in 20 s"), (119, "119 s ago"), (121, "2 min ago"), (7_300, "2 h ago")]
        {
            assert_eq!(ago(now - TimeDelta::seconds(seconds), now), text);
        }
    }

    #[test]
    fn small_amounts_are_not_nothing() {
        let cost = |text: &str| dollars(Some(text.parse().unwrap()));
        assert_eq!(cost("0.00123"), "$0.0012");
        assert_eq!(cost("0.000001"), "< $0.0001");
        assert_eq!(cost("0"), "$0");
        assert_eq!(cost("1234.5"), "$1234.50");
        assert_eq!(super::cost(None, 0), "");
        assert_eq!(super::cost(None, 2), "2 unpriced");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
    }

    #[test]
    fn parts_of_paths_lead_nowhere_else() {
        assert_eq!(segment("run_1/../../users?x"), "run_1%2F..%2F..%2Fusers%3Fx");
        assert_eq!(with_query("/runs", &[("q", "a&b=c"), ("cursor", "")]), "/runs?q=a%26b%3Dc");
        assert_eq!(short("run_019ab3c4d5e67f8091a2b3c4d5e6f708"), "run_…d5e6f708");
        assert_eq!(line("a\n  b c", 4), "a b…");
    }
}

//! Parses how long a provider asks to wait: from headers, from fields of the body, or from the message text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// Longest wait accepted: a day. Larger values are treated as a mistake and cut to this.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Numbers from this value on are timestamps in milliseconds since 1970; those from [`MOMENT_IN_S`] on are in
/// seconds. No wait is as long as either.
const MOMENT_IN_MS: f64 = 1e12;
const MOMENT_IN_S: f64 = 1e9;

/// The longest wait in the headers. Azure AI Foundry sends `retry-after: 1` together with `retry-after-ms: 0`.
pub(super) fn in_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis =
        text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).and_then(|ms| seconds(ms / 1000.0));
    let plain = text(RETRY_AFTER.as_str()).and_then(|text| match text.parse() {
        Ok(number) => seconds(number),
        Err(_) => {
            let until = httpdate::parse_http_date(text).ok();
            until.and_then(|until| from_now(headers, until)).or_else(|| span(text))
        }
    });
    millis.max(plain)
}

/// The time until the exhausted rate limit resets, from the rate limit headers (`x-ratelimit-reset-tokens: 6m0s`,
/// `anthropic-ratelimit-requests-reset: 2026-05-28T22:16:32Z`, `ratelimit-reset: 30`). Only limits with nothing
/// remaining count; if no header shows which those are, all count. The longest time wins.
pub(super) fn until_reset(headers: &HeaderMap) -> Option<Duration> {
    let resets = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        if !name.contains("ratelimit") || !name.contains("reset") {
            return None;
        }
        let wait = moment_or_span(headers, value.to_str().ok()?.trim())?;
        let left = headers.get(name.replace("reset", "remaining"));
        let left = left.and_then(|left| left.to_str().ok()?.trim().parse::<f64>().ok());
        Some((wait, left.is_some_and(|left| left <= 0.0)))
    });
    let resets: Vec<(Duration, bool)> = resets.collect();
    let exhausted = resets.iter().any(|(_, exhausted)| *exhausted);
    resets.into_iter().filter(|(_, this)| *this || !exhausted).map(|(wait, _)| wait).max()
}

/// The time until a timestamp from the body, in milliseconds since 1970.
pub(super) fn until_moment(headers: &HeaderMap, moment_ms: u64) -> Option<Duration> {
    from_now(headers, UNIX_EPOCH.checked_add(Duration::from_millis(moment_ms))?)
}

/// The wait in the fields of an error object: Gemini's `{"@type": "…RetryInfo", "retryDelay": "48s"}` among its
/// details, or a number in the error itself or in OpenRouter's `metadata`.
pub(super) fn in_body(details: &Value) -> Option<Duration> {
    let infos = details.get("details").and_then(Value::as_array);
    let infos = infos.into_iter().flatten().filter_map(|info| span(info.get("retryDelay")?.as_str()?));
    let numbers = [details.get("metadata"), Some(details)].into_iter().flatten().flat_map(|fields| {
        let ms = ["retry_after_ms"].iter().filter_map(|name| seconds(number(fields.get(name)?)? / 1000.0));
        let s = ["retry_after", "retry_after_seconds", "resets_in_seconds"].iter();
        ms.chain(s.filter_map(|name| seconds(number(fields.get(name)?)?))).collect::<Vec<_>>()
    });
    infos.chain(numbers).max()
}

/// OpenRouter repeats rate limit headers in the body: `{"metadata": {"headers": {"X-RateLimit-Reset": "<ms>"}}}`.
pub(super) fn reset_in_body(details: &Value) -> Option<u64> {
    let headers = details.pointer("/metadata/headers")?.as_object()?;
    let reset = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-ratelimit-reset"))?.1;
    let reset = number(reset).filter(|reset| *reset >= MOMENT_IN_S)?;
    let ms = if reset >= MOMENT_IN_MS { reset } else { reset * 1000.0 };
    u64::try_from(seconds_unbounded(ms / 1000.0)?.as_millis()).ok()
}

/// The wait in a message: `Please try again in 6m0s`, `Please retry after 7 seconds`, `Please wait 44 seconds before
/// retrying`.
pub(super) fn in_text(message: &str) -> Option<Duration> {
    let words = message.to_lowercase();
    ["try again in ", "retry in ", "retry after ", "try again after ", "wait "].iter().find_map(|lead| {
        let (_, rest) = words.split_once(lead)?;
        span(rest.trim_start_matches("about "))
    })
}

/// Parses numbers with units: `6m0s`, `1.5s`, `20ms`, `48 seconds`. Text after them is ignored.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut total: Option<f64> = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(count) = rest[..digits].trim_end_matches('.').parse::<f64>() else { break };
        let after = rest[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        total = Some(total.unwrap_or(0.0) + count * unit);
        rest = after[letters..].trim_start();
    }
    seconds(total?)
}

/// Parses the value of a reset header: a duration, a number of seconds, a numeric timestamp, or a date.
fn moment_or_span(headers: &HeaderMap, text: &str) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        return match number {
            MOMENT_IN_MS.. => from_now(headers, UNIX_EPOCH.checked_add(seconds_unbounded(number / 1000.0)?)?),
            MOMENT_IN_S.. => from_now(headers, UNIX_EPOCH.checked_add(seconds_unbounded(number)?)?),
            _ => seconds(number),
        };
    }
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return from_now(headers, moment.into());
    }
    span(text)
}

/// The time from the response's `date` header to `until`. Comparing two times of the same server needs no local
/// clock.
fn from_now(headers: &HeaderMap, until: SystemTime) -> Option<Duration> {
    let now = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    Some(until.duration_since(now).unwrap_or_default().min(LONGEST))
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

fn seconds(number: f64) -> Option<Duration> {
    seconds_unbounded(number).map(|delay| delay.min(LONGEST))
}

fn seconds_unbounded(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Pairs<'a> = &'a [(&'static str, &'static str)];

    const DATED: (&str, &str) = ("date", "Thu, 28 May 2026 22:16:02 GMT");

    fn headers(pairs: Pairs<'_>) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn retry_after_header_is_parsed_in_every_form() {
        let cases: [(Pairs<'_>, Option<u64>); 9] = [
            (&[("retry-after", "16")], Some(16_000)),
            (&[("retry-after", "0.35")], Some(350)),
            (&[("retry-after", "1"), ("retry-after-ms", "0")], Some(1_000)),
            (&[("retry-after-ms", "340")], Some(340)),
            (&[("retry-after", "Thu, 28 May 2026 22:16:32 GMT"), DATED], Some(30_000)),
            (&[("retry-after", "Thu, 28 May 2026 22:16:32 GMT")], None),
            (&[("retry-after", "20s")], Some(20_000)),
            (&[("retry-after", "-5")], None),
            (&[("retry-after", "1e99")], None),
        ];
        for (pairs, expected) in cases {
            assert_eq!(in_headers(&headers(pairs)), expected.map(Duration::from_millis), "{pairs:?}");
        }
    }

    #[test]
    fn exhausted_rate_limit_gives_the_retry_delay() {
        let cases: [(Pairs<'_>, Option<u64>); 9] = [
            (&[("x-ratelimit-reset-requests", "6m0s")], Some(360_000)),
            (&[("x-ratelimit-reset-tokens", "20ms")], Some(20)),
            (&[("x-ratelimit-reset-requests", "2m59.56s")], Some(179_560)),
            (
                &[
                    ("x-ratelimit-reset-requests", "6m0s"),
                    ("x-ratelimit-remaining-requests", "99"),
                    ("x-ratelimit-reset-tokens", "1s"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ],
                Some(1_000),
            ),
            (&[("anthropic-ratelimit-requests-reset", "2026-05-28T22:16:32Z"), DATED], Some(30_000)),
            (&[("anthropic-ratelimit-requests-reset", "2026-05-28T22:16:32Z")], None),
            (&[("x-ratelimit-reset", "1780006592000"), DATED], Some(30_000)),
            (&[("x-ratelimit-reset", "1780006592"), DATED], Some(30_000)),
            (&[("ratelimit-reset", "30")], Some(30_000)),
        ];
        for (pairs, expected) in cases {
            assert_eq!(until_reset(&headers(pairs)), expected.map(Duration::from_millis), "{pairs:?}");
        }
    }

    #[test]
    fn retry_delay_is_parsed_from_message_and_body() {
        for (text, expected) in [
            ("Rate limit reached for x. Limit: 3 / min. Please try again in 20s. Visit", Some(20_000)),
            ("Please try again in 7m12.5s.", Some(432_500)),
            ("Please try again in 250ms.", Some(250)),
            ("Please retry after 7 seconds.", Some(7_000)),
            ("Rate limit of 10 per 60s exceeded. Please wait 44 seconds before retrying.", Some(44_000)),
            ("Please retry in 48.1s.", Some(48_100)),
            ("Please try again in 1 hour 2 minutes", Some(3_720_000)),
            ("wait a moment and try again", None),
            ("Please try again in a moment", None),
        ] {
            assert_eq!(in_text(text), expected.map(Duration::from_millis), "{text}");
        }
        let wait = |error: Value| in_body(&error).map(|wait| wait.as_millis());
        assert_eq!(wait(json!({"details": [{"@type": "x"}, {"retryDelay": "48s"}]})), Some(48_000));
        assert_eq!(wait(json!({"metadata": {"retry_after_seconds": 8.5}})), Some(8_500));
        assert_eq!(wait(json!({"retry_after": "3"})), Some(3_000));
        let moment = json!({"metadata": {"headers": {"X-RateLimit-Reset": "1780006592000"}}});
        let moment = reset_in_body(&moment).unwrap();
        assert_eq!(until_moment(&headers(&[DATED]), moment), Some(Duration::from_secs(30)));
    }
}

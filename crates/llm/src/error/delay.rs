//! How long a provider asks to wait: in seconds, in milliseconds, as a date, or inside the body.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

/// Nobody waits longer than a day for a model; what asks for more is a mistake.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The longest wait that the headers ask for. AI Foundry sends `retry-after: 1` beside `retry-after-ms: 0`.
pub(super) fn in_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis =
        text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).and_then(|ms| seconds(ms / 1000.0));
    let plain = text(RETRY_AFTER.as_str()).and_then(|text| match text.parse() {
        Ok(number) => seconds(number),
        // The distance between two dates of the same server needs no clock, and no agreement on the time.
        Err(_) => {
            let until = httpdate::parse_http_date(text).ok()?;
            let now = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
            Some(until.duration_since(now).unwrap_or_default().min(LONGEST))
        }
    });
    millis.max(plain)
}

/// Gemini's `{"@type": "…RetryInfo", "retryDelay": "48s"}`.
pub(super) fn in_detail(detail: &Value) -> Option<Duration> {
    seconds(detail.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse().ok()?)
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok().map(|delay| delay.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn every_form_of_the_header_is_read() {
        type Pairs<'a> = &'a [(&'static str, &'static str)];
        let cases: [(Pairs<'_>, Option<u64>); 7] = [
            (&[("retry-after", "16")], Some(16_000)),
            (&[("retry-after", "1"), ("retry-after-ms", "0")], Some(1_000)),
            (&[("retry-after-ms", "340")], Some(340)),
            (
                &[
                    ("retry-after", "Thu, 28 May 2026 22:16:32 GMT"),
                    ("date", "Thu, 28 May 2026 22:16:02 GMT"),
                ],
                Some(30_000),
            ),
            (&[("retry-after", "Thu, 28 May 2026 22:16:32 GMT")], None),
            (&[("retry-after", "-5")], None),
            (&[("retry-after", "1e99")], None),
        ];
        for (pairs, expected) in cases {
            assert_eq!(in_headers(&headers(pairs)), expected.map(Duration::from_millis), "{pairs:?}");
        }
    }
}

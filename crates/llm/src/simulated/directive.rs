//! Parses `/sim …` lines in a user's text, which control the simulated model in load and fault tests. [`super`] lists
//! the directives.

use std::time::Duration;

use houston_domain::model::ModelErrorCode;

/// A tool call requested by a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestedCall {
    pub(super) name: String,
    /// The arguments as they are sent, whether valid JSON or not.
    pub(super) json: String,
}

/// The directives in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) chunks: Option<usize>,
    pub(super) think: usize,
    pub(super) delay: Option<Duration>,
    pub(super) hold: Duration,
    pub(super) fail: Option<ModelErrorCode>,
    pub(super) fail_after: usize,
    pub(super) retry_after: Option<Duration>,
    pub(super) calls: Vec<RequestedCall>,
    pub(super) repeat: Option<String>,
}

/// Longest answer a directive may request, in words, so that a test cannot exhaust memory.
const MAX_CHUNKS: usize = 100_000;

impl Directives {
    /// Parses the directives in `text` and returns them with the remaining text.
    pub(super) fn read(text: &str) -> (Self, String) {
        let mut directives = Self::default();
        let mut rest = String::new();
        for line in text.lines() {
            match line.split_once("/sim ") {
                Some((before, arguments)) => {
                    rest.push_str(before);
                    directives.apply(arguments);
                }
                None => rest.push_str(line),
            }
            rest.push('\n');
        }
        (directives, rest.trim().to_owned())
    }

    fn apply(&mut self, arguments: &str) {
        let mut arguments = arguments.trim_start();
        while let Some((key, after)) = arguments.split_once('=') {
            let value_end = end_of_value(after);
            let (value, next) = after.split_at(value_end);
            self.set(key.trim(), value);
            arguments = next.trim_start();
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let millis = || value.parse().map(Duration::from_millis).unwrap_or_default();
        match key {
            "chunks" => self.chunks = value.parse().ok().map(|n: usize| n.clamp(1, MAX_CHUNKS)),
            "think" => self.think = value.parse().unwrap_or(0).min(MAX_CHUNKS),
            "delay_ms" => self.delay = Some(millis()),
            "hold_ms" => self.hold = millis(),
            "fail" => self.fail = Some(code_named(value)),
            "fail_after" => self.fail_after = value.parse().unwrap_or(0),
            "retry_after_ms" => self.retry_after = Some(millis()),
            "tool" => self.calls.push(RequestedCall { name: value.to_owned(), json: "{}".to_owned() }),
            "args" => {
                if let Some(call) = self.calls.last_mut() {
                    value.clone_into(&mut call.json);
                }
            }
            "loop" => self.repeat = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// End of a value: after the JSON value it starts with, otherwise before the next space.
fn end_of_value(text: &str) -> usize {
    if text.starts_with(['{', '[', '"']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            return values.byte_offset();
        }
    }
    text.find(' ').unwrap_or(text.len())
}

/// Parses an error code such as `rate_limited`; unknown names give `UNKNOWN`.
fn code_named(name: &str) -> ModelErrorCode {
    serde_json::from_value(name.to_uppercase().into()).unwrap_or(ModelErrorCode::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_parsed_and_removed_from_the_text() {
        let (directives, rest) = Directives::read(
            "hello\n/sim chunks=20 delay_ms=0 tool=create_note args={\"title\": \"a b\"} tool=x args={oops fail=timeout\nthere",
        );
        assert_eq!(rest, "hello\n\nthere");
        assert_eq!(directives.chunks, Some(20));
        assert_eq!(directives.delay, Some(Duration::ZERO));
        assert_eq!(directives.fail, Some(ModelErrorCode::Timeout));
        let calls: Vec<_> =
            directives.calls.iter().map(|call| (call.name.as_str(), call.json.as_str())).collect();
        assert_eq!(calls, [("create_note", "{\"title\": \"a b\"}"), ("x", "{oops")]);
    }
}

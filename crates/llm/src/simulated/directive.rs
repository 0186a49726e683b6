//! `/sim …` in a user's text: orders for load and fault drills. The list stands in [`super`].

use std::time::Duration;

use houston_domain::model::ModelErrorCode;

/// A tool the text orders to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OrderedCall {
    pub(super) name: String,
    /// The arguments as they are to be sent, well-formed or not.
    pub(super) json: String,
}

/// What a text orders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) chunks: Option<usize>,
    pub(super) think: usize,
    pub(super) delay: Option<Duration>,
    pub(super) hold: Duration,
    pub(super) fail: Option<ModelErrorCode>,
    pub(super) fail_after: usize,
    pub(super) retry_after: Option<Duration>,
    pub(super) calls: Vec<OrderedCall>,
    pub(super) repeat: Option<String>,
}

/// The longest answer a text may order, so that a drill cannot exhaust memory.
const MOST_CHUNKS: usize = 100_000;

impl Directives {
    /// Reads the orders in `text` and returns them with the rest of it.
    pub(super) fn read(text: &str) -> (Self, String) {
        let mut directives = Self::default();
        let mut rest = String::new();
        for line in text.lines() {
            match line.split_once("/sim ") {
                Some((before, orders)) => {
                    rest.push_str(before);
                    directives.obey(orders);
                }
                None => rest.push_str(line),
            }
            rest.push('\n');
        }
        (directives, rest.trim().to_owned())
    }

    fn obey(&mut self, orders: &str) {
        let mut orders = orders.trim_start();
        while let Some((key, after)) = orders.split_once('=') {
            let value_end = end_of_value(after);
            let (value, next) = after.split_at(value_end);
            self.set(key.trim(), value);
            orders = next.trim_start();
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let millis = || value.parse().map(Duration::from_millis).unwrap_or_default();
        match key {
            "chunks" => self.chunks = value.parse().ok().map(|n: usize| n.clamp(1, MOST_CHUNKS)),
            "think" => self.think = value.parse().unwrap_or(0).min(MOST_CHUNKS),
            "delay_ms" => self.delay = Some(millis()),
            "hold_ms" => self.hold = millis(),
            "fail" => self.fail = Some(code_named(value)),
            "fail_after" => self.fail_after = value.parse().unwrap_or(0),
            "retry_after_ms" => self.retry_after = Some(millis()),
            "tool" => self.calls.push(OrderedCall { name: value.to_owned(), json: "{}".to_owned() }),
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

/// Where a value ends: after the JSON that begins it, else at the next space.
fn end_of_value(text: &str) -> usize {
    if text.starts_with(['{', '[', '"']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            return values.byte_offset();
        }
    }
    text.find(' ').unwrap_or(text.len())
}

/// `rate_limited` → its code; what is none of the ten is `UNKNOWN`.
fn code_named(name: &str) -> ModelErrorCode {
    serde_json::from_value(name.to_uppercase().into()).unwrap_or(ModelErrorCode::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_taken_out_of_the_text() {
        let (orders, rest) = Directives::read(
            "hello\n/sim chunks=20 delay_ms=0 tool=create_note args={\"title\": \"a b\"} tool=x args={oops fail=timeout\nthere",
        );
        assert_eq!(rest, "hello\n\nthere");
        assert_eq!(orders.chunks, Some(20));
        assert_eq!(orders.delay, Some(Duration::ZERO));
        assert_eq!(orders.fail, Some(ModelErrorCode::Timeout));
        let calls: Vec<_> =
            orders.calls.iter().map(|call| (call.name.as_str(), call.json.as_str())).collect();
        assert_eq!(calls, [("create_note", "{\"title\": \"a b\"}"), ("x", "{oops")]);
    }
}

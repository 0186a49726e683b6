//! Reasoning kept for the provider that wrote it, in [`Block::Thinking`]'s `raw`.
//!
//! Anthropic's blocks name themselves and are kept bare. Other wires have no block of their own, so what they
//! need to send again is wrapped with the wire and the provider it belongs to; to anyone else it is nothing.
//!
//! [`Block::Thinking`]: houston_domain::history::Block::Thinking

use serde_json::{Map, Value};

/// Wraps what `provider` wants back.
pub(crate) fn wrap(wire: &str, provider: &str, mut fields: Map<String, Value>) -> Value {
    fields.insert("wire".to_owned(), wire.into());
    fields.insert("provider".to_owned(), provider.into());
    Value::Object(fields)
}

/// What was wrapped by the same wire for the same provider.
pub(crate) fn unwrap<'a>(raw: &'a Value, wire: &str, provider: &str) -> Option<&'a Map<String, Value>> {
    let fields = raw.as_object()?;
    let is = |name: &str, wanted: &str| fields.get(name).and_then(Value::as_str) == Some(wanted);
    (is("wire", wire) && is("provider", provider)).then_some(fields)
}

/// Whether it is wrapped, and so no block of Anthropic's.
pub(crate) fn is_wrapped(raw: &Value) -> bool {
    raw.get("wire").is_some()
}

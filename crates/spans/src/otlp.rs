//! The messages of OTLP, version 1, as protobuf: `opentelemetry/proto/trace/v1/trace.proto` has the numbers of the fields.

use serde_json::Value;

use crate::context::SpanContext;
use crate::record::{KeyValue, Record};

/// The version of the conventions for attributes.
const VERSION: &str = "1.41.0";

/// An `ExportTraceServiceRequest` with these spans of a process with these attributes.
pub fn request(resource: &[(String, String)], spans: &[Vec<u8>]) -> Vec<u8> {
    let mut scope = Message::default();
    scope.bytes(1, b"houston");
    scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
    let mut of_scope = Message::default();
    of_scope.message(1, &scope);
    for span in spans {
        of_scope.bytes(2, span);
    }
    of_scope.bytes(3, format!("https://opentelemetry.io/schemas/{VERSION}").as_bytes());
    let mut attributes = Message::default();
    for (key, value) in resource {
        attributes.message(1, &attribute(key, &text(value)));
    }
    let mut of_resource = Message::default();
    of_resource.message(1, &attributes);
    of_resource.message(2, &of_scope);
    let mut request = Message::default();
    request.message(1, &of_resource);
    request.0
}

/// A `Span` that ended at this time.
pub(crate) fn span(record: &Record, context: SpanContext, ended: u64) -> Vec<u8> {
    let mut span = Message::default();
    span.bytes(1, &context.trace.to_be_bytes());
    span.bytes(2, &context.span.to_be_bytes());
    if let Some(parent) = record.parent {
        span.bytes(4, &parent.span.to_be_bytes());
    }
    span.bytes(5, record.name.as_bytes());
    span.number(6, record.kind as u64);
    span.fixed64(7, record.begun);
    span.fixed64(8, ended);
    for KeyValue { key, value } in &record.attributes {
        span.message(9, &attribute(key, &any_value(value)));
    }
    if record.dropped > 0 {
        span.number(10, record.dropped);
    }
    if let Some(linked) = record.link {
        let mut link = Message::default();
        link.bytes(1, &linked.trace.to_be_bytes());
        link.bytes(2, &linked.span.to_be_bytes());
        link.fixed32(6, flags(linked.is_sampled, linked.is_remote));
        span.message(13, &link);
    }
    let mut status = Message::default();
    if let Some(error) = record.error {
        status.bytes(2, error.as_bytes());
        // `STATUS_CODE_ERROR`
        status.number(3, 2);
    }
    span.message(15, &status);
    span.fixed32(16, flags(context.is_sampled, record.parent.is_some_and(|parent| parent.is_remote)));
    span.0
}

/// `SpanFlags`: whether the span is sampled, and, which is always known, whether its parent or the linked span is remote.
fn flags(is_sampled: bool, is_remote: bool) -> u32 {
    u32::from(is_sampled) | 0x100 | (u32::from(is_remote) << 9)
}

/// A `KeyValue`.
fn attribute(key: &str, value: &Message) -> Message {
    let mut attribute = Message::default();
    attribute.bytes(1, key.as_bytes());
    attribute.message(2, value);
    attribute
}

fn text(text: &str) -> Message {
    let mut any = Message::default();
    any.bytes(1, text.as_bytes());
    any
}

fn any_value(value: &Value) -> Message {
    let mut any = Message::default();
    match value {
        Value::String(value) => return text(value),
        Value::Bool(value) => any.number(2, u64::from(*value)),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => any.number(3, integer.cast_unsigned()),
            None => any.fixed64(4, number.as_f64().unwrap_or_default().to_bits()),
        },
        Value::Array(values) => {
            let mut array = Message::default();
            for value in values {
                array.message(1, &any_value(value));
            }
            any.message(5, &array);
        }
        Value::Null | Value::Object(_) => {}
    }
    any
}

/// A message of protobuf.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn number(&mut self, field: u32, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn fixed32(&mut self, field: u32, value: u32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }

    fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.0);
    }
}

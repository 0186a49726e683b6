//! [`Record`]: what is known of a span that is sampled.

use std::borrow::Cow;

use serde_json::Value;

use crate::context::SpanContext;

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyValue {
    pub(crate) key: &'static str,
    /// A text, a number, a switch, or a list of texts.
    pub(crate) value: Value,
}

/// What a span is to the one that it talks to. The numbers are those of OTLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
    Consumer = 5,
}

/// How much a span may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Attributes of a span.
    pub attributes: usize,
    /// Links of a span.
    pub links: usize,
}

impl Limits {
    /// Those of OpenTelemetry.
    pub const DEFAULT: Self = Self { attributes: 128, links: 128 };
}

/// A span that has begun.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    /// Nanoseconds since 1970.
    pub(crate) begun: u64,
    pub(crate) parent: Option<SpanContext>,
    pub(crate) link: Option<SpanContext>,
    pub(crate) attributes: Vec<KeyValue>,
    /// Attributes for which there was no room.
    pub(crate) dropped: u64,
    /// What it failed with, if it did.
    pub(crate) error: Option<&'static str>,
}

impl Record {
    pub(crate) fn add(&mut self, attributes: Vec<KeyValue>, limits: Limits) {
        for attribute in attributes {
            if self.attributes.len() < limits.attributes {
                self.attributes.push(attribute);
            } else {
                self.dropped += 1;
            }
        }
    }
}

/// An attribute.
pub(crate) fn attribute(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue { key, value: value.into() }
}

/// A count as an attribute.
pub(crate) fn count(key: &'static str, value: u64) -> KeyValue {
    attribute(key, i64::try_from(value).unwrap_or(i64::MAX))
}

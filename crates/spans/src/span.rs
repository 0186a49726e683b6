//! [`Spans`] and [`Span`]: a tracer, if there is one, and what it began.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{Link, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, Value};

use crate::content::Contents;
use crate::parent::TraceParent;

/// Begins spans, if there is a tracer; cheap to clone.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<Inner>>);

struct Inner {
    tracer: BoxedTracer,
    contents: Contents,
}

/// A span that ends when it is dropped, or none.
#[derive(Default)]
pub struct Span(Option<Box<Active>>);

struct Active {
    inner: Arc<Inner>,
    context: Context,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.context.span().end();
    }
}

impl Spans {
    /// Spans of this tracer.
    #[must_use]
    pub fn new(tracer: BoxedTracer, contents: Contents) -> Self {
        Self(Some(Arc::new(Inner { tracer, contents })))
    }

    /// Whether there is a tracer.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A span whose parent is in another process, or that has none.
    pub(crate) fn begin(
        &self,
        make: impl FnOnce() -> (Cow<'static, str>, SpanKind, Vec<KeyValue>),
        from: Follows<'_>,
    ) -> Span {
        let Some(inner) = &self.0 else { return Span::default() };
        let (name, kind, attributes) = make();
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes);
        let (builder, parent) = match from {
            Follows::Nothing => (builder, Context::new()),
            Follows::Parent(TraceParent(parent)) => {
                (builder, Context::new().with_remote_span_context(parent.clone()))
            }
            Follows::Link(TraceParent(linked)) => {
                (builder.with_links(vec![Link::new(linked.clone(), Vec::new(), 0)]), Context::new())
            }
        };
        Span::start(inner, builder, &parent)
    }
}

/// What a span follows that was begun in another process.
pub(crate) enum Follows<'p> {
    Nothing,
    Parent(&'p TraceParent),
    /// It is not a part of the same trace.
    Link(&'p TraceParent),
}

impl Span {
    fn start(inner: &Arc<Inner>, builder: SpanBuilder, parent: &Context) -> Self {
        let span = inner.tracer.build_with_context(builder, parent);
        Self(Some(Box::new(Active { inner: Arc::clone(inner), context: Context::new().with_span(span) })))
    }

    /// Whether there is a span.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A part of this span. `make` is called if there is one.
    pub(crate) fn child(&self, make: impl FnOnce() -> (Cow<'static, str>, SpanKind, Vec<KeyValue>)) -> Self {
        let Some(active) = &self.0 else { return Self::default() };
        let (name, kind, attributes) = make();
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_attributes(attributes);
        Self::start(&active.inner, builder, &active.context)
    }

    /// Sets attributes; `make` is called if there is a span that is sampled.
    pub(crate) fn set(&self, make: impl FnOnce(&Contents) -> Vec<KeyValue>) {
        if let Some(active) = &self.0 {
            let span = active.context.span();
            if span.is_recording() {
                span.set_attributes(make(&active.inner.contents));
            }
        }
    }

    pub(crate) fn rename(&self, make: impl FnOnce() -> String) {
        if let Some(active) = &self.0 {
            active.context.span().update_name(make());
        }
    }

    /// What the span is about has failed. `kind`: a code with few values.
    pub fn failed(&self, kind: &'static str) {
        if let Some(active) = &self.0 {
            let span = active.context.span();
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(kind));
        }
    }

    /// What other processes call this span.
    #[must_use]
    pub fn parent(&self) -> Option<TraceParent> {
        let active = self.0.as_ref()?;
        Some(TraceParent(active.context.span().span_context().clone()))
    }

    /// The ids of the trace and of the span, for logs.
    #[must_use]
    pub fn ids(&self) -> Option<(String, String)> {
        let active = self.0.as_ref()?;
        let span = active.context.span();
        let context = span.span_context();
        Some((context.trace_id().to_string(), context.span_id().to_string()))
    }
}

/// An attribute.
pub(crate) fn attribute(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(key, value)
}

/// A count as an attribute.
pub(crate) fn count(key: &'static str, value: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(value).unwrap_or(i64::MAX))
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("is_on", &self.is_on()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.parent().map(|parent| parent.to_string())).finish()
    }
}

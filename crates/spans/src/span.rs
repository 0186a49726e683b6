//! [`Spans`] and [`Span`]: a tracer, if there is one, and what it began.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use houston_domain::clock::{Clock as _, SystemClock};

use crate::content::Contents;
use crate::context::{Sampler, SpanContext};
use crate::otlp;
use crate::parent::TraceParent;
use crate::record::{KeyValue, Limits, Record, SpanKind, attribute};

/// Begins spans, if there is a tracer; cheap to clone.
#[derive(Clone, Default)]
pub struct Spans(Option<Arc<Tracer>>);

/// Which spans are recorded, with what, and where they go.
pub struct Tracer {
    /// The traces that are recorded.
    pub sampler: Sampler,
    /// How much a span may have.
    pub limits: Limits,
    /// Whether contents are recorded.
    pub contents: Contents,
    /// Is given each span that has ended, as a message of [`otlp`].
    pub take: Box<dyn Fn(Vec<u8>) + Send + Sync>,
}

/// A span that ends when it is dropped, or none.
#[derive(Default)]
pub struct Span(Option<Box<Active>>);

struct Active {
    tracer: Arc<Tracer>,
    context: SpanContext,
    /// `None`: it is not sampled.
    record: Option<Mutex<Record>>,
}

/// A span at its beginning.
pub(crate) struct Begun {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: SpanKind,
    pub(crate) attributes: Vec<KeyValue>,
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    SystemClock.now().timestamp_nanos_opt().and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(0)
}

impl Active {
    fn record(&self) -> Option<MutexGuard<'_, Record>> {
        Some(self.record.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(record) = self.record() {
            (self.tracer.take)(otlp::span(&record, self.context, now()));
        }
    }
}

impl Spans {
    /// Spans of this tracer.
    pub fn new(tracer: Tracer) -> Self {
        Self(Some(Arc::new(tracer)))
    }

    /// Whether there is a tracer.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A span whose parent is in another process, or that has none. `link`: what it follows that is not a part of the same trace.
    pub(crate) fn begin(
        &self,
        make: impl FnOnce() -> Begun,
        parent: Option<&TraceParent>,
        link: Option<&TraceParent>,
    ) -> Span {
        let Some(tracer) = &self.0 else { return Span::default() };
        Span::start(tracer, make(), parent.map(|parent| parent.0), link.map(|link| link.0))
    }
}

impl Span {
    fn start(
        tracer: &Arc<Tracer>,
        Begun { name, kind, attributes }: Begun,
        parent: Option<SpanContext>,
        link: Option<SpanContext>,
    ) -> Self {
        let trace = parent.map_or_else(rand::random, |parent| parent.trace);
        let is_sampled = tracer.sampler.samples(trace, parent);
        let record = is_sampled.then(|| {
            let link = link.filter(|_| tracer.limits.links > 0);
            let mut record = Record {
                name,
                kind,
                begun: now(),
                parent,
                link,
                attributes: Vec::new(),
                dropped: 0,
                error: None,
            };
            record.add(attributes, tracer.limits);
            Mutex::new(record)
        });
        let context = SpanContext { trace, span: rand::random(), is_sampled, is_remote: false };
        Self(Some(Box::new(Active { tracer: Arc::clone(tracer), context, record })))
    }

    /// Whether there is a span.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A part of this span. `make` is called if there is one.
    pub(crate) fn child(&self, make: impl FnOnce() -> Begun) -> Self {
        let Some(active) = &self.0 else { return Self::default() };
        Self::start(&active.tracer, make(), Some(active.context), None)
    }

    /// Sets attributes; `make` is called if there is a span that is sampled.
    pub(crate) fn set(&self, make: impl FnOnce(&Contents) -> Vec<KeyValue>) {
        if let Some(active) = &self.0
            && let Some(mut record) = active.record()
        {
            record.add(make(&active.tracer.contents), active.tracer.limits);
        }
    }

    pub(crate) fn rename(&self, make: impl FnOnce() -> String) {
        if let Some(mut record) = self.0.as_ref().and_then(|active| active.record()) {
            record.name = make().into();
        }
    }

    /// What the span is about has failed. `kind`: a code with few values.
    pub fn failed(&self, kind: &'static str) {
        self.set(|_| vec![attribute("error.type", kind)]);
        if let Some(mut record) = self.0.as_ref().and_then(|active| active.record()) {
            record.error.get_or_insert(kind);
        }
    }

    /// What other processes call this span.
    pub fn parent(&self) -> Option<TraceParent> {
        Some(TraceParent(self.0.as_ref()?.context))
    }

    /// The ids of the trace and of the span, for logs.
    pub fn ids(&self) -> Option<(String, String)> {
        let SpanContext { trace, span, .. } = self.0.as_ref()?.context;
        Some((format!("{trace:032x}"), format!("{span:016x}")))
    }
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

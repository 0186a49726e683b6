//! [`RequestTrace`]: where a request belongs in a trace, and what it posts. A request without a trace, in a process that makes none,
//! costs a look at one header.

use std::sync::Arc;

use axum::http::HeaderMap;
use houston_domain::agentable::{Lane, Urgency};
use houston_domain::id::{MessageId, RunId};
use houston_spans::{Span, Spans, TraceParent};

/// The span of a request, and what its client says about its own.
#[derive(Debug)]
pub(crate) struct RequestTrace {
    pub(crate) span: Span,
    parent: Option<TraceParent>,
}

tokio::task_local! {
    /// That of the request of this task.
    static CURRENT: Option<Arc<RequestTrace>>;
}

impl RequestTrace {
    /// The trace of a request that begins now; `None` if there is none.
    pub(crate) fn begin(spans: &Spans, method: &str, headers: &HeaderMap) -> Option<Arc<Self>> {
        let parent = headers.get("traceparent").and_then(|text| text.to_str().ok()?.parse().ok());
        if !spans.is_on() && parent.is_none() {
            return None;
        }
        let span = spans.request(method, parent.as_ref());
        Some(Arc::new(Self { span, parent }))
    }
}

/// Runs a request within its trace.
pub(crate) async fn within<R>(trace: Option<Arc<RequestTrace>>, request: impl Future<Output = R>) -> R {
    CURRENT.scope(trace, request).await
}

/// A message that is being posted.
#[derive(Debug, Default)]
pub(crate) struct Posting {
    span: Span,
    /// What is stored with the run that it opens.
    pub(crate) traceparent: Option<String>,
}

impl Posting {
    /// The request of this task posts a message, whose run has this urgency.
    pub(crate) fn begin(urgency: Urgency) -> Self {
        let begin = |trace: &Option<Arc<RequestTrace>>| {
            let trace = trace.as_ref()?;
            let span = trace.span.send(Lane::from(urgency).as_str());
            let traceparent = span.parent().or_else(|| trace.parent.clone()).map(|parent| parent.to_string());
            Some(Self { span, traceparent })
        };
        CURRENT.try_with(begin).ok().flatten().unwrap_or_default()
    }

    /// The message is stored; this run answers it.
    pub(crate) fn end(self, message: MessageId, run: RunId) {
        self.span.sent(message, run);
    }
}

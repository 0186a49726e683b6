//! Spans as a collector reads them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use houston_domain::clock::SystemClock;
use houston_domain::id::{Ids, RunId};
use houston_domain::model::{ModelAnswer, StopReason, Usage};
use houston_spans::queue::AttemptInfo;
use houston_spans::{Contents, Limits, Sampler, Spans, TraceParent, Tracer};

use crate::otlp::{Any, AnyValue, ArrayValue, ResourceSpans, Span, decode};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Makes spans, and keeps those that end.
struct Kept {
    spans: Spans,
    ended: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Kept {
    fn with(limits: Limits) -> Self {
        let ended = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let kept = Arc::clone(&ended);
        let take = Box::new(move |span| kept.lock().unwrap().push(span));
        let tracer = Tracer { sampler: Sampler::DEFAULT, limits, contents: Contents::NONE, take };
        Self { spans: Spans::new(tracer), ended }
    }

    fn received(&self) -> ResourceSpans {
        let resource = [("service.name".to_owned(), "agents".to_owned())];
        let body = houston_spans::otlp::request(&resource, &self.ended.lock().unwrap());
        decode(&body).unwrap().resource_spans.remove(0)
    }

    fn spans(&self) -> Vec<Span> {
        self.received().scope_spans.remove(0).spans
    }
}

fn parent(text: &str) -> TraceParent {
    text.parse().unwrap()
}

fn attribute(span: &Span, key: &str) -> Option<Any> {
    span.attributes.iter().find(|one| one.key == key)?.value.clone()?.value
}

fn text(text: &str) -> Any {
    Any::Text(text.to_owned())
}

#[test]
fn request_has_the_process_the_scope_and_the_spans() {
    let kept = Kept::with(Limits::DEFAULT);
    let request = kept.spans.request("POST", Some(&parent(PARENT)));
    let send = request.send("interactive");
    let names = (request.ids().unwrap(), send.ids().unwrap());
    drop(send);
    request.answered_request("POST", "/v1/{kinds}", 503);
    drop(request);
    let received = kept.received();
    let resource = received.resource.unwrap().attributes;
    assert_eq!(
        (resource[0].key.as_str(), &resource[0].value),
        ("service.name", &Some(AnyValue { value: Some(text("agents")) }))
    );
    let of_scope = &received.scope_spans[0];
    let scope = of_scope.scope.clone().unwrap();
    assert_eq!((scope.name.as_str(), scope.version.as_str()), ("houston", env!("CARGO_PKG_VERSION")));
    assert_eq!(of_scope.schema_url, "https://opentelemetry.io/schemas/1.41.0");
    let [send, request] = &of_scope.spans[..] else { panic!("{of_scope:?}") };

    assert_eq!((request.name.as_str(), request.kind), ("POST /v1/{kinds}", 2));
    assert_eq!(request.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(request.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    // Sampled, and its parent is remote.
    assert_eq!((request.flags, send.flags), (0x301, 0x101));
    assert_eq!(attribute(request, "http.response.status_code"), Some(Any::Integer(503)));
    assert_eq!(attribute(request, "error.type"), Some(text("503")));
    let status = request.status.clone().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "503"));
    assert!(request.start_time_unix_nano > 0 && request.start_time_unix_nano <= request.end_time_unix_nano);

    assert_eq!((send.name.as_str(), send.kind), ("send interactive", 4));
    assert_eq!((&send.trace_id, &send.parent_span_id), (&request.trace_id, &request.span_id));
    assert_eq!(send.status.clone().unwrap().code, 0);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let of = |span: &Span| (hex(&span.trace_id), hex(&span.span_id));
    assert_eq!(names, (of(request), of(send)));
}

#[test]
fn attributes_keep_their_types() {
    let kept = Kept::with(Limits::DEFAULT);
    let chat = kept.spans.request("GET", None).chat("anthropic", "claude", 1_000);
    let answer = ModelAnswer {
        content: Vec::new(),
        malformed: Vec::new(),
        stop: StopReason::ToolUse,
        usage: Usage::default(),
    };
    let usage = Usage { input_tokens: 300, ..Usage::default() };
    chat.answered("claude-1", &answer, &usage, Some(Duration::from_millis(1500)));
    drop(chat);
    let spans = kept.spans();
    let chat = spans.iter().find(|span| span.name == "chat claude").unwrap();
    assert_eq!(chat.kind, 3);
    assert_eq!(attribute(chat, "gen_ai.request.stream"), Some(Any::Bool(true)));
    assert_eq!(attribute(chat, "gen_ai.usage.input_tokens"), Some(Any::Integer(300)));
    assert_eq!(attribute(chat, "gen_ai.response.time_to_first_chunk"), Some(Any::Float(1.5)));
    let Some(Any::List(ArrayValue { values })) = attribute(chat, "gen_ai.response.finish_reasons") else {
        panic!("{chat:?}")
    };
    assert_eq!(values, [AnyValue { value: Some(text("tool_call")) }]);
}

#[test]
fn span_has_no_more_attributes_than_it_may() {
    let kept = Kept::with(Limits { attributes: 2, links: 0 });
    drop(kept.spans.attempt(attempt(Duration::from_secs(61)), Some(&parent(PARENT))));
    let span = &kept.spans()[0];
    assert_eq!((span.attributes.len(), span.dropped_attributes_count), (2, 4));
    assert_eq!(span.links, []);
}

#[test]
fn late_attempt_refers_to_the_trace_of_its_message() {
    let kept = Kept::with(Limits::DEFAULT);
    drop(kept.spans.attempt(attempt(Duration::from_secs(61)), Some(&parent(PARENT))));
    let span = &kept.spans()[0];
    let link = &span.links[0];
    assert_eq!((span.kind, span.parent_span_id.len(), link.flags), (5, 0, 0x301));
    assert_eq!(link.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(link.span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    assert_ne!(span.trace_id, link.trace_id);
}

#[test]
fn trace_that_its_client_does_not_sample_is_not_sent_but_kept() {
    let kept = Kept::with(Limits::DEFAULT);
    let request = kept.spans.request("GET", Some(&parent(UNSAMPLED)));
    let send = request.send("interactive");
    let of_send = send.parent().unwrap().to_string();
    assert!(of_send.starts_with(&UNSAMPLED[..36]) && of_send.ends_with("-00"), "{of_send}");
    drop((send, request));
    assert!(kept.ended.lock().unwrap().is_empty());
}

fn attempt(waited: Duration) -> AttemptInfo {
    let run: RunId = Ids::seeded(Arc::new(SystemClock), 7).next();
    AttemptInfo { queue: "interactive", run, number: 1, waited }
}

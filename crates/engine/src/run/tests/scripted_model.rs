//! A model that answers as a test says.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use houston_domain::answering::Sampling;
use houston_domain::history::{Block, Entry};
use houston_domain::model::{
    ModelAnswer as Answer, ModelError, ModelErrorCode, PricedApart, StopReason, Tier, Usage,
};
use houston_domain::model_policy::{CachePolicy, Latency};
use houston_domain::submission::SubmittedCall;
use houston_llm::{Description, Event, EventStream, Model, Request, Submitting};
use serde_json::{Value, json};
/// One answer of a [`ScriptedModel`].
pub(in crate::run) enum Script {
    /// These events.
    Events(Vec<Result<Event, ModelError>>),
    /// This text, and a moment later a broken connection.
    Breaks(&'static str),
    /// These texts, and then nothing more.
    Hangs(Vec<&'static str>),
}

/// A model that answers as the test says.
pub(in crate::run) struct ScriptedModel {
    description: Description,
    scripts: Mutex<VecDeque<Script>>,
    /// Whether an answer was dropped before its end, which closes its connection.
    pub(in crate::run) was_dropped: Arc<AtomicBool>,
    pub(in crate::run) calls: AtomicUsize,
    pub(in crate::run) requests: Mutex<Vec<Asked>>,
}

/// What a request contained.
pub(in crate::run) struct Asked {
    pub(in crate::run) tools: Vec<String>,
    pub(in crate::run) system: String,
    pub(in crate::run) context: String,
    pub(in crate::run) max_output_tokens: u32,
    pub(in crate::run) sampling: Sampling,
    pub(in crate::run) cache: CachePolicy,
    pub(in crate::run) pauses: Vec<u32>,
    pub(in crate::run) latency: Latency,
    /// `no`, `allowed`, or what is done with which submitted call: `fetch b1`.
    pub(in crate::run) submitting: String,
    /// The history.
    pub(in crate::run) entries: Vec<Entry>,
}

impl Asked {
    fn of(request: &Request<'_>) -> Self {
        Self {
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            system: request.system.iter().map(|part| part.text.as_str()).collect(),
            context: request.system_context.unwrap_or_default().to_owned(),
            max_output_tokens: request.max_output_tokens,
            sampling: Sampling {
                temperature: request.temperature,
                top_p: request.top_p,
                effort: request.effort,
                stop: request.stop.to_vec(),
            },
            cache: request.cache,
            pauses: request.pauses.to_vec(),
            latency: request.latency,
            submitting: match request.submitting {
                Submitting::No => "no".to_owned(),
                Submitting::Allowed => "allowed".to_owned(),
                Submitting::Fetch(call) => format!("fetch {}", call.id),
                Submitting::Withdraw(call) => format!("withdraw {}", call.id),
            },
            entries: request.entries.to_vec(),
        }
    }
}

impl ScriptedModel {
    pub(in crate::run) fn new(scripts: impl IntoIterator<Item = Script>) -> Arc<Self> {
        let description = Description {
            provider: "anthropic".into(),
            model: "claude-sonnet-4-5".into(),
            simulated: false,
            supports_tools: true,
        };
        let scripts = Mutex::new(scripts.into_iter().collect());
        let (was_dropped, calls, requests) = (Arc::default(), AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { description, scripts, was_dropped, calls, requests })
    }

    /// The histories that it was sent.
    pub(in crate::run) fn histories(&self) -> Vec<Vec<Entry>> {
        self.requests.lock().unwrap().iter().map(|asked| asked.entries.clone()).collect()
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Model for ScriptedModel {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.requests.lock().unwrap().push(Asked::of(request));
        let script = self.scripts.lock().unwrap().pop_front().expect("a call that the test does not expect");
        let stream: EventStream = match script {
            Script::Events(events) => Box::pin(stream::iter(events)),
            Script::Breaks(text) => {
                Box::pin(stream::iter([text]).map(|text| Ok(Event::Text(text.to_owned()))).chain(
                    stream::once(async {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        Err(ModelError::new(ModelErrorCode::NetworkError, "cut"))
                    }),
                ))
            }
            Script::Hangs(texts) => {
                let guard = SetOnDrop(Arc::clone(&self.was_dropped));
                let texts = texts.into_iter().map(|text| Ok(Event::Text(text.to_owned())));
                let hanging = stream::iter(texts).chain(stream::pending());
                Box::pin(hanging.inspect(move |_| {
                    let _guard = &guard;
                }))
            }
        };
        async move { Ok(stream) }.boxed()
    }
}

/// The usage of every scripted answer.
pub(in crate::run) const USAGE: Usage = Usage {
    input_tokens: 1_000,
    output_tokens: 10,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    cost: None,
    long_cache_write_tokens: 0,
    billed: None,
    tier: None,
    apart: PricedApart {
        input_audio_tokens: 0,
        cached_audio_tokens: 0,
        output_audio_tokens: 0,
        input_image_tokens: 0,
        cached_image_tokens: 0,
        output_image_tokens: 0,
        web_searches: 0,
    },
};

/// An answer with this text.
pub(in crate::run) fn says(text: &str) -> Script {
    let answer = Answer {
        content: vec![Block::text(text)],
        malformed: vec![],
        stop: StopReason::EndTurn,
        usage: USAGE,
    };
    Script::Events(vec![Ok(Event::Text(text.to_owned())), Ok(Event::Done(Box::new(answer)))])
}

/// These events, and then those.
pub(in crate::run) fn begins_with(first: impl IntoIterator<Item = Event>, then: Script) -> Script {
    let Script::Events(events) = then else { panic!("it ends otherwise") };
    Script::Events(first.into_iter().map(Ok).chain(events).collect())
}

/// No answer yet: it comes later.
pub(in crate::run) fn submitted(id: &str) -> Script {
    let call = SubmittedCall {
        model: "anthropic/claude-sonnet-4-5".to_owned(),
        id: id.to_owned(),
        tier: Tier::Batch,
    };
    Script::Events(vec![Ok(Event::Submitted(Box::new(call)))])
}

/// No answer to what was submitted.
pub(in crate::run) fn gone() -> Script {
    Script::Events(vec![Ok(Event::Gone)])
}

/// An answer that thinking has used up.
pub(in crate::run) fn only_thinks() -> Script {
    let answer = Answer {
        content: vec![Block::Thinking { text: "Hm.".to_owned(), raw: None }],
        malformed: vec![],
        stop: StopReason::MaxTokens,
        usage: USAGE,
    };
    Script::Events(vec![Ok(Event::Thinking("Hm.".to_owned())), Ok(Event::Done(Box::new(answer)))])
}

/// An answer that calls these tools: (call id, name).
pub(in crate::run) fn calls_tools(calls: &[(&str, &str)]) -> Script {
    calls_with(calls.iter().map(|(id, name)| (*id, *name, json!({}))))
}

/// The same with arguments.
pub(in crate::run) fn calls_with<'c>(calls: impl IntoIterator<Item = (&'c str, &'c str, Value)>) -> Script {
    let block = |(id, name, input): (&str, &str, Value)| Block::ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        input,
        raw: None,
    };
    let content = calls.into_iter().map(block).collect();
    let answer = Answer { content, malformed: vec![], stop: StopReason::ToolUse, usage: USAGE };
    Script::Events(vec![Ok(Event::Done(Box::new(answer)))])
}

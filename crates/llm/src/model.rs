//! The interface of a model: takes a [`Request`], returns a stream of [`Event`]s. One that cannot be called is [`Unavailable`].

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64};

use futures_util::Stream;
use futures_util::future::{self, BoxFuture};
use houston_domain::answering::Effort;
use houston_domain::attachment::SentDocument;
use houston_domain::history::{Block, Entry, RawBlock};
use houston_domain::image::SentImage;
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, Usage};
use houston_domain::model_policy::{CachePolicy, Latency};
use houston_domain::storable::{storable, storable_value};
use houston_domain::submission::SubmittedCall;
use houston_domain::tool_call::ToolDefinition;
use houston_domain::tool_schema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ledger::Ledger;
pub use crate::provider::Description;
use crate::secret::Fingerprint;

/// A language model, or several behind one interface.
pub trait Model: Send + Sync {
    /// Provider and model name. For a fallback chain, those of the model that is asked first.
    fn description(&self) -> &Description;

    /// Fingerprint of the API key, if there is one. Rate limits apply per key.
    fn key(&self) -> Option<Fingerprint> {
        None
    }

    /// All models that may answer a request; more than one for a fallback chain.
    fn candidates(&self) -> Vec<&Description> {
        vec![self.description()]
    }

    /// Whether what its calls use is entered into [`Request::ledger`]: see [`metered`](crate::metered::metered).
    fn is_metered(&self) -> bool {
        false
    }

    /// Sends `request` and returns the answer as it is being written. Dropping the future or the stream cancels the
    /// call and closes its connection.
    ///
    /// ```text
    /// ToolStart { index: 0, .. }, ToolArguments { index: 0, .. }, …, Text("…"), …, Done(turn)
    /// ```
    ///
    /// # Errors
    /// A [`ModelError`] when the call fails before the answer starts. Later failures are items of the stream.
    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>>;
}

/// The events of one answer. The stream ends after [`Event::Done`], [`Event::Submitted`], [`Event::Gone`] or the first error, never
/// otherwise.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event, ModelError>> + Send>>;

/// One part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemPart {
    /// The text of the part.
    pub text: String,
    /// Whether the text is byte for byte the same in every call, so that a provider may cache everything up to its
    /// end. Cached parts come first.
    pub cached: bool,
}

/// A JSON schema that the answer must match.
#[derive(Debug, Clone, Copy)]
pub struct AnswerSchema<'a> {
    /// Name of the schema, for providers that require one: letters, digits, `_` and `-`.
    pub name: &'a str,
    /// The JSON Schema; its top level is an object.
    pub schema: &'a Value,
    /// Whether a provider that can is asked to guarantee it.
    pub strict: bool,
}

/// An image that a model is to look at.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    /// `image/png`, `image/jpeg`, `image/webp` or `image/gif`.
    pub media_type: &'a str,
    /// Its bytes, in Base64.
    pub base64: &'a str,
}

/// Tools that a model searches for. One whose provider has a search of its own is sent their definitions, marked as deferred;
/// every other one finds them with tools of Houston's.
#[derive(Debug, Clone, Copy)]
pub struct Deferred<'a> {
    /// Their definitions.
    pub tools: &'a [ToolDefinition],
    /// How many of [`Request::tools`], the last ones, are for finding them: a model that searches itself is not sent those.
    pub finding: usize,
}

/// One request to a model. For example:
///
/// ```
/// # use houston_domain::history::{Block, Entry};
/// # use houston_llm::{Request, SystemPart};
/// let system = [SystemPart { text: "You are brief.".into(), cached: true }];
/// let entries = [Entry::user(vec![Block::text("Hello")])];
/// let request = Request { system: &system, entries: &entries, max_output_tokens: 1024, ..Request::default() };
/// # let _ = request;
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The system prompt: stable parts first, changing parts last. It precedes the history, so a change invalidates
    /// the provider's cache of the history; put changing text into `system_context` instead.
    pub system: &'a [SystemPart],
    /// Text written by Houston that may differ from call to call and is not part of the history. It is sent last,
    /// after everything cacheable, so that it invalidates no cache.
    pub system_context: Option<&'a str>,
    /// The history, valid by [`houston_domain::history::validate`]; its last entry is a user entry.
    pub entries: &'a [Entry],
    /// Definitions of the tools the model may call.
    pub tools: &'a [ToolDefinition],
    /// Tools besides `tools`, whose definitions the model is not sent unless it searches for them.
    pub deferred: Option<Deferred<'a>>,
    /// The one of `tools` that the model must call; `None`: it decides. On wires that cannot say so it decides in any case.
    pub must_call: Option<&'a str>,
    /// Longest answer allowed, in tokens.
    pub max_output_tokens: u32,
    /// How freely the model chooses its words, from 0. Like the three that follow, it is sent if the model's profile accepts it:
    /// see [`Profile::refusal`](crate::Profile::refusal).
    pub temperature: Option<f64>,
    /// The share of the likeliest words it chooses from, from 0 to 1.
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    pub stop: &'a [String],
    /// How much it thinks; `None`: as its provider has it.
    pub effort: Option<Effort>,
    /// Schema of the answer, if it must be JSON.
    pub answer_schema: Option<AnswerSchema<'a>>,
    /// An image that belongs to the last user entry. On wires for which Houston has no form of images, a line says that there is
    /// one.
    pub image: Option<Image<'a>>,
    /// Requests with the same key share a prefix. Some providers route by it to a warm cache.
    pub cache_key: Option<&'a str>,
    /// How long the provider keeps what further requests begin with.
    pub cache: CachePolicy,
    /// The pauses between requests so far, in seconds, the latest last: what [`CachePolicy::Auto`] is decided by.
    pub pauses: &'a [u32],
    /// How soon the answer is needed.
    pub latency: Latency,
    /// Length of the request in tokens, if the caller knows it (see [`ContextBudget`](crate::ContextBudget)).
    /// Otherwise it is estimated where needed.
    pub input_tokens: Option<u64>,
    /// Where calls of [metered](crate::metered::metered) models enter what they use.
    pub ledger: Option<&'a Ledger>,
    /// Models that are asked after all others, as `provider/model`: those that have let this run wait in vain.
    pub avoid: &'a [String],
    /// Whether another model is asked if this one fails. Set by the fallback chain.
    pub has_fallback: bool,
    /// Whether the call may be one that is answered later.
    pub submitting: Submitting<'a>,
    /// Where the milliseconds are added for which providers had the call wait before it was repeated (Retry-After).
    pub waited_ms: Option<&'a AtomicU64>,
    /// True while a provider has the request and has not answered yet. Set by the client, read where calls are entered.
    pub is_sent: Option<&'a AtomicBool>,
}

/// What a request has to do with calls that are answered later.
#[derive(Debug, Clone, Copy, Default)]
pub enum Submitting<'a> {
    /// The answer is needed in this call.
    #[default]
    No,
    /// If the provider takes such calls at the request's latency, its answer may be [`Event::Submitted`].
    Allowed,
    /// The call was submitted before: its answer is fetched, and nothing is sent but its id.
    Fetch(&'a SubmittedCall),
    /// The answer of this call is not wanted any more: the provider is told so.
    Withdraw(&'a SubmittedCall),
}

/// As a number of tokens, for models that are given one: an opinion, in the range that Anthropic and Google recommend. At
/// least a quarter of `limit`, the longest answer, is left for the text. `None` when that is too little to think with.
pub(crate) fn thinking_tokens(effort: Effort, limit: u32) -> Option<u32> {
    /// The fewest that Anthropic accepts.
    const FEWEST: u32 = 1024;
    let wanted = match effort {
        Effort::None => return Some(0),
        Effort::Minimal => FEWEST,
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        Effort::Max => 24_576,
    };
    Some(wanted.min(limit / 4 * 3)).filter(|tokens| *tokens >= FEWEST)
}

/// The name of an effort in OpenAI's protocols.
pub(crate) fn openai_effort(effort: Effort) -> &'static str {
    if effort == Effort::Max { "xhigh" } else { effort.as_str() }
}

/// What a model reads in the place of an image.
const UNSEEN: &str = "[There is an image here, which cannot be sent to you.]";

impl Image<'_> {
    /// As a `data:` URL.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}

impl<'a> Request<'a> {
    /// The tool that the model must call, if it is sent that tool.
    pub(crate) fn forced_tool(&self, model: &Description) -> Option<&'a str> {
        let is_sent = |name: &&str| {
            model.supports_tools
                && self
                    .tools
                    .iter()
                    .any(|tool| tool.name == *name && tool_schema::read(&tool.input_schema).is_ok())
        };
        self.must_call.filter(is_sent)
    }

    /// The system context for a wire without a form of images: it says that there is one.
    pub(crate) fn context_without_image(&self) -> Option<Cow<'a, str>> {
        match (self.context(), self.image) {
            (context, None) => context.map(Cow::Borrowed),
            (None, Some(_)) => Some(Cow::Borrowed(UNSEEN)),
            (Some(context), Some(_)) => Some(Cow::Owned(format!("{context}\n\n{UNSEEN}"))),
        }
    }

    /// The system context, unless it is blank.
    pub(crate) fn context(&self) -> Option<&'a str> {
        self.system_context.filter(|context| !context.trim().is_empty())
    }
}

/// A PDF of the history as a `data:` URL.
pub(crate) fn document_url(document: &SentDocument) -> String {
    Image { media_type: PDF, base64: &document.base64 }.data_url()
}

/// The media type of PDFs.
pub(crate) const PDF: &str = "application/pdf";

/// An image of the history as a `data:` URL.
pub(crate) fn data_url(image: &SentImage) -> String {
    Image { media_type: image.header.image_type.as_str(), base64: &image.base64 }.data_url()
}

/// One event of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The next piece of the reasoning.
    Thinking(String),
    /// The next piece of the text.
    Text(String),
    /// A tool call starts.
    ToolStart {
        /// Position of the call among the tool calls of this answer, from 0.
        index: usize,
        /// The provider's id of the call; empty if the provider sent none.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// The next piece of a tool call's arguments.
    ToolArguments {
        /// Position of the call among the tool calls of this answer, from 0.
        index: usize,
        /// The next piece of the JSON text; may be cut between any two characters.
        json: String,
    },
    /// What the provider has counted so far. Only the wrapper that meters a model sees it.
    Usage(Box<Usage>),
    /// A model failed before its answer started, and the next model is asked. Precedes
    /// [`Answering`](Self::Answering).
    Fallback(Box<Switch>),
    /// The model that answers, if it is not the first of a fallback chain. Precedes the answer.
    Answering(Box<Description>),
    /// The provider answers later: ask again with [`Submitting::Fetch`]. Comes alone.
    Submitted(Box<SubmittedCall>),
    /// There will be no answer to what was submitted: it has expired, was withdrawn, or the provider does not know it. Comes alone.
    Gone,
    /// The complete answer. Comes once and last, and only when the provider marked the answer as complete.
    Done(Box<ModelAnswer>),
}

impl Event {
    /// Makes the event storable: removes characters that Postgres cannot store (see [`storable`]; raw blocks are
    /// JSON, where U+0000 is written as an escape) and raw blocks that may not be sent back.
    pub(crate) fn into_storable(mut self) -> Self {
        match &mut self {
            Self::Text(text) | Self::Thinking(text) | Self::ToolArguments { json: text, .. } => {
                storable(text)
            }
            Self::ToolStart { id, name, .. } => [id, name].into_iter().for_each(storable),
            Self::Done(turn) => make_storable(turn),
            Self::Usage(_) | Self::Fallback(_) | Self::Answering(_) | Self::Submitted(_) | Self::Gone => {}
        }
        self
    }
}

fn make_storable(turn: &mut ModelAnswer) {
    turn.malformed.iter_mut().for_each(|(id, sent)| [id, sent].into_iter().for_each(storable));
    // A block that may not be sent back is of no use in a history, and the history could not be imported with it.
    let is_unusable = |raw: &RawBlock| {
        raw.check().inspect_err(|why| tracing::debug!(%why, "a raw block is dropped")).is_err()
    };
    turn.content.retain(|block| !matches!(block, Block::Opaque { raw } if is_unusable(raw)));
    for block in &mut turn.content {
        if let Block::Text { raw, .. } | Block::Thinking { raw, .. } | Block::ToolUse { raw, .. } = block {
            *raw = raw.take().filter(|raw| !is_unusable(raw));
        }
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } => storable(text),
            Block::ToolUse { id, name, input, .. } => {
                [id, name].into_iter().for_each(storable);
                storable_value(input);
            }
            Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) | Block::Opaque { .. } => {}
        }
    }
}

/// A change from a failed model to the next one of a fallback chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The model that failed.
    pub from: Description,
    /// The model that is asked next.
    pub to: Description,
    /// Error code of the failure.
    pub code: ModelErrorCode,
    /// Error message of the failure, for people.
    pub message: String,
}

/// Fails every call with the same error. A missing key thus fails the run, where users see it, and not the process.
#[derive(Debug, Clone)]
pub struct Unavailable {
    description: Description,
    error: ModelError,
}

impl Unavailable {
    /// Creates a stand-in for the model of `description`.
    pub fn new(description: Description, error: ModelError) -> Self {
        Self { description, error }
    }
}

impl Model for Unavailable {
    fn description(&self) -> &Description {
        &self.description
    }

    fn stream<'a>(&'a self, _request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(future::ready(Err(self.error.clone())))
    }
}

//! What a model is to the rest of Houston: a request in, a stream of events out.

use std::fmt;
use std::pin::Pin;

use futures_util::Stream;
use futures_util::future::BoxFuture;
use houston_domain::history::{Block, Entry, RawBlock};
use houston_domain::model::{ModelError, ModelErrorCode, ModelTurn};
use houston_domain::storable::{storable, storable_value};
use houston_domain::tool_call::ToolDefinition;
use serde_json::Value;

use crate::secret::Fingerprint;

/// Something that answers a history.
pub trait Model: Send + Sync {
    /// Who answers; of a model that stands for several, the one that is asked first.
    fn description(&self) -> &Description;

    /// By what the key is told from others, if there is one: each key has limits of its own.
    fn key(&self) -> Option<Fingerprint> {
        None
    }

    /// Everyone who may answer, of a model that stands for several.
    fn candidates(&self) -> Vec<&Description> {
        vec![self.description()]
    }

    /// Asks, and returns the answer while it is being written. Dropping the future or the stream cancels the
    /// call and closes its connection.
    ///
    /// # Errors
    /// A [`ModelError`] when the provider refused before it began; the same may come as an item later.
    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>>;
}

/// The events of one answer. It ends after [`Event::Done`] or after the first error, never otherwise.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event, ModelError>> + Send>>;

/// One piece of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemPart {
    /// What it says.
    pub text: String,
    /// Whether it is the same, byte for byte, from call to call, so that a provider may cache everything up to
    /// its end. Such parts come first.
    pub cached: bool,
}

/// A form the answer must have.
#[derive(Debug, Clone, Copy)]
pub struct AnswerSchema<'a> {
    /// What the form is called, for providers that ask: letters, digits, `_` and `-`.
    pub name: &'a str,
    /// Its JSON Schema, of an object.
    pub schema: &'a Value,
}

/// What a model is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// The system prompt: stable parts first, changing ones last. It stands before the history, so what changes in it
    /// voids what a provider has cached of that: see `system_context`.
    pub system: &'a [SystemPart],
    /// What is true now and may be another thing at the next call: a text of Houston's, none of the history. It is sent
    /// last of all, behind what is cached, so that it voids nothing of it.
    pub system_context: Option<&'a str>,
    /// The history, valid as [`houston_domain::history::validate`] means it, ending with the user.
    pub entries: &'a [Entry],
    /// What the model may call.
    pub tools: &'a [ToolDefinition],
    /// The longest answer allowed, in tokens.
    pub max_output_tokens: u32,
    /// The form of the answer's text, when it must be JSON.
    pub answer_schema: Option<AnswerSchema<'a>>,
    /// Requests with the same key share a beginning, for providers that route by it to a warm cache.
    pub cache_key: Option<&'a str>,
    /// How many tokens all this is, as far as the caller knows (see [`ContextBudget`](crate::ContextBudget)); it is
    /// estimated anew where it must be known and is not.
    pub input_tokens: Option<u64>,
}

impl<'a> Request<'a> {
    /// The system context, unless it says nothing.
    pub(crate) fn context(&self) -> Option<&'a str> {
        self.system_context.filter(|context| !context.trim().is_empty())
    }
}

/// One thing that happened while the model was writing.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The next piece of its reasoning.
    Thinking(String),
    /// The next piece of its text.
    Text(String),
    /// It begins to ask for a tool.
    ToolStart {
        /// Which call of this answer, from 0.
        index: usize,
        /// The provider's name for the call; empty when the provider gave none.
        id: String,
        /// The tool.
        name: String,
    },
    /// The next piece of a call's arguments.
    ToolArguments {
        /// Which call of this answer, from 0.
        index: usize,
        /// The next piece of the JSON text; may be cut anywhere between two characters.
        json: String,
    },
    /// A model failed before anything of its answer was seen, and the next one was asked. Comes before
    /// [`Answering`](Self::Answering).
    Fallback(Box<Switch>),
    /// Who answers, of a model that stands for several. Comes before anything of the answer.
    Answering(Box<Description>),
    /// The whole answer. Comes once, last, and only when the provider said itself that it is complete.
    Done(Box<ModelTurn>),
}

impl Event {
    /// The event as a history may keep it: without characters that Postgres cannot store (see [`storable`]; raw blocks
    /// are JSON, where U+0000 is written as an escape), and without raw blocks that may not be sent back.
    pub(crate) fn into_storable(mut self) -> Self {
        match &mut self {
            Self::Text(text) | Self::Thinking(text) | Self::ToolArguments { json: text, .. } => {
                storable(text)
            }
            Self::ToolStart { id, name, .. } => [id, name].into_iter().for_each(storable),
            Self::Done(turn) => make_storable(turn),
            Self::Fallback(_) | Self::Answering(_) => {}
        }
        self
    }
}

fn make_storable(turn: &mut ModelTurn) {
    turn.malformed.iter_mut().for_each(|(id, sent)| [id, sent].into_iter().for_each(storable));
    // What may not be sent back is of no use in a history, and could not be imported with it.
    let is_useless =
        |raw: &RawBlock| raw.check().inspect_err(|why| tracing::debug!(%why, "a block is not kept")).is_err();
    turn.content.retain(|block| !matches!(block, Block::Opaque { raw } if is_useless(raw)));
    for block in &mut turn.content {
        if let Block::Text { raw, .. } | Block::Thinking { raw, .. } | Block::ToolUse { raw, .. } = block {
            *raw = raw.take().filter(|raw| !is_useless(raw));
        }
        match block {
            Block::Text { text, .. } | Block::Thinking { text, .. } => storable(text),
            Block::ToolUse { id, name, input, .. } => {
                [id, name].into_iter().for_each(storable);
                storable_value(input);
            }
            Block::ToolResult { .. } | Block::Opaque { .. } => {}
        }
    }
}

/// From one model to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Who failed.
    pub from: Description,
    /// Who was asked instead.
    pub to: Description,
    /// How it failed.
    pub code: ModelErrorCode,
    /// The same for a person.
    pub message: String,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The provider's name, as in `anthropic/claude-…` before the slash.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
    /// Whether nobody thinks behind it: answers must be labelled as such.
    pub simulated: bool,
    /// Whether it can call tools.
    pub supports_tools: bool,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

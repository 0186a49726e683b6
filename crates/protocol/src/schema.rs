//! Schemas of the domain's types for the OpenAPI document. The domain does not depend on utoipa, so its types are
//! described here, and named with `value_type` where they are used.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

macro_rules! described {
    ($($(#[$doc:meta])+ $name:ident => $schema:expr;)*) => {$(
        $(#[$doc])+
        #[derive(Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> { RefOr::T(Schema::from($schema)) }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> { stringify!($name).into() }
        }
    )*};
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// The schema of an id, `<prefix>_<32 hex digits>`; `prefix` is a regular expression.
fn id(prefix: &str, example: &str) -> ObjectBuilder {
    let example = format!("{example}_019ab3c4d5e67f8091a2b3c4d5e6f708");
    text().pattern(Some(format!("^{prefix}_[0-9a-f]{{32}}$"))).examples([example])
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Number)
}

pub(crate) fn one_of(names: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(names.iter().copied()))
}

fn anything(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

described! {
    /// An agentable, with its kind as prefix: `goal_…`, `task_…`, `user_agent_…`.
    AgentableId => text()
        .pattern(Some("^[a-z][a-z_]*_[0-9a-f]{32}$"))
        .examples(["goal_019ab3c4d5e67f8091a2b3c4d5e6f708"]);
    /// A user.
    UserId => id("user", "user");
    /// What a key may do.
    Scope => one_of(&houston_domain::scope::Scope::ALL.map(houston_domain::scope::Scope::as_str));
    /// A run.
    RunId => id("run", "run");
    /// A record of the audit log.
    AuditId => id("audit", "audit");
    /// A worker.
    WorkerId => id("worker", "worker");
    /// An image that was posted with a message.
    ImageId => id("image", "image");
    /// A file that was posted for messages.
    AttachmentId => id("att", "att");
    /// A thread message.
    MessageId => id("msg", "msg");
    /// A note.
    NoteId => id("note", "note");
    /// A learning.
    LearningId => id("learning", "learning");
    /// A memory.
    MemoryId => id("memory", "memory");
    /// A custom instruction.
    CustomInstructionId => id("instruction", "instruction");
    /// A feed item.
    FeedItemId => id("feed_item", "feed_item");
    /// An agent.
    AgentId => id("agent", "agent");
    /// A team.
    TeamId => id("team", "team");
    /// A session.
    SessionId => id("session", "session");
    /// A compression.
    CompressionId => id("compression", "compression");
    /// A large tool result.
    ResultId => id("result", "result");
    /// An erasure.
    ErasureId => id("erasure", "erasure");
    /// A webhook.
    WebhookId => id("webhook", "webhook");
    /// One event for one webhook.
    DeliveryId => id("delivery", "delivery");
    /// An inbound hook.
    InboundHookId => id("hook", "hook");
    /// An API key: the row, not the secret.
    ApiKeyId => id("key", "key");
    /// A trigger.
    TriggerId => id("trigger", "trigger");
    /// A check-in.
    CheckInId => id("check_in", "check_in");
    /// A todo.
    TodoId => id("todo", "todo");
    /// A custom table.
    TableId => id("table", "table");
    /// A record of a custom table.
    RecordId => id("record", "record");
    /// How much a todo matters.
    Priority => one_of(&["low", "normal", "high"]);
    /// A field of a custom table.
    TableField => ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("name", text().description(Some("1 to 40 small letters, digits and `_`.")))
        .property("type", one_of(&["text", "number", "integer", "boolean", "date", "datetime", "enum", "list"]))
        .property("required", ObjectBuilder::new().schema_type(Type::Boolean))
        .property("enum", ArrayBuilder::new().items(text()))
        .property("description", text())
        .required("name")
        .required("type");
    /// A lasting yes for a tool.
    GrantId => id("grant", "grant");
    /// A question that a run asks a person.
    QuestionId => id("question", "question");
    /// A message, a reasoning or a tool result in a stream.
    EntityId => id("(msg|reasoning|result|plan)", "msg");

    /// The name of a step, with the number of its iteration.
    StepName => text().pattern(Some("^iteration [0-9]+$")).examples(["iteration 3"]);
    /// An instant: RFC 3339, UTC, milliseconds.
    Time => text()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-11-22T09:00:00.000Z"]);
    /// A decimal number as a string.
    Decimal => text().pattern(Some("^-?[0-9]+(\\.[0-9]+)?$")).examples(["0.0123"]);

    /// A CSV text, as bytes.
    Csv => text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));

    /// The author of a thread message; `system` is Houston, informing the agent.
    Source => one_of(&["user", "agent", "error", "system"]);
    /// A text message, or a tool cell, which displays a tool call.
    MessageType => one_of(&["text", "tool"]);
    /// Processing status of a user's message.
    MessageStatus => one_of(&["pending", "processing", "answered", "failed"]);
    /// The status of a run.
    RunStatus => one_of(&RUN_STATUSES);
    /// What a message does to an open run.
    DoubleTexting => one_of(&["enqueue", "interrupt", "reject", "rollback"]);
    /// How the model of a run is called.
    ModelPolicy => ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("cache", text().enum_values(Some(["off", "short", "long", "auto"])).description(Some(
            "How long the provider keeps what the next request begins with. `auto`: what would have cost least with the pauses so far.")))
        .property("latency", text().enum_values(Some(["fast", "interactive", "relaxed", "batch"])).description(Some(
            "How soon the answer is needed. `fast`: the provider's fast lane; `relaxed` and `batch`: its cheap tier.")))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    /// What a question is for.
    QuestionKind => one_of(&["approval", "input", "budget"]);
    /// Whether a question is open, and if not, what closed it: an answer, its time, its run, or the end of its run.
    QuestionState => one_of(&["open", "answered", "expired", "superseded", "cancelled"]);
    /// Why a session was closed.
    CompletionReason => one_of(&["session_timeout", "feed_generation_complete", "reset"]);
    /// Why a history was compressed.
    CompressionReason => one_of(&["budget", "context_length"]);
    /// What a message is about.
    Focus => ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("type", text().max_length(Some(64)).description(Some("Its type: letters, digits, `_`, `-` and `.`.")))
        .property("id", text().max_length(Some(128)).description(Some("Its id: printable ASCII without spaces.")))
        .property("data", ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("What the client knows of it; at most 4 KiB as JSON.")))
        .required("type")
        .required("id")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    /// How a model chooses its words; what is left out stays as its provider has it.
    Sampling => ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("temperature", number().description(Some("How freely it chooses, from 0 to 2.")))
        .property("top_p", number().description(Some("The share of the likeliest words it chooses from, above 0, at most 1.")))
        .property("effort", one_of(&["none", "minimal", "low", "medium", "high", "max"]))
        .property("stop", ArrayBuilder::new().items(text()).max_items(Some(4)).description(Some("Texts that end the answer.")))
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    /// The form of an answer: one JSON value that fits a schema.
    Output => ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("name", text().max_length(Some(64)).description(Some("Its name, for providers that want one: letters, digits, `_` and `-`.")))
        .property("schema", ObjectBuilder::new().schema_type(Type::Object).description(Some("The JSON Schema of an object, at most 32 KiB.")))
        .property("strict", ObjectBuilder::new().schema_type(Type::Boolean).description(Some("Whether a provider that can is to guarantee it. The answer is checked in any case.")))
        .required("schema")
        .additional_properties(Some(AdditionalProperties::FreeForm(false)));
    /// A thing that a message is about.
    FocusRef => ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("type", text())
        .property("id", text())
        .required("type")
        .required("id");
    /// What picked the agent that answers.
    RoutedBy => one_of(&["rule", "model", "default"]);
    /// The severity of a health check.
    HealthStatus => one_of(&["ok", "warn", "red"]);
    /// The author of a history entry.
    EntryRole => one_of(&["user", "assistant"]);

    /// One block of an entry: `text`, `tool_use`, `tool_result`, `thinking` or `opaque`.
    Block => anything("A block of the type `type`.")
        .property("type", one_of(&["text", "tool_use", "tool_result", "thinking", "opaque"]))
        .required("type");
    /// Any JSON value, also null: a field that may be missing is `required = false`, not an `Option`.
    AnyJson => ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON value."));
    /// A conversation document, as `export` writes it.
    Conversation => anything("A conversation document: `export` writes it, `import` reads it.");
    /// Statistics of a conversation.
    Statistics => anything("Statistics of a conversation: runs, messages, tokens, costs.");
    /// The runtime state of an agentable, with a diagnosis.
    RuntimeState => anything("The lock, the run, what it waits for, and a diagnosis.");
    /// The prompt of the next model call.
    Prompt => anything("The prompt of the next model call, by parts and by sections.");
    /// All tools, and whether they may be called.
    Tools => anything("All tools, whether each may be called, and why not.");
    /// What the guards would say of a call.
    GuardExplanation => anything("The decision with what decided (`by`), and each step that was looked at (`steps`).");
    /// Guards of one layer.
    Guards => anything("What agents may do with their tools, of the same shape as jobs/guards.toml; each key is optional.");
    /// Metadata of a message.
    MessageMetadata => anything("Metadata of a message: client data, or details of a tool call or an error.");
}

macro_rules! described_as {
    ($($type:ty => $name:ident;)*) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> { $crate::schema::$name::schema() }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> { stringify!($name).into() }
        }
    )*};
}
pub(crate) use described_as;

described_as! {
    crate::time::Time => Time;
}

const RUN_STATUSES: [&str; 14] = [
    "queued",
    "running",
    "retrying",
    "waiting",
    "completed",
    "message_sent",
    "max_iterations",
    "same_tool",
    "max_duration",
    "history_full",
    "max_tokens",
    "cancelled",
    "failed",
    "dead_lettered",
];

/// Tokens and cost of model calls.
///
/// ```json
/// {"input_tokens": 900, "output_tokens": 40, "cache_read_tokens": 700, "cache_write_tokens": 0, "reasoning_tokens": 0}
/// ```
#[derive(Debug, ToSchema)]
pub struct Usage {
    /// Tokens sent, cached or not.
    pub input_tokens: u64,
    /// Tokens received, including reasoning.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens that were spent on reasoning.
    pub reasoning_tokens: u64,
    /// Cost in US dollars; absent where another field contains it.
    #[schema(value_type = Option<Decimal>)]
    pub cost: Option<Decimal>,
}

/// How a team picks the agent that answers.
///
/// ```json
/// {"by": "rules", "rules": [{"when": {"prefix": "/translate"}, "agent_id": "agent_0190…"}]}
/// ```
#[derive(Debug, ToSchema)]
pub struct Router {
    /// `rules`: the first rule that matches; `model`: a model that reads the descriptions of the agents.
    #[schema(value_type = RouterKind)]
    pub by: RouterKind,
    /// The rules, in the order in which they are tried; a router by `rules` has 1 to 50.
    pub rules: Option<Vec<Rule>>,
}

described! {
    /// How a router picks the agent that answers.
    RouterKind => one_of(&["rules", "model"]);
}

/// A rule of a router: `{"when": {"contains": "invoice"}, "agent_id": "agent_0190…"}`.
#[derive(Debug, ToSchema)]
pub struct Rule {
    /// The condition under which the agent is picked.
    pub when: Condition,
    /// The agent that is picked.
    #[schema(value_type = AgentId)]
    pub agent_id: AgentId,
}

/// A condition on a message: all given fields must match. Case is ignored. `{"contains": "please",
/// "longer_than": 20}`.
#[derive(Debug, ToSchema)]
pub struct Condition {
    /// The message contains this text.
    pub contains: Option<String>,
    /// The message begins with this text.
    pub prefix: Option<String>,
    /// This regular expression matches in the beginning of the message.
    pub regex: Option<String>,
    /// The message has more characters than this.
    pub longer_than: Option<u32>,
}

/// The limits of its kind that an agent overrides; never above those. `{"max_iterations": 10}`.
#[derive(Debug, ToSchema)]
pub struct LimitChanges {
    /// Model calls of one run.
    pub max_iterations: Option<u32>,
    /// Turns in a row that ask for the same single tool.
    pub max_same_tool: Option<u32>,
    /// Duration of one attempt, in seconds.
    pub max_duration_s: Option<u64>,
    /// Entries of the open session's history.
    pub max_history_entries: Option<u64>,
    /// Tokens the model may write in one answer.
    pub max_output_tokens: Option<u32>,
}

/// The lists of a profile: `{"facts": ["lives in Graz"], "preferences": [], …}`.
#[derive(Debug, ToSchema)]
pub struct ProfileLists {
    /// Who the user is.
    pub facts: Vec<String>,
    /// How they like things done.
    pub preferences: Vec<String>,
    /// How they want to be addressed.
    pub communication_style: Vec<String>,
    /// What they care about.
    pub interests: Vec<String>,
    /// What they want to achieve.
    pub aims: Vec<String>,
}

//! Shapes of the domain's types for the OpenAPI document. The domain knows no document, so its types are described
//! here and named with `value_type` where they are used.

use std::borrow::Cow;

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
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

/// `<prefix>_<32 hex digits>`; `prefix` is a regular expression.
fn id(prefix: &str, example: &str) -> ObjectBuilder {
    let example = format!("{example}_019ab3c4d5e67f8091a2b3c4d5e6f708");
    text().pattern(Some(format!("^{prefix}_[0-9a-f]{{32}}$"))).examples([example])
}

fn one_of(names: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(names.iter().copied()))
}

fn anything(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

described! {
    /// An agentable under its kind: `goal_…`, `task_…`, `user_agent_…`.
    AgentableId => text()
        .pattern(Some("^[a-z][a-z_]*_[0-9a-f]{32}$"))
        .examples(["goal_019ab3c4d5e67f8091a2b3c4d5e6f708"]);
    /// A user.
    UserId => id("user", "user");
    /// A run.
    RunId => id("run", "run");
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
    /// A long result of a tool.
    ResultId => id("result", "result");
    /// An erasure.
    ErasureId => id("erasure", "erasure");
    /// An API key: its record, not its secret.
    ApiKeyId => id("key", "key");
    /// A check-in.
    CheckInId => id("check_in", "check_in");
    /// Something in a stream: a message, a reasoning, a result.
    EntityId => id("(msg|reasoning|result)", "msg");

    /// The name of a step.
    StepName => text().pattern(Some("^iteration [0-9]+$")).examples(["iteration 3"]);
    /// A point in time: RFC 3339, UTC, milliseconds.
    Time => text()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-11-22T09:00:00.000Z"]);
    /// A decimal as text.
    Decimal => text().pattern(Some("^-?[0-9]+(\\.[0-9]+)?$")).examples(["0.0123"]);

    /// Who wrote a thread message; `system` is Houston, to its agent.
    Source => one_of(&["user", "agent", "error", "system"]);
    /// A message, or a tool at work.
    MessageType => one_of(&["text", "tool"]);
    /// How far a user's message has come.
    MessageStatus => one_of(&["pending", "processing", "answered", "failed"]);
    /// How a run stands or ended.
    RunStatus => one_of(&RUN_STATUSES);
    /// What a message does to a run that is open.
    DoubleTexting => one_of(&["enqueue", "interrupt", "reject", "rollback"]);
    /// Why a session was closed.
    CompletionReason => one_of(&["session_timeout", "feed_generation_complete", "reset"]);
    /// Why a history was compressed.
    CompressionReason => one_of(&["budget", "context_length"]);
    /// Who picked the agent that answers.
    RoutedBy => one_of(&["rule", "model", "default"]);
    /// How bad it is.
    HealthStatus => one_of(&["ok", "warn", "red"]);
    /// Whose turn an entry of the history is.
    EntryRole => one_of(&["user", "assistant"]);

    /// One block of an entry: `text`, `tool_use`, `tool_result`, `thinking` or `opaque`.
    Block => anything("A block of the type `type`.")
        .property("type", one_of(&["text", "tool_use", "tool_result", "thinking", "opaque"]))
        .required("type");
    /// A conversation as a document, as `export` writes it.
    Conversation => anything("A conversation as a document: `export` writes it, `import` reads it.");
    /// A conversation in numbers.
    Statistics => anything("A conversation in numbers: runs, messages, tokens, costs.");
    /// The runtime state of an agentable, with a diagnosis.
    RuntimeState => anything("The lock, the run, what it waits for, and a diagnosis in plain words.");
    /// What a model would be sent.
    Prompt => anything("What a model would be sent, by parts and by sections.");
    /// Which tools may be called.
    Tools => anything("Every tool there is, whether it may be called, and why not.");
    /// Metadata of a message.
    MessageMetadata => anything("Metadata of a message: whatever the client gave, or details of a tool or an error.");
}

macro_rules! described_as {
    ($($type:ty => $name:ident;)*) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> { $name::schema() }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> { stringify!($name).into() }
        }
    )*};
}

described_as! {
    crate::time::Time => Time;
    crate::agui::EntityId => EntityId;
    crate::agui::StepName => StepName;
}

const RUN_STATUSES: [&str; 13] = [
    "queued",
    "running",
    "retrying",
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

/// Tokens of model calls.
#[derive(Debug, ToSchema)]
pub struct Usage {
    /// Sent, cached or not.
    pub input_tokens: u64,
    /// Received, including reasoning.
    pub output_tokens: u64,
    /// Of the input, served from the provider's cache.
    pub cache_read_tokens: u64,
    /// Of the input, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Of the output, spent on reasoning.
    pub reasoning_tokens: u64,
    /// What it cost in US dollars, where that is not said beside it.
    #[schema(value_type = Option<Decimal>)]
    pub cost: Option<Decimal>,
}

/// How a team picks the agent that answers.
#[derive(Debug, ToSchema)]
pub struct Router {
    /// `rules`: the first rule that holds; `model`: a model, by the descriptions of the agents.
    #[schema(value_type = RouterKind)]
    pub by: RouterKind,
    /// In the order in which they are tried; of a router by `rules`, 1 to 50.
    pub rules: Option<Vec<Rule>>,
}

described! {
    /// Who picks the agent that answers.
    RouterKind => one_of(&["rules", "model"]);
}

/// One rule of a router.
#[derive(Debug, ToSchema)]
pub struct Rule {
    /// When it holds.
    pub when: Condition,
    /// Who answers then.
    #[schema(value_type = AgentId)]
    pub agent_id: AgentId,
}

/// What must be true of a message: all that is given. Upper and lower case are the same.
#[derive(Debug, ToSchema)]
pub struct Condition {
    /// It has this text somewhere.
    pub contains: Option<String>,
    /// It begins with this text.
    pub prefix: Option<String>,
    /// This regular expression matches somewhere.
    pub regex: Option<String>,
    /// It has more characters than this.
    pub longer_than: Option<u32>,
}

/// What an agent changes in the limits of its kind: never more than those.
#[derive(Debug, ToSchema)]
pub struct LimitChanges {
    /// Model calls in one run.
    pub max_iterations: Option<u32>,
    /// Turns in a row that ask for the same single tool.
    pub max_same_tool: Option<u32>,
    /// Seconds one attempt may take.
    pub max_duration_s: Option<u64>,
    /// History entries of the open session.
    pub max_history_entries: Option<u64>,
    /// Tokens the model may write in one answer.
    pub max_output_tokens: Option<u32>,
}

/// The lists of a profile.
#[derive(Debug, ToSchema)]
pub struct ProfileLists {
    /// Who they are.
    pub facts: Vec<String>,
    /// How they like things.
    pub preferences: Vec<String>,
    /// How they want to be talked with.
    pub communication_style: Vec<String>,
    /// What they care about.
    pub interests: Vec<String>,
    /// What they want to reach.
    pub aims: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn check<D: DeserializeOwned, S: PartialSchema>() {
        let schema = serde_json::to_value(S::schema()).unwrap();
        let names = schema["enum"].as_array().unwrap();
        assert!(!names.is_empty());
        for name in names {
            assert!(serde_json::from_value::<D>(name.clone()).is_ok(), "{name} in {schema}");
        }
    }

    #[test]
    fn listed_names_are_names_of_the_domain() {
        check::<houston_domain::message::Source, Source>();
        check::<houston_domain::message::MessageType, MessageType>();
        check::<houston_domain::message::MessageStatus, MessageStatus>();
        check::<houston_domain::run::RunStatus, RunStatus>();
        check::<houston_domain::agentable::DoubleTexting, DoubleTexting>();
        check::<houston_domain::session::CompletionReason, CompletionReason>();
        check::<houston_domain::compression::Reason, CompressionReason>();
        check::<houston_domain::team::RoutedBy, RoutedBy>();
        check::<houston_domain::team::RouterKind, RouterKind>();
        check::<houston_domain::health::HealthStatus, HealthStatus>();
        check::<houston_domain::history::Role, EntryRole>();
    }

    #[test]
    fn an_id_has_the_pattern_of_its_schema() {
        let schema = serde_json::to_value(RunId::schema()).unwrap();
        assert_eq!(schema["pattern"], "^run_[0-9a-f]{32}$");
        let example: houston_domain::id::RunId =
            serde_json::from_value(schema["examples"][0].clone()).unwrap();
        assert_eq!(json!(example), Value::from("run_019ab3c4d5e67f8091a2b3c4d5e6f708"));
    }
}

//! Which fields may be changed, of each [`Entity`].

use crate::agent_settings::MAX_AGENT_NAME_CHARS;
use crate::agentable::{MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS};
use crate::event::topic::MAX_PATTERNS;
use crate::field::FieldType::{Boolean, Object, String, StringList};
use crate::field::UpdatableBy::{Api, Both};
use crate::field::{Entity, Field, Max, field};
use crate::knowledge::{MAX_DOCUMENT_BYTES, MAX_TITLE_CHARS as MAX_DOCUMENT_TITLE_CHARS};
use crate::trigger::{MAX_INSTRUCTIONS_BYTES, MAX_NAME_CHARS};

impl Entity {
    /// Its fields that may be changed.
    pub fn fields(self) -> &'static [Field] {
        match self {
            Entity::Goal => &GOAL,
            Entity::Task => &TASK,
            Entity::Agent => &AGENT,
            Entity::Team => &TEAM,
            Entity::User => &USER,
            Entity::Profile => &PROFILE,
            Entity::Todo => &crate::todo::FIELDS,
            Entity::Note => &NOTE,
            Entity::FeedItem => &FEED_ITEM,
            Entity::Webhook => &WEBHOOK,
            Entity::Trigger => &TRIGGER,
        }
    }
}

const AGENTABLE_TITLE: Field =
    field("title", String, Both, "The new title, one line.").at_most(Max::Chars(MAX_TITLE_CHARS)).not_empty();
const AGENTABLE_DESCRIPTION: Field = field(
    "description",
    String,
    Both,
    "The new description, in place of the old one: what its agent must always know.",
)
.at_most(Max::Bytes(MAX_DESCRIPTION_BYTES));
const AGENT_ID: Field =
    field("agent_id", String, Api, "The agent that answers; null: the default agent of the kind.").or_null();
const TEAM_ID: Field =
    field("team_id", String, Api, "The team that answers; null: the default agent of the kind.").or_null();

const GOAL: [Field; 6] = [
    AGENTABLE_TITLE,
    AGENTABLE_DESCRIPTION,
    field(
        "status",
        String,
        Both,
        "archived to close it; the first status of its kind, as in waiting, to take that back.",
    ),
    AGENT_ID,
    TEAM_ID,
    field("tools", StringList, Api, "The tools it may call, of those of its kind; null: all of them.")
        .or_null(),
];

const TASK: [Field; 4] = [
    Field { updatable_by: Api, ..AGENTABLE_TITLE },
    Field { updatable_by: Api, ..AGENTABLE_DESCRIPTION },
    AGENT_ID,
    TEAM_ID,
];

const AGENT: [Field; 13] = [
    field("name", String, Api, "One line, unique in the tenant.")
        .at_most(Max::Chars(MAX_AGENT_NAME_CHARS))
        .not_empty(),
    field("description", String, Api, "What it is good for; at most 2,000 bytes.").at_most(Max::Bytes(2_000)),
    field("role", String, Api, "Who it is, for its model; at most 6,000 characters.")
        .at_most(Max::Chars(6_000))
        .not_empty(),
    field("guidelines", String, Api, "How it works; at most 6,000 characters.").at_most(Max::Chars(6_000)),
    field("tools", StringList, Api, "The tools it may call, of those of its kind."),
    field("use_case", String, Api, "The use case whose model `default` means."),
    field("provider", String, Api, "The name of a provider, or `default`."),
    field("model", String, Api, "The name of a model, or `default`."),
    field("sampling", Object, Api, "How its model chooses its words: temperature, top_p, effort, stop."),
    field(
        "output",
        Object,
        Api,
        "The form of its answers: a JSON Schema of type object in schema, and a name; null removes it.",
    )
    .or_null(),
    field(
        "model_policy",
        Object,
        Api,
        "How its model is called: cache (off, short, long, auto), latency (fast, interactive, relaxed, batch).",
    ),
    field("limits", Object, Api, "Limits of its kind that it overrides; never above those."),
    field("enabled", Boolean, Api, "Whether it may answer runs."),
];

const TEAM: [Field; 6] = [
    field("name", String, Api, "Unique in the tenant.").at_most(Max::Chars(MAX_AGENT_NAME_CHARS)).not_empty(),
    field("description", String, Api, "What it is for; at most 2,000 bytes.").at_most(Max::Bytes(2_000)),
    field(
        "agents",
        StringList,
        Api,
        "The ids of its agents, all of one kind: 1 to 20 unless the operator set another maximum.",
    )
    .not_empty(),
    field("default_agent_id", String, Api, "One of `agents`, which answers when no rule holds."),
    field("router", Object, Api, "How it picks the agent that answers a run."),
    field("output", Object, Api, "The form of its answers, as of an agent; null removes it.").or_null(),
];

const USER: [Field; 3] = [
    field("name", String, Api, "What agents call them.").at_most(Max::Chars(200)).not_empty(),
    field("time_zone", String, Api, "An IANA name, as in `Europe/Berlin`."),
    field("external_id", String, Api, "What another system calls them; null removes it.")
        .at_most(Max::Chars(255))
        .not_empty()
        .or_null(),
];

const PROFILE: [Field; 5] = [
    field("facts", StringList, Both, "Who the user is."),
    field("preferences", StringList, Both, "How they like things done."),
    field("communication_style", StringList, Both, "How they want to be addressed."),
    field("interests", StringList, Both, "What they care about."),
    field("aims", StringList, Both, "What they want to achieve."),
];

const NOTE: [Field; 2] = [
    field("title", String, Both, "One line that says what the note is about.")
        .at_most(Max::Chars(MAX_DOCUMENT_TITLE_CHARS))
        .not_empty(),
    field("content", String, Both, "The whole note, in Markdown.")
        .at_most(Max::Bytes(MAX_DOCUMENT_BYTES))
        .not_empty(),
];

const FEED_ITEM: [Field; 3] = [
    field("title", String, Api, "One line.").at_most(Max::Chars(MAX_DOCUMENT_TITLE_CHARS)).not_empty(),
    field("content", String, Api, "The whole item, in Markdown.")
        .at_most(Max::Bytes(MAX_DOCUMENT_BYTES))
        .not_empty(),
    field("read", Boolean, Api, "Whether the user has read it."),
];

const WEBHOOK: [Field; 4] = [
    field("url", String, Api, "Where events are sent: https on the public internet."),
    field("topics", StringList, Api, "Which events, as patterns of topics.")
        .at_most(Max::Items(MAX_PATTERNS))
        .not_empty(),
    field("description", String, Api, "For people.").at_most(Max::Chars(500)),
    field("enabled", Boolean, Api, "Whether events are sent."),
];

const TRIGGER: [Field; 4] = [
    field("name", String, Api, "For people.").at_most(Max::Chars(MAX_NAME_CHARS)).not_empty(),
    field("instructions", String, Api, "What the agent reads first.")
        .at_most(Max::Bytes(MAX_INSTRUCTIONS_BYTES))
        .not_empty(),
    field("when", Object, Api, "At which times, words or events it fires."),
    field("enabled", Boolean, Api, "Whether it fires."),
];

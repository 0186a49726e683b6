//! What a model is sent for an agentable, for people: made by the function that makes it for the model.

use chrono::{DateTime, Utc};
use houston_domain::capability::Capability;
use houston_domain::id::RunId;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_llm::{SystemPart, tokens};
use houston_store::Store;
use houston_store::agentable::Agentable;
use houston_store::history::RunContext;
use houston_tools::Registry;
use serde::Serialize;
use uuid::Uuid;

use super::compose::{Composed, Composing};
use crate::config::ContextConfig;
use crate::engine::Setup;

/// The prompt of an agentable with this title and description. The one way a prompt is made: what people are shown is
/// what models are sent.
#[must_use]
pub fn compose(
    setup: &Setup,
    title: &str,
    description: &str,
    context: &RunContext,
    now: DateTime<Utc>,
    most_chars: usize,
) -> Composed {
    let composing = Composing {
        agent_type: &setup.agent_type,
        reply: setup.policy.reply,
        offer: &setup.offer,
        title,
        description,
        context,
        sessions: &[],
        schedules: &[],
        now,
        most_chars,
    };
    composing.compose()
}

/// What a model would be sent now. Tokens are estimates, see [`tokens`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preview {
    /// Whose prompt it is, as shown.
    pub id: String,
    /// Who would be asked, as `provider/model`.
    pub model: String,
    /// The parts of the system prompt, byte for byte, in order.
    pub system: Vec<Part>,
    /// The same by sections.
    pub sections: Vec<SectionShown>,
    /// What the cap left out.
    pub left_out: Vec<LeftOutShown>,
    /// Characters of the system prompt.
    pub chars: usize,
    /// Characters it may have; the base is never left out, and may be more by itself.
    pub most_chars: usize,
    /// What is told of the tools.
    pub tools: Vec<ToolDefinition>,
    /// Tokens of all that.
    pub tokens: Tokens,
}

/// A part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Its text.
    pub text: String,
    /// Whether providers may cache what ends with it.
    pub cached: bool,
}

/// A section of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionShown {
    /// Its name; the base comes twice: the kind's, and the aim.
    pub name: &'static str,
    /// How long it is the same: `kind`, `agentable`, `changing`.
    pub stable_for: &'static str,
    /// In characters.
    pub chars: usize,
    /// About.
    pub tokens: u64,
}

/// What the cap left out of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOutShown {
    /// Which section.
    pub section: &'static str,
    /// How many of its items.
    pub items: usize,
    /// Whether nothing of it is left.
    pub whole: bool,
}

/// About how many tokens a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// The system prompt.
    pub system: u64,
    /// Definitions of tools, with what the provider puts around them.
    pub tools: u64,
    /// The history of the open session.
    pub history: u64,
    /// All.
    pub total: u64,
}

/// What a model would be sent for `agentable` if its next run began now.
///
/// # Errors
/// What the database says.
pub async fn preview(
    store: &Store,
    setup: &Setup,
    config: &ContextConfig,
    agentable: &Agentable,
    now: DateTime<Utc>,
) -> houston_store::Result<Preview> {
    // Its run only says which entries of the history are its own: nothing of the prompt.
    let run = agentable.run.unwrap_or(RunId(Uuid::nil()));
    let context = store.run_context(agentable.id, run, config.notes, &config.prompt).await?;
    let Agentable { title, description, .. } = agentable;
    let composed = compose(setup, title, description, &context, now, config.prompt_chars);
    Ok(shown(setup, config, agentable, &context, &composed))
}

fn shown(
    setup: &Setup,
    config: &ContextConfig,
    agentable: &Agentable,
    context: &RunContext,
    composed: &Composed,
) -> Preview {
    let model = setup.model.description();
    let parts = composed.parts();
    let definitions = setup.offer.definitions();
    let system = tokens::of_preamble(&parts, &[], &model.provider);
    let tools = tokens::of_preamble(&[], definitions, &model.provider);
    let history = tokens::of_entries(&context.history);
    let sections = composed.sections.iter().map(|section| SectionShown {
        name: section.name,
        stable_for: section.stability.as_str(),
        chars: section.text.chars().count(),
        tokens: tokens::estimate(&section.text),
    });
    let left_out = composed.left_out.iter().map(|out| LeftOutShown {
        section: out.section,
        items: out.items,
        whole: out.whole,
    });
    Preview {
        id: agentable.id.shown(&agentable.kind),
        model: model.to_string(),
        sections: sections.collect(),
        left_out: left_out.collect(),
        chars: parts.iter().map(|part| part.text.chars().count()).sum(),
        most_chars: config.prompt_chars,
        system: parts.into_iter().map(|SystemPart { text, cached }| Part { text, cached }).collect(),
        tools: definitions.to_vec(),
        tokens: Tokens { system, tools, history, total: system + tools + history },
    }
}

/// A tool of this process, and whether agents of a kind may call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolShown {
    /// Its name.
    pub name: String,
    /// Whether the model is told of it.
    pub offered: bool,
    /// Why, or why not.
    pub reason: String,
    /// What it enables an agent to do.
    pub capability: Option<Capability>,
    /// What a crash allows.
    pub effect: EffectClass,
    /// How long a call may take, in seconds.
    pub timeout_s: u64,
}

/// All tools of `registry` as agents of the kind meet them: those they may call, in the order the model is told of
/// them, then the others.
#[must_use]
pub fn tools(setup: &Setup, registry: &Registry) -> Vec<ToolShown> {
    let kind = &setup.agent_type.kind;
    let model = setup.model.description();
    let named = &setup.agent_type.tools;
    let others = registry.names().into_iter().filter(|name| !named.contains(name));
    let all = named.iter().cloned().chain(others);
    let shown = all.filter_map(|name| {
        let tool = registry.get(&name)?;
        let offered = setup.offer.get(&name).is_some();
        let reason = match (offered, named.contains(&name)) {
            (true, _) => format!("named under `tools` in agents/{kind}.toml"),
            (false, false) => format!("not named under `tools` in agents/{kind}.toml"),
            (false, true) => {
                format!("named under `tools` in agents/{kind}.toml, but {model} cannot call tools")
            }
        };
        let definition = tool.definition();
        Some(ToolShown {
            offered,
            reason,
            capability: tool.capability(),
            effect: definition.effect,
            timeout_s: definition.timeout.as_secs(),
            name,
        })
    });
    shown.collect()
}

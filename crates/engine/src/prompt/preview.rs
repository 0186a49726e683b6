//! What a model is sent for an agentable, for people: made by the function that makes it for the model.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::capability::Capability;
use houston_domain::compression;
use houston_domain::frame::FrameMark;
use houston_domain::id::RunId;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_llm::{SystemPart, tokens};
use houston_store::Store;
use houston_store::agentable::Agentable;
use houston_store::history::RunContext;
use houston_store::serving::Serving;
use houston_tools::builtin::READ_RESULT;
use houston_tools::{Offer, Registry, Situation};
use serde::Serialize;
use uuid::Uuid;

use super::compose::{Composed, Composing};
use crate::config::ContextConfig;
use crate::engine::Setup;
use crate::setups::Setups;
use crate::task::fitted;

/// The prompt of an agentable with this title and description. The one way a prompt is made: what people are shown is
/// what models are sent.
#[must_use]
pub fn compose(
    setup: &Setup,
    offer: &Offer,
    title: &str,
    description: &str,
    context: &RunContext,
    now: DateTime<Utc>,
    most_chars: usize,
) -> Composed {
    let composing = Composing {
        agent_type: &setup.agent_type,
        reply: setup.policy.reply,
        offer,
        title,
        description,
        context,
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
    /// What is sent after the history, behind all that may be cached; nothing when the cap left nothing of it.
    pub system_context: Option<String>,
    /// Both by sections, in their order.
    pub sections: Vec<SectionShown>,
    /// What the cap left out.
    pub left_out: Vec<LeftOutShown>,
    /// Characters of all sections.
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
    /// Its name. The base comes three times (role and guidelines, the aim, the mark of frames), the conversation twice
    /// (what is stable, and the rest).
    pub name: &'static str,
    /// How long it is the same: `kind`, `agentable`, `session`, `changing`.
    pub stable_for: &'static str,
    /// Where it is sent: `system`, before the history, or `system_context`, after it.
    pub sent: &'static str,
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
    /// The system context.
    pub context: u64,
    /// Definitions of tools, with what the provider puts around them.
    pub tools: u64,
    /// The history of the open session.
    pub history: u64,
    /// All.
    pub total: u64,
}

/// What is offered of the tools of `setup` to a run that begins with this context: before there are long results to
/// read on in, and from then on. A prompt tells of the former: it must not change in the middle of a run.
#[must_use]
pub fn offers(setup: &Setup, context: &RunContext) -> [Offer; 2] {
    let situation = Situation { has_sessions: context.has_sessions };
    [&setup.offer, &setup.offer_with_results].map(|offer| offer.in_situation(situation))
}

/// Who would answer for `agentable` if its next run began now, and with what.
struct Next {
    setup: Arc<Setup>,
    /// What the prompt tells of.
    told: Offer,
    offer: Offer,
    context: RunContext,
}

async fn next(
    store: &Store,
    setups: &Setups,
    config: &ContextConfig,
    agentable: &Agentable,
) -> houston_store::Result<Next> {
    // Its run only says which entries of the history are its own: nothing of the prompt.
    let run = agentable.run.unwrap_or(RunId(Uuid::nil()));
    let mut context = store.run_context(agentable.id, run, config.notes, &config.prompt).await?;
    // Whoever reads the preview could forge frames with it.
    context.mark = FrameMark::hidden();
    // Whoever asks has looked the kind up.
    let unknown = houston_store::Error::NotFound { what: "agent type" };
    let setup = setups.serving(&agentable.kind, &context.serving).await.ok_or(unknown)?;
    let setup = fitted(&setup, &context.setting);
    let [told, with_results] = offers(&setup, &context);
    let offer = if context.has_results { with_results } else { told.clone() };
    Ok(Next { told, offer, setup, context })
}

/// What a model would be sent for `agentable` if its next run began now.
///
/// # Errors
/// What the database says.
pub async fn preview(
    store: &Store,
    setups: &Setups,
    config: &ContextConfig,
    agentable: &Agentable,
    now: DateTime<Utc>,
) -> houston_store::Result<Preview> {
    let next = next(store, setups, config, agentable).await?;
    let Agentable { title, description, .. } = agentable;
    let composed =
        compose(&next.setup, &next.told, title, description, &next.context, now, config.prompt_chars);
    Ok(shown(&next, config, agentable, &composed))
}

fn shown(next: &Next, config: &ContextConfig, agentable: &Agentable, composed: &Composed) -> Preview {
    let model = next.setup.model.description();
    let parts = composed.parts();
    let definitions = next.offer.definitions();
    let system = tokens::of_preamble(&parts, &[], &model.provider);
    let tools = tokens::of_preamble(&[], definitions, &model.provider);
    let summary =
        next.context.summary.as_deref().map(|summary| compression::entry(summary, &next.context.mark));
    let history = tokens::of_entries(&next.context.history[next.context.folded..])
        + summary.map_or(0, |summary| tokens::of_entries(std::slice::from_ref(&summary)));
    let system_context = composed.system_context();
    let context = system_context.as_deref().map_or(0, tokens::estimate);
    let sections = composed.sections.iter().map(|section| SectionShown {
        name: section.name,
        stable_for: section.stability.as_str(),
        sent: section.stability.place().as_str(),
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
        chars: composed.sections.iter().map(|section| section.text.chars().count()).sum(),
        most_chars: config.prompt_chars,
        system: parts.into_iter().map(|SystemPart { text, cached }| Part { text, cached }).collect(),
        system_context,
        tools: definitions.to_vec(),
        tokens: Tokens { system, context, tools, history, total: system + context + tools + history },
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

/// All tools of `registry` as the next run of `agentable` meets them: those it may call, in the order the model is told
/// of them, then the others.
///
/// # Errors
/// What the database says.
pub async fn tools(
    store: &Store,
    setups: &Setups,
    config: &ContextConfig,
    agentable: &Agentable,
    registry: &Registry,
) -> houston_store::Result<Vec<ToolShown>> {
    let next = next(store, setups, config, agentable).await?;
    let named = &next.setup.agent_type.tools;
    let others = registry.names().into_iter().filter(|name| !named.contains(name));
    let all = named.iter().cloned().chain(others);
    let shown = all.filter_map(|name| {
        let tool = registry.get(&name)?;
        let offered = next.offer.get(&name).is_some();
        let definition = tool.definition();
        Some(ToolShown {
            offered,
            reason: reason(&next, &name, offered),
            capability: tool.capability(),
            effect: definition.effect,
            timeout_s: definition.timeout.as_secs(),
            name,
        })
    });
    Ok(shown.collect())
}

/// Why a tool is offered, or why not.
fn reason(next: &Next, name: &str, offered: bool) -> String {
    let Setup { agent_type, model, offer, .. } = &*next.setup;
    let place = match &next.context.serving {
        Serving::Agent(agent) | Serving::Routed(agent) if !agent.follows_file => {
            format!("by the agent `{}`", agent.name)
        }
        _ => format!("under `tools` in agents/{}.toml", agent_type.kind),
    };
    if name == READ_RESULT && next.setup.offer_with_results.get(READ_RESULT).is_some() {
        // Nobody names it: it comes with the first result that is read on in.
        let now = if offered { "offered, since" } else { "offered by itself as soon as" };
        return format!("{now} a result is too long to stand in the history");
    }
    if !agent_type.tools.iter().any(|tool| tool == name) {
        return format!("not named {place}");
    }
    if offered {
        return format!("named {place}");
    }
    if next.context.setting.tools.as_ref().is_some_and(|tools| !tools.iter().any(|tool| tool == name)) {
        return format!("named {place}, but not under its own `tools`: switched off for it alone");
    }
    if offer.get(name).is_some() {
        return format!("named {place}, but there is nothing yet that it could find");
    }
    format!("named {place}, but {} cannot call tools", model.description())
}

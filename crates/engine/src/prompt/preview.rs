//! A preview of what a model is sent for an agentable, for `houston prompt` and the API. The text comes from
//! [`compose`](super::compose), which runs use as well.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use houston_domain::capability::Capability;
use houston_domain::compression;
use houston_domain::frame::FrameMark;
use houston_domain::guard::{Call, CompiledGrant, Explanation, Situation, clamp, explain, switched_off};
use houston_domain::id::RunId;
use houston_domain::inner_call::inner_call;
use houston_domain::tool_call::{EffectClass, ToolDefinition};
use houston_domain::tool_schema::read;
use houston_domain::trace::Snapshot;
use houston_llm::{SystemPart, tokens};
use houston_store::RunStore;
use houston_store::agentable::Agentable;
use houston_store::run_context::RunContext;
use houston_store::serving::Serving;
use houston_tools::builtin::READ_RESULT;
use houston_tools::{Offer, Registry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::compose::{Omission, compose, offers};
use super::focus::previewed;
use crate::config::ContextConfig;
use crate::setup::Setup;
use crate::setup::guards::{Taint, situation, user_texts};
use crate::setup::kinds::Setups;

/// What a model would be sent now. Token counts are estimates, see [`tokens`].
///
/// As JSON: `{"id": "goal_…", "model": "anthropic/claude-sonnet-4-5", "system": [{"text": "<role>…", "cached": true}],
/// "system_context": "<system_context …>…", "sections": […], "left_out": [], "chars": 4120, "most_chars": 16000,
/// "tools": […], "tokens": {"system": 900, "context": 120, "tools": 3100, "history": 0, "total": 4120}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// Public id of the agentable.
    pub id: String,
    /// The model that would be called, as `provider/model`.
    pub model: String,
    /// The parts of the system prompt, byte for byte, in order.
    pub system: Vec<SystemPart>,
    /// The system context, sent after the history; `None` if it is empty.
    pub system_context: Option<String>,
    /// Sections of both, in order.
    pub sections: Vec<SectionPreview>,
    /// Items left out because of `most_chars`.
    pub left_out: Vec<Omission>,
    /// Characters of all sections together.
    pub chars: usize,
    /// Characters they may have. The base is never left out, even if it alone is longer.
    pub most_chars: usize,
    /// Definitions of the offered tools.
    pub tools: Vec<ToolDefinition>,
    /// How the model is to answer, and where that comes from.
    pub settings: Vec<SettingPreview>,
    /// Estimated tokens of each part.
    pub tokens: Tokens,
}

/// Name and size of a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPreview {
    /// Its name. The base occurs three times (role and guidelines, aim, frame mark), the conversation twice (the stable part
    /// and the rest).
    pub name: String,
    /// How long the text stays the same: `kind`, `agentable`, `session`, `changing`.
    pub stable_for: String,
    /// Destination: `system`, before the history, or `system_context`, after it.
    pub sent: String,
    /// Length in characters.
    pub chars: usize,
    /// Estimated tokens.
    pub tokens: u64,
}

/// Estimated tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The system prompt.
    pub system: u64,
    /// The system context.
    pub context: u64,
    /// Tool definitions, with the provider's overhead.
    pub tools: u64,
    /// The history of the open session.
    pub history: u64,
    /// The sum.
    pub total: u64,
}

/// The next run of an agentable if it began now: its setup, tools and context.
pub struct NextRun<'a> {
    config: &'a ContextConfig,
    agentable: &'a Agentable,
    setup: Arc<Setup>,
    /// The tools that the prompt lists.
    prompt_offer: Offer,
    offer: Offer,
    context: RunContext,
    settings: Vec<SettingPreview>,
}

impl<'a> NextRun<'a> {
    /// Reads what the next run of `agentable` would start from.
    ///
    /// # Errors
    /// As the methods of the store.
    pub async fn read(
        store: &RunStore,
        setups: &Setups,
        config: &'a ContextConfig,
        agentable: &'a Agentable,
    ) -> houston_store::Result<Self> {
        // The run only decides which history entries are its own; the prompt does not depend on it.
        let run = agentable.run.unwrap_or(RunId(Uuid::nil()));
        let mut context = store.run_context(agentable.id, run, config.notes, &config.prompt).await?;
        // A reader of the preview could forge frames with the mark.
        context.mark = FrameMark::hidden();
        // Cannot happen: callers have looked up the kind.
        let unknown = houston_store::Error::NotFound { what: "agent type" };
        let agent = setups.serving(&agentable.kind, &context.serving).await.ok_or(unknown)?;
        let read = |tenant, summary| store.tool_source(tenant, summary);
        let sources = setups.own_tools_for(&agent, &context, read).await?;
        let setup = setups.for_run(&agent, &context, &sources).await;
        let kind = setups.kinds().get(&agentable.kind).unwrap_or(&agent);
        let settings = settings(kind, &agent, &setup, &context);
        drop(sources);
        let setup = about_focus(store, config, agentable, setup, &context).await;
        let [prompt_offer, with_results] = offers(&setup, &context);
        let offer = if context.has_results { with_results } else { prompt_offer.clone() };
        Ok(Self { config, agentable, prompt_offer, offer, setup, context, settings })
    }

    /// What a model would be sent.
    pub fn preview(&self, now: DateTime<Utc>) -> Preview {
        let Self { agentable, setup, context, .. } = self;
        let most_chars = self.config.prompt_chars;
        let Agentable { title, description, .. } = agentable;
        let prompt = compose(setup, &self.prompt_offer, title, description, context, now, most_chars);
        let model = setup.model.description();
        let parts = prompt.parts();
        let definitions = self.offer.definitions();
        let system = tokens::of_preamble(&parts, &[], &model.provider);
        let tools = tokens::of_preamble(&[], definitions, &model.provider);
        let summary = context.summary.as_deref();
        let summary = summary.map(|summary| compression::summary_entry(summary, &context.mark));
        let history = tokens::of_entries(&context.history[context.summarised_entries..])
            + summary.map_or(0, |summary| tokens::of_entries(std::slice::from_ref(&summary)));
        let system_context = prompt.system_context();
        let context = system_context.as_deref().map_or(0, tokens::estimate);
        let sections = prompt.sections.iter().map(|section| SectionPreview {
            name: section.name.to_owned(),
            stable_for: section.stability.as_str().to_owned(),
            sent: section.stability.sent().to_owned(),
            chars: section.text.chars().count(),
            tokens: tokens::estimate(&section.text),
        });
        Preview {
            id: agentable.id.public_id(&agentable.kind),
            model: model.to_string(),
            sections: sections.collect(),
            chars: prompt.sections.iter().map(|section| section.text.chars().count()).sum(),
            left_out: prompt.left_out,
            most_chars,
            system: parts,
            system_context,
            tools: definitions.to_vec(),
            settings: self.settings.clone(),
            tokens: Tokens { system, context, tools, history, total: system + context + tools + history },
        }
    }

    /// All tools of `registry` with their status: first the tools of its agent, in the order of
    /// their definitions, then those of the tenant's own that it is offered, then the others.
    pub fn tools(&self, registry: &Registry) -> Vec<ToolStatus> {
        let named = &self.setup.agent_type.tools;
        let others = registry.names().into_iter().filter(|name| !named.contains(name));
        let own = self.setup.offer_with_results.tools().iter().map(|tool| tool.definition().name.clone());
        let own = own.filter(|name| registry.get(name).is_none());
        let all = named.iter().cloned().chain(own).chain(others);
        let statuses = all.filter_map(|name| {
            let tool = registry.get(&name).or_else(|| self.setup.offer_with_results.get(&name))?;
            let offered = self.offer.get(&name).is_some();
            let definition = tool.definition();
            Some(ToolStatus {
                offered,
                reason: match registry.get(&name) {
                    Some(_) => match read(&definition.input_schema) {
                        Err(unreadable) => format!("cannot be offered: {unreadable}"),
                        Ok(_) => self.reason(&name, offered),
                    },
                    None => "a tool of the tenant's own".to_owned(),
                },
                capability: tool.capability(),
                effect: definition.effect,
                timeout_s: definition.timeout.as_secs(),
                name,
            })
        });
        statuses.collect()
    }

    /// Why a tool is offered, or why not.
    fn reason(&self, name: &str, offered: bool) -> String {
        let Setup { agent_type, model, offer, .. } = &*self.setup;
        let source = match &self.context.serving {
            Serving::Agent(agent) | Serving::Routed(agent) if !agent.follows_file => {
                format!("by the agent `{}`", agent.name)
            }
            _ => format!("under `tools` in agents/{}.toml", agent_type.kind),
        };
        if name == READ_RESULT && self.setup.offer.is_searched() {
            return "offered always, because tools are searched".to_owned();
        }
        if name == READ_RESULT && self.setup.offer_with_results.get(READ_RESULT).is_some() {
            // No agent type names it: it is offered as soon as there is a large result.
            let now = if offered { "offered, since" } else { "offered by itself as soon as" };
            return format!("{now} a result is too long for the history");
        }
        if !agent_type.tools.iter().any(|tool| tool == name) {
            return format!("not named {source}");
        }
        if offered {
            let is_sent = self.offer.definitions().iter().any(|sent| sent.name == name);
            let found = if is_sent { "" } else { "; found by searching" };
            return format!("named {source}{found}");
        }
        if let Some(facts) = self.setup.off.get(name)
            && let Some(layer) = switched_off(&self.setup.guards, name, facts)
        {
            return format!("named {source}, but switched off by the guards of the {}", layer.kind);
        }
        if self.context.setting.tools.as_ref().is_some_and(|tools| !tools.iter().any(|tool| tool == name)) {
            return format!("named {source}, but not under its own `tools`: switched off for it alone");
        }
        if offer.get(name).is_some() {
            return format!("named {source}, but there is nothing yet for it to find");
        }
        format!("named {source}, but {} cannot call tools", model.description())
    }

    /// What the guards would say of a call of `tool` with the arguments `input`. Calls of the last minute are not counted.
    ///
    /// # Errors
    /// As the methods of the store.
    pub async fn guard(
        &self,
        store: &RunStore,
        tool: String,
        input: Value,
    ) -> houston_store::Result<GuardPreview> {
        let (tool, input) = match inner_call(&tool, &input) {
            (inner, arguments) if inner != tool => (inner.to_owned(), arguments.into_owned()),
            _ => (tool, input),
        };
        let setup = &*self.setup;
        let facts = self.offer.facts(&tool).or_else(|| setup.off.get(&tool));
        let limits =
            facts.map(|facts| facts.in_force(&setup.guards, &tool).limits.clone()).unwrap_or_default();
        let (input, lowered) = clamp(&limits, input);
        let taint = Taint::at_start(&self.context, setup);
        let pin = self.offer.get(&tool).and_then(|tool| tool.pin());
        let call = Call { tool: &tool, facts, input: &input, pin, pin_changed: false };
        let user_texts = user_texts(&self.context.history, setup, &self.context.mark);
        let grants = CompiledGrant::of_stored(&store.grants(self.agentable.id, self.agentable.user).await?);
        let situation = Situation { grants: &grants, ..situation(setup, taint, 0, &user_texts) };
        let explanation = explain(&setup.guards, &call, &situation);
        Ok(GuardPreview { tool, input, lowered, explanation })
    }

    /// Limits and offered tools.
    pub fn snapshot(&self) -> Snapshot {
        let policy = self.setup.policy;
        Snapshot {
            conversational: policy.conversational,
            reply: policy.reply,
            driver: self.setup.agent_type.driver.clone(),
            limits: policy.limits,
            tools: self.offer.definitions().to_vec(),
        }
    }
}

/// The setup with what the latest message is about, if it says so.
async fn about_focus(
    store: &RunStore,
    config: &ContextConfig,
    agentable: &Agentable,
    setup: Arc<Setup>,
    context: &RunContext,
) -> Arc<Setup> {
    let Some(client) = context.client.as_deref().filter(|client| client.focus.is_some()) else {
        return setup;
    };
    let [_, tools] = offers(&setup, context);
    let about = previewed((store, config.focus), agentable.id, (&setup, &tools), client).await;
    let sections = setup.sections.iter().cloned().chain(about).collect();
    Arc::new(Setup { sections, ..Setup::clone(&setup) })
}

/// A tool of this process, and whether the agent may call it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStatus {
    /// Its name, such as `create_note`.
    pub name: String,
    /// Whether the model is offered it.
    pub offered: bool,
    /// Why it is offered, or why not, for people.
    pub reason: String,
    /// What it enables the agent to do.
    pub capability: Option<Capability>,
    /// What may be repeated after a crash.
    pub effect: EffectClass,
    /// Time-out of a call, in seconds.
    pub timeout_s: u64,
}

/// A setting of the next run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingPreview {
    /// Its name, as in `temperature`.
    pub name: String,
    /// Its value; `null`: what the provider does without one.
    pub value: Value,
    /// `message`, `team`, `agent`, `kind`, `guards`, `installation` or `provider`.
    pub origin: String,
}

/// The settings, and where the value of one comes from that nobody has set.
const SETTINGS: [(&str, &str); 10] = [
    ("temperature", "provider"),
    ("top_p", "provider"),
    ("effort", "provider"),
    ("stop", "provider"),
    ("max_output_tokens", "installation"),
    ("max_iterations", "installation"),
    ("cache", "installation"),
    ("latency", "installation"),
    (AUTONOMY, "kind"),
    (OUTPUT, "kind"),
];

const AUTONOMY: &str = "autonomy";
const OUTPUT: &str = "output";

/// The settings of `run`. `kind` is the setup of the kind, `agent` that of the agent that answers.
pub(crate) fn settings(
    kind: &Setup,
    agent: &Setup,
    run: &Setup,
    context: &RunContext,
) -> Vec<SettingPreview> {
    let of_kind = &kind.agent_type;
    let kind_says = by_name([
        json!(of_kind.sampling),
        json!(of_kind.limits),
        json!(of_kind.model_policy),
        json!({AUTONOMY: of_kind.autonomy, OUTPUT: of_kind.output}),
    ]);
    let message_says = context.client.as_deref().map(|offer| {
        let output = json!({OUTPUT: offer.output});
        by_name([json!(offer.sampling), json!(offer.limits), json!(offer.model_policy), output])
    });
    let message_says = message_says.unwrap_or_default();
    let team_says = by_name([json!({OUTPUT: context.serving.output()})]);
    let (kind, agent, mut run_has) = (in_force(kind), in_force(agent), in_force(run));
    run_has.insert(OUTPUT.to_owned(), json!(run.wanted.output));
    let settings = SETTINGS.into_iter().map(|(name, usual)| {
        let value = run_has.get(name).cloned().unwrap_or_default();
        let origin = if message_says.contains_key(name) {
            "message"
        } else if team_says.contains_key(name) {
            "team"
        } else if name == AUTONOMY && run_has.get(name) != kind.get(name) {
            "guards"
        } else if agent.get(name) != kind.get(name) {
            "agent"
        } else if kind_says.contains_key(name) {
            "kind"
        } else {
            usual
        };
        SettingPreview { name: name.to_owned(), value, origin: origin.to_owned() }
    });
    settings.collect()
}

/// What is in force in a setup.
fn in_force(setup: &Setup) -> Map<String, Value> {
    let (of, limits) = (&setup.agent_type, setup.policy.limits);
    by_name([
        json!(of.sampling),
        json!({"max_output_tokens": limits.max_output_tokens, "max_iterations": limits.max_iterations}),
        json!({
            "cache": of.model_policy.cache.unwrap_or_default(),
            "latency": of.model_policy.latency.unwrap_or_default(),
        }),
        json!({AUTONOMY: of.autonomy, OUTPUT: of.output}),
    ])
}

/// The fields of these objects that are set.
fn by_name(objects: impl IntoIterator<Item = Value>) -> Map<String, Value> {
    let fields = objects.into_iter().filter_map(|object| match object {
        Value::Object(fields) => Some(fields),
        _ => None,
    });
    fields.flatten().filter(|(_, value)| !value.is_null()).collect()
}

/// What the guards would say of a call, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardPreview {
    /// The tool.
    pub tool: String,
    /// The arguments, with those lowered that are above a limit.
    pub input: Value,
    /// What the model would read of the lowered arguments.
    pub lowered: Vec<String>,
    /// The verdict, and all that was looked at.
    #[serde(flatten)]
    pub explanation: Explanation,
}

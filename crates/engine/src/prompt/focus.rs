//! What a prompt says about the focus of a run's message: what a provider of the kind has answered, and that it is another focus
//! than before.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::client_offer::ClientOffer;
use houston_domain::focus::{ContextProvider, DETAIL_CHARS, Focus, FocusRef, Tier, brief};
use houston_domain::frame::escape;
use houston_domain::id::AgentableId;
use houston_domain::tool_call::EffectClass;
use houston_store::RunStore;
use houston_tools::untrusted::{inner, marked};
use houston_tools::{Offer, SharedTool};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::config::FocusConfig;
use crate::hook::PromptSection;
use crate::setup::Setup;

/// The most providers that a process asks at once.
const MOST_AT_ONCE: usize = 64;

/// The providers that are being asked.
pub(crate) struct Providers {
    pub(crate) tasks: TaskTracker,
    pub(crate) slots: Arc<Semaphore>,
}

impl Default for Providers {
    fn default() -> Self {
        Self { tasks: TaskTracker::new(), slots: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }
}

/// What a run knows about the thing of its focus.
pub(crate) enum Said {
    /// What the provider answered, and how many seconds ago.
    Answer(String, i64),
    /// The agent has no such tool, or it does more than read.
    NoTool,
    /// Its guards do not let it call the tool now, or the tool has failed.
    Failed,
    /// The tool takes too long.
    Late,
    /// In a preview: a run would ask the tool.
    Unasked,
}

/// The tool of a provider, if these tools have it and it only reads.
pub(crate) fn reader<'o>(offer: &'o Offer, provider: &ContextProvider) -> Option<&'o SharedTool> {
    let tool = offer.get(&provider.tool)?;
    let reads = tool.definition().effect == EffectClass::Read;
    if !reads {
        tracing::warn!(tool = provider.tool, "a context provider must be a tool that only reads");
    }
    reads.then_some(tool)
}

/// The sections about a focus: what is said of it, what its client says, and that it is another than before. `said` is with the
/// provider of its type, if there is one.
pub(crate) fn sections(
    offer: &ClientOffer,
    focus: &Focus,
    said: Option<(&ContextProvider, &Said)>,
) -> Vec<PromptSection> {
    let thing = focus.thing();
    let mut text = format!("The message is about {}.", escape(&thing.to_string()));
    if let Some((provider, said)) = said {
        text += &about(provider, &thing, said);
    }
    if let Some(data) = &focus.data {
        text += &format!("\n{}", marked("what the user's client shows", &escape(&data.to_string())));
    }
    let mut sections = vec![PromptSection { name: "focus".to_owned(), text }];
    sections.extend(offer.shift().map(|(from, to)| shift(&from, &to)));
    sections
}

/// What is said of a thing, below its name.
fn about(provider: &ContextProvider, thing: &FocusRef, said: &Said) -> String {
    let ContextProvider { tool, .. } = provider;
    match said {
        Said::Answer(answer, age_s) => {
            let answer = inner(answer);
            let (text, is_all) = match provider.tier {
                Tier::Brief => brief(answer),
                Tier::Detail => {
                    (answer.chars().take(DETAIL_CHARS).collect(), answer.chars().nth(DETAIL_CHARS).is_none())
                }
            };
            let age = match age_s / 60 {
                0 => String::new(),
                minutes => format!("\n{tool} said this {minutes} min ago:"),
            };
            let rest = if is_all { String::new() } else { how_to_read(provider, thing) };
            format!("{age}\n{}{rest}", marked(&format!("{tool} {}", thing.id), &escape(&text)))
        }
        Said::NoTool => String::new(),
        Said::Unasked => format!("\n{tool} is asked when a run begins.{}", how_to_read(provider, thing)),
        Said::Failed => {
            format!("\n{tool} cannot say more about it now.{}", how_to_read(provider, thing))
        }
        Said::Late => {
            format!(
                "\n{tool} has not answered in time, so nothing more can be said of it yet.{}",
                how_to_read(provider, thing)
            )
        }
    }
}

/// The sections of a preview: they have what is kept, and no provider is asked.
pub(crate) async fn previewed(
    (store, config): (&RunStore, FocusConfig),
    agentable: AgentableId,
    (setup, tools): (&Setup, &Offer),
    offer: &ClientOffer,
) -> Vec<PromptSection> {
    let Some(focus) = &offer.focus else { return Vec::new() };
    let Some(provider) = setup.agent_type.context_providers.get(&focus.kind) else {
        return sections(offer, focus, None);
    };
    let said = match reader(tools, provider) {
        None => Said::NoTool,
        Some(_) => {
            let (cache, fresh) = (store.context_cache(), Duration::from_secs(config.fresh_s));
            let kept = cache.of_agentable(agentable, &focus.thing(), &provider.tool, fresh).await;
            // An error is the same as no answer.
            kept.ok().flatten().map_or(Said::Unasked, |kept| Said::Answer(kept.answer, kept.age_s))
        }
    };
    sections(offer, focus, Some((provider, &said)))
}

fn how_to_read(provider: &ContextProvider, thing: &FocusRef) -> String {
    let ContextProvider { tool, argument, .. } = provider;
    format!("\nMore of it: {tool} with {argument} = {}.", escape(&thing.id))
}

fn shift(from: &FocusRef, to: &FocusRef) -> PromptSection {
    let (from, to) = (escape(&from.to_string()), escape(&to.to_string()));
    let text = format!("What was said last was about {from}; this message is about {to}.");
    PromptSection { name: format!("context_shift from=\"{from}\" to=\"{to}\""), text }
}

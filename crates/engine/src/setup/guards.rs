//! What guards need of a setup, and what they change in it. The guards of agents, tenants, users and agentables are compiled once
//! per text and added to the setups of runs, which lose the tools that these switch off. [`Taint`]: what a session has read; and
//! the situation that guards judge a call in. [`Shown`]: what streams show of an answer whose addresses must lead nowhere.

use std::sync::Arc;

use houston_domain::event::Part;
use houston_domain::frame::FrameMark;
use houston_domain::guard::{
    GuardError, GuardSettings, Layer, LayerKind, Situation, names_host, switched_off,
};
use houston_domain::history::{Block, Entry, Role};
use houston_domain::image::references;
use houston_domain::inert::{self, Inert};
use houston_domain::inner_call::inner_call;
use houston_domain::snippet::SnippetTool;
use houston_domain::{attachment, code_call};
use houston_store::guards::StoredGuards;
use houston_store::run_context::RunContext;
use houston_tools::untrusted::is_marked;
use houston_tools::{Offer, SharedTool};
use tokio::task::spawn_blocking;

use crate::setup::Setup;
use crate::setup::kinds::Setups;

/// Length of the settings of all layers that are kept compiled. The most expensive ones found take 120 times
/// as much memory.
pub(super) const MAX_CACHED_BYTES: usize = 512 * 1024;

impl Setups {
    /// The setup with these layers below its own. Without layers it is the same setup.
    pub(super) async fn with_guards(&self, setup: Arc<Setup>, lower: &[StoredGuards]) -> Arc<Setup> {
        if lower.is_empty() {
            return setup;
        }
        let mut layers = setup.guards.to_vec();
        for stored in lower {
            let Some(layer) = self.layer(stored).await else {
                // Without layers, no tool may be called.
                layers.clear();
                break;
            };
            layers.push(layer);
        }
        Arc::new(without_switched_off(Setup { guards: layers.into(), ..Setup::clone(&setup) }))
    }

    /// The compiled layer. Settings that this version cannot read deny every tool. `None` when the runtime shuts down.
    async fn layer(&self, stored: &StoredGuards) -> Option<Arc<Layer>> {
        if let Some(layer) = self.lower_guards.get(stored, |_| true) {
            return Some(layer);
        }
        // Compiling many patterns takes too long for a thread of the runtime.
        let text = stored.clone();
        let compiled = spawn_blocking(move || compile(&text).or_else(|error| closed(&text, &error))).await;
        let layer = Arc::new(compiled.ok()?.ok()?);
        self.lower_guards.put(stored.clone(), Arc::clone(&layer), stored.settings.len());
        Some(layer)
    }
}

fn compile(stored: &StoredGuards) -> Result<Layer, GuardError> {
    let settings = GuardSettings::from_json(stored.layer, &stored.settings)?;
    Layer::compile(stored.layer, stored.layer.as_str(), &settings)
}

fn closed(stored: &StoredGuards, error: &GuardError) -> Result<Layer, GuardError> {
    tracing::error!(%error, "stored guards cannot be read; a newer Houston may have written them: every tool is denied");
    let name = format!("{} (unreadable)", stored.layer);
    Layer::compile(stored.layer, name, &GuardSettings::closed())
}

/// The guards in the settings of an agent.
pub(crate) fn of_agent(guards: &GuardSettings) -> StoredGuards {
    // Cannot fail: the keys of its tables are texts. If it did, the text could not be read, and denies every tool.
    let settings = serde_json::to_string(guards).unwrap_or_default();
    StoredGuards { layer: LayerKind::Agent, settings }
}

/// The setup without the tools that its guards switch off, and with the least autonomy that they allow.
pub(super) fn without_switched_off(mut setup: Setup) -> Setup {
    let autonomy = setup.guards.iter().filter_map(|layer| layer.autonomy).min();
    setup.agent_type.autonomy =
        autonomy.map_or(setup.agent_type.autonomy, |most| most.min(setup.agent_type.autonomy));
    let facts = |tool: &SharedTool| {
        let name = &tool.definition().name;
        let facts = setup.offer_with_results.facts(name)?;
        switched_off(&setup.guards, name, facts).map(|_| (name.clone(), facts.clone()))
    };
    let off: Vec<_> = setup.offer_with_results.tools().iter().filter_map(facts).collect();
    if off.is_empty() {
        return setup;
    }
    let left = |offer: &Offer| -> Vec<String> {
        let names = offer.tools().iter().map(|tool| &tool.definition().name);
        names.filter(|name| !off.iter().any(|(other, _)| other == *name)).cloned().collect()
    };
    let (few, all) = (left(&setup.offer), left(&setup.offer_with_results));
    setup.offer_all(setup.offer_with_results.limited_to(&all), |offer| offer.limited_to(&few));
    Arc::make_mut(&mut setup.off).extend(off);
    setup
}

/// What the session has read, as far as the rule of two asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taint {
    /// What strangers wrote.
    pub(crate) untrusted: bool,
    /// Private data. Who wrote an address matters only after it was read.
    pub(crate) private: bool,
}

impl Taint {
    /// That of a run that starts from `context`.
    pub(crate) fn at_start(context: &RunContext, setup: &Setup) -> Self {
        let RunContext { notes, learnings, sessions, user, conversations, .. } = context;
        let has_private = !notes.is_empty()
            || !learnings.is_empty()
            || !sessions.is_empty()
            || !user.profile.is_empty()
            || !user.memories.items.is_empty()
            || !conversations.newest.is_empty();
        let untrusted = context.setting.untrusted
            || user.untrusted
            // The model reads their descriptions with its tools.
            || context.snippet_tools.iter().any(|tool| tool.untrusted && is_offered(setup, tool))
            || sessions.iter().any(|session| session.untrusted)
            || conversations.newest.iter().any(|conversation| conversation.untrusted)
            || context.client.as_ref().is_some_and(|client| !client.context.is_empty());
        let mut taint = Self::of(&context.history, setup).with(Self { untrusted, private: has_private });
        // The calls that a summary replaces are not read: they may have been any.
        if context.summary.is_some() {
            taint = taint.with(Marks::of(setup).all);
        }
        taint
    }

    /// That of a session with this history.
    fn of(history: &[Entry], setup: &Setup) -> Self {
        let Marks { marking, all } = Marks::of(setup);
        let mut taint = Self::default();
        for block in history.iter().flat_map(|entry| &entry.content) {
            if taint == all && taint.untrusted {
                break;
            }
            let mut called = |name: &str| {
                if let Some((_, mark)) = marking.iter().find(|(marking, _)| *marking == name) {
                    taint = taint.with(*mark);
                }
            };
            match block {
                Block::ToolUse { name, input, .. } => called(inner_call(name, input).0),
                Block::Text { text, .. } => taint.add_message(text),
                Block::ToolResult { content, .. } => {
                    code_call::called(content).for_each(called);
                    taint.add_result(content);
                }
                _ => {}
            }
        }
        taint
    }

    fn with(self, other: Self) -> Self {
        Self { untrusted: self.untrusted || other.untrusted, private: self.private || other.private }
    }

    /// A result was read. Rows that a session wrote which had read what strangers wrote are marked in it.
    pub(crate) fn add_result(&mut self, result: &str) {
        self.untrusted = self.untrusted || is_marked(result);
    }

    /// A message was read. The report of a task may have what strangers wrote; and so may an image or another
    /// file, even one of the user.
    pub(crate) fn add_message(&mut self, text: &str) {
        self.add_result(text);
        let has_file = references(text).next().is_some() || attachment::references(text).next().is_some();
        self.untrusted = self.untrusted || has_file;
    }

    /// Whether what the user is shown must lead nowhere: private data was read, and what strangers wrote.
    pub(crate) fn must_be_inert(self) -> bool {
        self.untrusted && self.private
    }

    /// A tool was called.
    pub(crate) fn add(&mut self, setup: &Setup, offer: &Offer, tool: &str) {
        let Some(facts) = offer.facts(tool).or_else(|| setup.off.get(tool)) else { return };
        let facts = facts.in_force(&setup.guards, tool);
        self.untrusted |= facts.untrusted_output;
        self.private |= facts.reads_private;
    }
}

fn is_offered(setup: &Setup, tool: &SnippetTool) -> bool {
    setup.offer_with_results.get(&tool.tool_name()).is_some()
}

/// What calls of tools mark a session with.
struct Marks<'s> {
    /// The tools that mark it.
    marking: Vec<(&'s str, Taint)>,
    /// What they all mark together: further calls add nothing to that.
    all: Taint,
}

impl<'s> Marks<'s> {
    fn of(setup: &'s Setup) -> Self {
        let offer = &setup.offer_with_results;
        let (mut marking, mut all) = (Vec::new(), Taint::default());
        let offered = offer.tools().iter().map(|tool| tool.definition().name.as_str());
        // It may have been called before it was switched off.
        for name in offered.chain(setup.off.keys().map(String::as_str)) {
            let mut mark = Taint::default();
            mark.add(setup, offer, name);
            if mark != Taint::default() {
                marking.push((name, mark));
                all = all.with(mark);
            }
        }
        Self { marking, all }
    }
}

/// What the user has written in a session, without the texts of Houston, which are marked. Nothing in a run without a
/// person: its task is the text of an agent.
pub(crate) fn user_texts<'h>(history: &'h [Entry], setup: &Setup, mark: &FrameMark) -> Vec<&'h str> {
    if !is_attended(setup) {
        return Vec::new();
    }
    let entries = history.iter().filter(|entry| entry.role == Role::User);
    let texts = entries.flat_map(|entry| &entry.content).filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.filter(|text| !text.contains(mark.digits())).collect()
}

/// Whether a person takes part in the run.
fn is_attended(setup: &Setup) -> bool {
    setup.policy.conversational && setup.policy.expects_reply
}

/// The situation of a run. `calls`: those of the tool within the last minute.
pub(crate) fn situation<'s>(
    setup: &Setup,
    taint: Taint,
    calls: u32,
    user_texts: &'s [&'s str],
) -> Situation<'s> {
    Situation {
        user_texts,
        calls_last_minute: calls,
        untrusted_read: taint.untrusted,
        private_read: taint.private,
        unattended: !is_attended(setup),
        ..Situation::new(setup.agent_type.autonomy)
    }
}

/// The texts of an answer, piece by piece.
pub(crate) struct Shown {
    reasoning: Inert,
    message: Inert,
    guards: Arc<[Arc<Layer>]>,
}

impl Shown {
    pub(crate) fn new(guards: Arc<[Arc<Layer>]>) -> Self {
        Self { reasoning: Inert::default(), message: Inert::default(), guards }
    }

    /// What can be shown of a part after this piece.
    pub(crate) fn push(&mut self, part: Part, piece: &str) -> String {
        let guards = Arc::clone(&self.guards);
        self.part(part).push(piece, |host| names_host(&guards, host))
    }

    /// The rest of a part, which is over.
    pub(crate) fn finish(&mut self, part: Part) -> String {
        let guards = Arc::clone(&self.guards);
        self.part(part).finish(|host| names_host(&guards, host))
    }

    fn part(&mut self, part: Part) -> &mut Inert {
        match part {
            Part::Reasoning => &mut self.reasoning,
            Part::Message => &mut self.message,
        }
    }
}

/// A whole text as the user is shown it, with a note if something was changed.
pub(crate) fn shown(content: &str, guards: &[Arc<Layer>]) -> String {
    let (text, has_changed) = inert::inert(content, |host| names_host(guards, host));
    noted(text, has_changed)
}

/// The text that streams have shown, with the note if it is not what was written.
pub(crate) fn noted(text: String, has_changed: bool) -> String {
    if has_changed { format!("{}\n\n{}", text.trim_end(), inert::NOTE) } else { text }
}

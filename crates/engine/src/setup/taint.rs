//! [`Taint`]: what a session has read; and the situation that guards judge a call in.

use houston_domain::frame::FrameMark;
use houston_domain::guard::Situation;
use houston_domain::history::{Block, Entry, Role};
use houston_domain::image::references;
use houston_domain::inner_call::inner_call;
use houston_domain::snippet::SnippetTool;
use houston_domain::{attachment, code_call};
use houston_store::run_context::RunContext;
use houston_tools::Offer;
use houston_tools::untrusted::is_marked;

use crate::setup::Setup;

/// What the session has read, as far as the rule of two asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Taint {
    /// What strangers wrote.
    untrusted: bool,
    /// Private data.
    private: bool,
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
            || conversations.newest.iter().any(|conversation| conversation.untrusted);
        let mut taint = Self::of(&context.history, setup).with(Self { untrusted, private: has_private });
        // The calls that a summary replaces are not read: they may have been any.
        if context.summary.is_some() {
            taint = taint.with(marks(setup).1);
        }
        taint
    }

    /// That of a session with this history.
    fn of(history: &[Entry], setup: &Setup) -> Self {
        let (marking, all) = marks(setup);
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

    /// Whether private data was read: only then it matters who wrote an address.
    pub(crate) fn is_private(self) -> bool {
        self.private
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

    /// What strangers wrote was read.
    pub(crate) fn add_untrusted(&mut self) {
        self.untrusted = true;
    }

    /// Whether what strangers wrote was read.
    pub(crate) fn is_untrusted(self) -> bool {
        self.untrusted
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

/// The tools that mark a session, and what they all mark together: further calls add nothing to that.
fn marks(setup: &Setup) -> (Vec<(&str, Taint)>, Taint) {
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
    (marking, all)
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
        attended: is_attended(setup),
        ..Situation::new(setup.agent_type.autonomy)
    }
}

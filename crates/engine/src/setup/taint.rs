//! [`Taint`]: what a session has read; and the situation that guards judge a call in.

use houston_domain::guard::Situation;
use houston_domain::history::{Block, Entry};
use houston_tools::Offer;

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
    /// That of a session with this history.
    pub(crate) fn of(history: &[Entry], setup: &Setup) -> Self {
        let offer = &setup.offer_with_results;
        // The tools that mark a session, and what they all mark together: further calls add nothing to that.
        let (mut marking, mut all) = (Vec::new(), Self::default());
        for definition in offer.definitions() {
            let mut mark = Self::default();
            mark.add(setup, offer, &definition.name);
            if mark != Self::default() {
                marking.push((definition.name.as_str(), mark));
                all = all.with(mark);
            }
        }
        let mut taint = Self::default();
        for block in history.iter().flat_map(|entry| &entry.content) {
            if taint == all {
                break;
            }
            if let Block::ToolUse { name, .. } = block
                && let Some((_, mark)) = marking.iter().find(|(marking, _)| marking == name)
            {
                taint = taint.with(*mark);
            }
        }
        taint
    }

    fn with(self, other: Self) -> Self {
        Self { untrusted: self.untrusted || other.untrusted, private: self.private || other.private }
    }

    /// A tool was called.
    pub(crate) fn add(&mut self, setup: &Setup, offer: &Offer, tool: &str) {
        let Some(facts) = offer.facts(tool) else { return };
        let facts = facts.in_force(&setup.guards, tool);
        self.untrusted |= facts.untrusted_output;
        self.private |= facts.reads_private;
    }
}

/// The situation of a run. `calls`: those of the tool within the last minute.
pub(crate) fn situation(setup: &Setup, taint: Taint, calls: u32) -> Situation<'static> {
    Situation {
        calls_last_minute: calls,
        untrusted_read: taint.untrusted,
        private_read: taint.private,
        attended: setup.policy.conversational && setup.policy.expects_reply,
        ..Situation::new(setup.agent_type.autonomy)
    }
}

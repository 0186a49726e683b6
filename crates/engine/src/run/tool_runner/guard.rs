//! What the guards say of a call.

use houston_domain::agent::SEND_MESSAGE;
use houston_domain::guard::{
    Call, CompiledGrant, DecidedBy, Decision, Intent, Risk, Situation, Verdict, clamp, decide,
};
use houston_domain::history::Entry;
use houston_domain::overseer::REFUSED;
use houston_domain::tool_call::{ToolCall, ToolResponse};
use houston_faults::mutation::{self, Mutation};
use tokio::time::Instant;

use super::ToolRunner;
use crate::rates::REACH_OUTSIDE;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::guards::{situation, user_texts};

/// What the guards say of a call.
pub(super) enum Judgement {
    /// It is carried out.
    Allow,
    /// A person must allow it.
    Hold {
        /// Why.
        why: String,
        /// Whether a lasting yes answers the question.
        lasting: bool,
    },
    /// It is not carried out.
    Refuse(ToolResponse),
}

/// A call that was judged.
pub(super) struct Judged {
    /// The call, with arguments that keep to the limits of its tool.
    pub(super) call: ToolCall,
    pub(super) judgement: Judgement,
    /// What decided; `None`: there is no such tool, so nothing was judged.
    pub(super) by: Option<DecidedBy>,
    /// What the model reads before the result, because arguments were lowered.
    pub(super) note: Option<String>,
}

/// What the model said its calls are for, by their ids.
pub(crate) struct Intents(Vec<(String, Intent)>);

impl Intents {
    /// `said`: the text beside the calls.
    pub(super) fn of(said: &str, calls: &[ToolCall]) -> Self {
        let said = Intent::parse(said);
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        let of_calls = calls.iter().zip(Intent::assign(&said, &names));
        Self(of_calls.filter_map(|(call, intent)| Some((call.id.clone(), intent?.clone()))).collect())
    }

    pub(super) fn of_call(&self, call: &str) -> Option<&Intent> {
        self.0.iter().find(|(of, _)| of == call).map(|(_, intent)| intent)
    }
}

impl ToolRunner {
    /// A call with arguments that keep to the limits of its tool, and what the model reads of those that were lowered.
    pub(super) fn limited(&self, call: ToolCall) -> (ToolCall, Option<String>) {
        let facts =
            self.offer().facts(&call.name).map(|facts| facts.in_force(&self.setup.guards, &call.name));
        let Some(facts) = facts else { return (call, None) };
        // Those of the guards count, if both limit an argument.
        let mut limits = self.offer().count_limits(&call.name);
        limits.extend(facts.limits.iter().map(|(at, most)| (at.clone(), most.clone())));
        if limits.is_empty() {
            return (call, None);
        }
        let (input, lowered) = clamp(&limits, call.input);
        (ToolCall { input, ..call }, (!lowered.is_empty()).then(|| lowered.join(" ")))
    }

    /// Judges a call. The reply to the user always passes. A call of a tool that does not exist, or without readable
    /// arguments, is left to be answered.
    pub(super) fn judge<S: RunStorage>(
        &self,
        journal: &Journal<'_, S>,
        call: &ToolCall,
        intent: Option<&Intent>,
        history: &[Entry],
        grants: &[CompiledGrant],
    ) -> Judged {
        // A tool that is switched off is not offered, and a call of it is refused with the reason.
        let facts = self.offer().facts(&call.name).or_else(|| self.setup.off.get(&call.name));
        let Some(facts) = facts.filter(|_| call.malformed.is_none() && call.name != SEND_MESSAGE) else {
            return Judged { call: call.clone(), judgement: Judgement::Allow, by: None, note: None };
        };
        let layers = &self.setup.guards;
        let in_force = facts.in_force(layers, &call.name);
        let (call, note) = self.limited(call.clone());
        let (rates, user, now) = (&journal.services.rates, journal.owner.user, Instant::now());
        let is_counted = in_force.rate_per_min.is_some();
        let calls = if is_counted { rates.count(user, &call.name, now) } else { 0 };
        let may_carry = self.taint.private && in_force.sends_out && !in_force.host_at.is_empty();
        let user_texts = if may_carry { user_texts(history, &self.setup, &journal.mark) } else { Vec::new() };
        let situation =
            Situation { intent, grants, ..situation(&self.setup, self.taint, calls, &user_texts) };
        let pin = self.offer().get(&call.name).and_then(|tool| tool.pin());
        let judged =
            Call { tool: &call.name, facts: Some(facts), input: &call.input, pin, pin_changed: false };
        let Verdict { decision, by } = decide(layers, &judged, &situation);
        let judgement = match decision {
            Decision::Allow => {
                if is_counted {
                    rates.add(user, &call.name, now);
                }
                let reaches_outside = in_force.sends_out || in_force.risk == Risk::External;
                if reaches_outside && !journal.services.config.overseer.external_calls.is_off() {
                    rates.add(user, REACH_OUTSIDE, now);
                }
                Judgement::Allow
            }
            Decision::Ask { .. } if mutation::is(Mutation::Approval) => Judgement::Allow,
            Decision::Ask { why, lasting, .. } => Judgement::Hold { why, lasting },
            Decision::Deny { code, why } => {
                Judgement::Refuse(ToolResponse::failure(code, format!("{REFUSED}{why}")))
            }
        };
        Judged { call, judgement, by: Some(by), note }
    }
}

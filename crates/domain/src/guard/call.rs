//! A call that guards decide about, and the situation it is made in.

use serde_json::Value;

use super::{CompiledGrant, Intent, ToolFacts};
use crate::autonomy::Autonomy;

/// A call that guards decide about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// The name of the tool. For a call that a tool makes on behalf of the model, the inner one.
    pub tool: &'c str,
    /// The facts of its definition; `None` when there is no such tool.
    pub facts: Option<&'c ToolFacts>,
    /// The arguments, after [`super::clamp`].
    pub input: &'c Value,
    /// The pin of its definition, if it has one.
    pub pin: Option<&'c str>,
    /// Whether its definition is another one than the one that was approved.
    pub pin_changed: bool,
}

/// The situation a call is made in.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'s> {
    /// How far the agent goes without asking.
    pub autonomy: Autonomy,
    /// Calls of the same tool by the same user in the last 60 seconds.
    pub calls_last_minute: u32,
    /// Whether the session has read what strangers wrote.
    pub untrusted_read: bool,
    /// Whether the session has read private data.
    pub private_read: bool,
    /// What the user has written in the session. Empty where no person takes part.
    pub user_texts: &'s [&'s str],
    /// What the model said the call is for.
    pub intent: Option<&'s Intent>,
    /// The lasting yes of people that are in force.
    pub grants: &'s [CompiledGrant],
    /// Whether a person takes part in the run. Not in tasks, feeds and check-ins.
    pub attended: bool,
}

impl Situation<'_> {
    /// A run with a person, in which nothing has happened.
    #[must_use]
    pub fn new(autonomy: Autonomy) -> Self {
        Self {
            autonomy,
            calls_last_minute: 0,
            untrusted_read: false,
            private_read: false,
            user_texts: &[],
            intent: None,
            grants: &[],
            attended: true,
        }
    }
}

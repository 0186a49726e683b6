//! Guards: what an agent may do with a tool, decided by one pure function.
//!
//! # Layers
//! The installation's settings (`jobs/guards.toml`) are the ceiling. Below it are those of the agent type, the agent,
//! the tenant, the user and the agentable, all of the same shape ([`GuardSettings`]). [`Layer::compile`] compiles each
//! once.
//!
//! # Decisions
//! [`decide`] takes the steps of [`Step`] in order. A step that denies ends the decision; of the rest, a question
//! prevails over a permission. [`explain`] returns all steps as well.
//!
//! # Invariants
//! - Adding a layer below the others never makes a verdict less strict. A layer's `allow` lifts only the question of its
//!   own profile; that of the highest layer also lifts the question of the agent's autonomy.
//! - Neither an intent nor a lower layer can lower a risk.
//! - No lasting yes ([`Grant`]) answers a question about something sensitive, destructive, or sent out after strangers'
//!   texts and private data were read.
//! - The agent's reply to its user always passes.
//!
//! # Deliberately absent
//! Asking, waiting and counting: the caller passes what it counted ([`Situation`]), and asks if the verdict says so.
//! Files and names are not looked up: a tool checks again what it opened or connected to.

mod argument;
mod checks;
mod decide;
mod facts;
mod grant;
mod intent;
mod layer;
mod outlook;
mod pattern;
mod settings;
#[cfg(test)]
mod tests;

pub use argument::clamp;
pub(crate) use argument::is_invisible;
pub use checks::names_host;
pub use decide::{
    Call, DecidedBy, Decision, Explanation, Outcome, Situation, Step, StepTaken, Verdict, decide, explain,
};
pub use facts::{Category, Level, ToolFacts};
pub use grant::{CompiledGrant, GivenGrant, Grant, GrantScope, Granted};
pub use intent::{INTENT_ARGUMENT, Intent, MAX_INTENTS, MAX_WHY_CHARS};
pub use layer::{Layer, LayerKind, MAX_CONDITIONS, MAX_RULES};
pub use outlook::{is_listed, is_open, limits_addresses, outlook, switched_off};
pub use pattern::{MAX_PATTERN_CHARS, MAX_PATTERNS};
pub use settings::{
    GuardError, GuardSettings, Intents, MAX_STORED_BYTES, Profile, ProfileName, ProfileTable, Risk,
    RuleSettings, Ruling, ToolSettings, Unattended,
};

/// A path as [`decide`] compares it with the allowed ones; `None` when it leads out of the workspace.
#[cfg(test)]
pub(crate) fn judged_path(raw: &str) -> Option<String> {
    argument::ArgumentPath::new(raw).within
}

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

mod addresses;
mod argument;
mod call;
mod category;
mod checks;
mod clamp;
mod decide;
mod error;
mod facts;
mod given;
mod grant;
mod host;
mod intent;
mod layer;
mod level;
mod open;
mod outlook;
mod path;
mod pattern;
mod profile;
mod risk;
mod rule;
mod ruling;
mod settings;
mod step;
mod switches;
#[cfg(test)]
mod tests;
mod trace;
mod verdict;

pub use addresses::limits_addresses;
pub use call::{Call, Situation};
pub use category::Category;
pub use checks::names_host;
pub use clamp::clamp;
pub use decide::{decide, explain};
pub use error::{GuardError, Problem, Spot};
pub use facts::ToolFacts;
pub use grant::{CompiledGrant, Grant, GrantScope, Granted};
pub use intent::{INTENT_ARGUMENT, Intent, MAX_INTENTS, MAX_WHY_CHARS};
pub use layer::{Layer, LayerKind, MAX_CONDITIONS, MAX_RULES};
pub use level::Level;
pub use open::{is_listed, is_open};
pub use outlook::outlook;
pub(crate) use path::is_invisible;
pub use pattern::{MAX_PATTERN_CHARS, MAX_PATTERNS};
pub use profile::{Profile, ProfileName, ProfileTable};
pub use risk::Risk;
pub use ruling::Ruling;
pub use settings::{GuardSettings, Intents, MAX_STORED_BYTES, RuleSettings, ToolSettings, Unattended};
pub use step::Step;
pub use switches::switched_off;
pub use verdict::{DecidedBy, Decision, Explanation, Outcome, StepTaken, Verdict};

/// A path as [`decide`] compares it with the allowed ones; `None` when it leads out of the workspace.
#[cfg(test)]
pub(crate) fn judged_path(raw: &str) -> Option<String> {
    path::ArgumentPath::new(raw).within
}

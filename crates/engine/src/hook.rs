//! [`RunHook`]: changes what a run starts with, before its first model call.
//!
//! # Invariants
//! - Hooks are called in the order in which they were added, once per attempt: a run that is taken over, retried or woken calls
//!   them again. They must be pure, so that every attempt starts with the same setup.
//! - A hook cannot widen what a run may do: guards judge the calls of tools that it adds, and a task keeps the limits of its
//!   creator.
//! - A process without hooks does nothing for them.

use std::sync::Arc;

use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_llm::Model;

/// Changes the setup of a run. A function `Fn(&mut RunSetup)` is one.
///
/// ```
/// use houston_engine::hook::{RunHook, RunSetup};
///
/// /// The agent reads files and writes none.
/// fn read_only(setup: &mut RunSetup) {
///     setup.tools.retain(|tool| tool != "write_file");
///     setup.add_section("mode", "You may read files, but not change them.");
/// }
///
/// fn takes_hook(_: impl RunHook) {}
/// takes_hook(read_only);
/// ```
pub trait RunHook: Send + Sync {
    /// Changes `setup`. Pure: what it changes depends on nothing but the setup.
    fn before_run(&self, setup: &mut RunSetup);
}

impl<F: Fn(&mut RunSetup) + Send + Sync> RunHook for F {
    fn before_run(&self, setup: &mut RunSetup) {
        self(setup);
    }
}

/// The run that is about to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunInfo {
    /// The tenant.
    pub tenant: TenantId,
    /// The user the agent works for.
    pub user: UserId,
    /// The agentable.
    pub agentable: AgentableId,
    /// The kind of the agentable.
    pub kind: String,
    /// The run.
    pub run: RunId,
    /// The number of this attempt, from 1.
    pub attempt: i32,
}

/// What a run starts with, as far as hooks may change it.
#[non_exhaustive]
#[derive(Clone)]
pub struct RunSetup {
    /// The run.
    pub run: RunInfo,
    /// The model that it calls.
    pub model: Arc<dyn Model>,
    /// The names of the tools that it may call. Names of tools that the process does not have are ignored.
    pub tools: Vec<String>,
    /// Who the agent is, and what for.
    pub role: String,
    /// How it works.
    pub guidelines: String,
    /// Further sections of the prompt. They are sent after the history, so that they may differ from run to run without
    /// costing the provider's cache.
    pub sections: Vec<PromptSection>,
}

/// A section that a hook adds to the prompt: `<name>text</name>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptSection {
    /// The name of its element: letters, digits and `_`.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl RunSetup {
    /// Adds a section to the prompt.
    pub fn add_section(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.sections.push(PromptSection { name: name.into(), text: text.into() });
    }
}

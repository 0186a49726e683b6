//! Agent types: the settings of a kind of agentable, read from `jobs/agents/<kind>.toml`. Code asks for a property
//! of the type (`conversational`), never for its name.
//!
//! # Status
//! Only decisions are stored (`archived`, a task that was closed). Whether an agentable is at work follows from its
//! run, and is computed each time by [`AgentType::status`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::agent::Reply;
use crate::agent::limits::LimitChanges;
use crate::agent::token_budget::TokenBudgetChanges;
use crate::answering::{Output, Sampling};
use crate::autonomy::Autonomy;
use crate::focus::ContextProviders;
use crate::guard::GuardSettings;
use crate::id::{AgentableId, PREFIXES};
use crate::mode::Mode;
use crate::model_policy::ModelPolicy;
use crate::names::is_plain_name;
use crate::run::RunStatus;
use crate::setting::is_default;
use crate::shared_state::SharedState;

/// Priority of the runs of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// A user is waiting.
    #[default]
    Interactive,
    /// Nothing waits for the result.
    Background,
}

names! {
    /// A queue of work with a priority: it is taken from a lane only when those above it are empty.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Lane {
        /// A user is waiting.
        Interactive = "interactive",
        /// No user is waiting: tasks, check-ins, feeds.
        Background = "background",
        /// Houston's own work: summaries, titles.
        Maintenance = "maintenance",
    }
}

impl From<Urgency> for Lane {
    fn from(urgency: Urgency) -> Self {
        match urgency {
            Urgency::Interactive => Self::Interactive,
            Urgency::Background => Self::Background,
        }
    }
}

/// The name of the driver of plans.
pub const PLAN_DRIVER: &str = "plan";

/// One kind of agentable: the contents of `jobs/agents/<kind>.toml`.
///
/// ```toml
/// kind = "goal"
/// conversational = true
/// archives = true
/// reply = "send_message"
/// statuses = ["waiting", "working", "archived"]
/// tools = ["send_message", "create_note"]
///
/// [prompt]
/// role = "You help your user reach one goal."
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentType {
    /// The name of the kind: the stem of its file and the prefix of its ids.
    pub kind: String,
    /// Whether it talks with a user: it stops after `send_message`, and every message of the user gets an
    /// answer.
    pub conversational: bool,
    /// Whether one is created together with each user, and in no other way.
    #[serde(default)]
    pub made_with_user: bool,
    /// Whether sessions are closed after a pause and replaced by summaries.
    pub archives: bool,
    /// Which text the user reads.
    pub reply: Reply,
    /// Its statuses; the first is that of a new agentable. Empty: it has no status.
    #[serde(default)]
    pub statuses: Vec<String>,
    /// Priority of its runs.
    #[serde(default)]
    pub urgency: Urgency,
    /// What a message does to an open run, unless the request says otherwise.
    #[serde(default)]
    pub double_texting: DoubleTexting,
    /// How much the agent does without asking.
    #[serde(default)]
    pub autonomy: Autonomy,
    /// The names of the tools it may call.
    pub tools: Vec<String>,
    /// Whether code that it runs may call its other tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub code_mode: bool,
    /// Sets of tools (`jobs/packs.toml`); loading adds them to `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packs: Vec<String>,
    /// The tools whose definitions a model is sent even if it must search for the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub direct: Vec<String>,
    /// Overrides `context.direct_tokens` in `orchestrator.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_tokens: Option<u64>,
    /// The kinds of task it may create with `create_task`; the first is the usual one.
    #[serde(default)]
    pub creates: Vec<String>,
    /// Whether its agents decide when they plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub plans: Planning,
    /// The kinds whose conversations with the same user it may list, read and post to; its prompt lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<String>,
    /// What may start its runs besides messages.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// The use case whose model it uses.
    #[serde(default = "AgentType::default_use_case")]
    pub use_case: String,
    /// Whether an agentable without a title gets one, once its user has written enough.
    #[serde(default)]
    pub titles: bool,
    /// Overrides of `[limits]` in `orchestrator.toml`.
    #[serde(default)]
    pub limits: LimitChanges,
    /// How its model chooses its words.
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
    /// The form of its answers; `None`: text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// Overrides of `[context.budget_tokens]` in `orchestrator.toml`.
    #[serde(default)]
    pub budget_tokens: TokenBudgetChanges,
    /// How its model is called.
    #[serde(default, skip_serializing_if = "ModelPolicy::is_unset")]
    pub model_policy: ModelPolicy,
    /// Tool calls of one run; `None`: no limit. Further ones are not executed, and the run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// Tokens of one request to a model, as Houston estimates them; `None`: no limit but that of the model. A larger request
    /// is not sent, and the run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_tokens: Option<u64>,
    /// What its agents may do with their tools, below what `jobs/guards.toml` allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guards: Option<Box<GuardSettings>>,
    /// What says more about the focus of a message, by type.
    #[serde(default, skip_serializing_if = "ContextProviders::is_empty")]
    pub context_providers: ContextProviders,
    /// The name of the driver that decides what its runs do; `None`: the model does.
    #[serde(default)]
    pub driver: Option<String>,
    /// The document that its agents and front ends share; `None`: there is none, and it costs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<SharedState>>,
    /// The texts of its system prompt.
    pub prompt: Prompt,
}

impl AgentType {
    fn default_use_case() -> String {
        "agent".to_owned()
    }

    /// Whether users may create one. Agents create the others.
    pub fn user_creatable(&self) -> bool {
        self.conversational && !self.made_with_user
    }

    /// Whether its agentables are plans: the graph of their steps decides what their runs do.
    pub fn is_plan(&self) -> bool {
        self.driver.as_deref() == Some(PLAN_DRIVER)
    }

    /// The status of a new agentable of this kind.
    pub fn initial_status(&self) -> Option<&str> {
        self.statuses.first().map(String::as_str)
    }

    /// The status of an agentable of this kind with the stored status `stored`, whose open or latest run has the status
    /// `run`; `None` if the kind has no statuses. Each cell lists the name that is used if the kind has it:
    ///
    /// | its run | a goal | a task |
    /// |---|---|---|
    /// | none yet | the first: `waiting` | the first: `active` |
    /// | is open | `working` | `active` |
    /// | waits for its next attempt | `working` | `paused`, because it has no user who waits |
    /// | ended | `waiting` | `completed` |
    /// | was ended by a stop rule | `waiting` | `stopped` |
    /// | failed permanently | `waiting` | `failed` |
    /// | was cancelled | `waiting` | `cancelled` |
    ///
    /// A stored status other than the first was decided by a person or an agent. If no run can lead to it
    /// (`archived`), it applies whatever the run does; otherwise (`completed` for a stale task) it applies until a
    /// run is open again.
    pub fn status(&self, stored: Option<&str>, run: Option<RunStatus>) -> Option<String> {
        let named = |names: &[&'static str]| {
            names.iter().copied().find(|name| self.statuses.iter().any(|status| status == name))
        };
        let at_work = named(&["working", "active"]);
        let derived = match run {
            None => None,
            Some(RunStatus::Retrying) if !self.conversational => named(&["paused"]).or(at_work),
            Some(run) if !run.is_terminal() => at_work,
            Some(RunStatus::Completed | RunStatus::MessageSent) => named(&["waiting", "completed"]),
            Some(run) if run.answers() => named(&["waiting", "stopped", "completed"]),
            Some(RunStatus::Cancelled) => named(&["waiting", "cancelled"]),
            Some(_) => named(&["waiting", "failed", "cancelled"]),
        };
        let initial = self.initial_status()?;
        let decided = stored.filter(|stored| *stored != initial);
        let is_open = run.is_some_and(|run| !run.is_terminal());
        let status = match decided {
            Some(decided) if !is_open || !DERIVED.contains(&decided) => decided,
            _ => derived.unwrap_or(initial),
        };
        Some(status.to_owned())
    }

    /// All pairs of a stored status and a run status for which [`AgentType::status`] returns `wanted`. A run status of
    /// `None` means that there was no run yet.
    pub fn pairs_with_status(&self, wanted: &str) -> Vec<(Option<&str>, Option<RunStatus>)> {
        let stored = self.statuses.iter().map(|status| Some(status.as_str())).chain([None]);
        let runs = || RunStatus::ALL.into_iter().map(Some).chain([None]);
        stored
            .flat_map(|stored| runs().map(move |run| (stored, run)))
            .filter(|(stored, run)| self.status(*stored, *run).as_deref() == Some(wanted))
            .collect()
    }
}

/// The statuses that follow from runs.
const DERIVED: [&str; 8] =
    ["waiting", "working", "active", "paused", "completed", "stopped", "failed", "cancelled"];

/// Maximum length of an agentable's title, in characters.
pub const MAX_TITLE_CHARS: usize = 200;

/// Maximum length of an agentable's description, in bytes: it is part of each of its prompts.
pub const MAX_DESCRIPTION_BYTES: usize = 32 * 1024;

/// Maximum length of a kind's name, in characters.
const MAX_KIND_CHARS: usize = 40;

/// Singular forms of API paths that are not prefixes of ids.
const PATHS: [&str; 7] = ["custom_instruction", "error", "kind", "memorie", "message", "model", "queue"];

/// Checks that a kind may have this name: it fits into an id, a path and the name of an XML element, and is neither the prefix of
/// other ids nor a path of the API.
pub fn check_kind(kind: &str) -> Result<(), String> {
    ensure!(
        is_plain_name(kind, b"_", MAX_KIND_CHARS),
        "`{kind:.80}` cannot be a kind: the name of a kind begins with a letter from a to z, followed by letters, digits and \
         underscores, and has at most {MAX_KIND_CHARS} characters"
    );
    let taken = || PREFIXES.iter().copied().chain(PATHS);
    if taken().any(|name| name == kind) {
        let taken = taken().collect::<Vec<_>>().join(", ");
        return Err(format!("`{kind}` cannot be a kind: these names are reserved: {taken}"));
    }
    Ok(())
}

/// The texts of an agent type's system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// Who the agent is, and what for.
    pub role: String,
    /// How it works.
    #[serde(default)]
    pub guidelines: String,
    /// Where it works: folders it may use, and what they contain.
    #[serde(default)]
    pub workspace: String,
    /// Whether the prompt describes the user: profile, custom instructions, memories.
    #[serde(default = "Prompt::default_about_user")]
    pub about_user: bool,
}

impl Prompt {
    fn default_about_user() -> bool {
        true
    }
}

names! {
    /// What a message does to a run that is open when the message arrives: double texting.
    #[derive(Default)]
    pub enum DoubleTexting {
        /// The run reads it at its next step.
        #[default]
        Enqueue = "enqueue",
        /// The run is cancelled, and the message starts the next one. What the run did remains.
        Interrupt = "interrupt",
        /// The message is refused, and nothing is stored.
        Reject = "reject",
        /// Like `Interrupt`, and the run is removed from the history. External effects of its tools remain.
        Rollback = "rollback",
    }
}

impl DoubleTexting {
    /// Whether it cancels the open run.
    pub fn cancels(self) -> bool {
        matches!(self, Self::Interrupt | Self::Rollback)
    }
}

/// When an agent that may make plans makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Planning {
    /// When it wants to.
    #[default]
    Offer,
    /// For each message: a run begins with a plan.
    Force,
}

/// The prompt cache key that providers get with each request of an agentable: 32 hex digits, the same for all its
/// requests, and meaningless outside Houston.
pub fn cache_key(agentable: AgentableId) -> String {
    let mut hash = Sha256::new();
    hash.update(b"houston.cache");
    hash.update(agentable.0.as_bytes());
    hex::encode(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> AgentType {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn pairs_with_status_inverts_status() {
        let task: AgentType = toml::from_str(include_str!("../../../jobs/agents/task.toml")).unwrap();
        let all: usize = task.statuses.iter().map(|status| task.pairs_with_status(status).len()).sum();
        let pairs = (task.statuses.len() + 1) * (RunStatus::ALL.len() + 1);
        assert_eq!(all, pairs, "each pair has exactly one status");
        assert!(task.pairs_with_status("paused").contains(&(None, Some(RunStatus::Retrying))));
        assert!(!task.pairs_with_status("active").contains(&(None, Some(RunStatus::Retrying))));
        assert_eq!(task.pairs_with_status("archived"), []);
    }

    #[test]
    fn status_follows_from_the_run_unless_it_was_decided() {
        use RunStatus::*;
        let goal = kind(include_str!("../../../jobs/agents/goal.toml"));
        let task = kind(include_str!("../../../jobs/agents/task.toml"));
        let user_agent = kind(include_str!("../../../jobs/agents/user_agent.toml"));
        for (stored, run, of_goal, of_task) in [
            (None, None, "waiting", "active"),
            (None, Some(Queued), "working", "active"),
            (None, Some(Running), "working", "active"),
            (None, Some(Retrying), "working", "paused"),
            (None, Some(Completed), "waiting", "completed"),
            (None, Some(MessageSent), "waiting", "completed"),
            (None, Some(MaxIterations), "waiting", "stopped"),
            (None, Some(Cancelled), "waiting", "cancelled"),
            (None, Some(Failed), "waiting", "failed"),
            (None, Some(DeadLettered), "waiting", "failed"),
            (Some("archived"), None, "archived", "archived"),
            (Some("archived"), Some(Running), "archived", "archived"),
            (Some("completed"), Some(Cancelled), "completed", "completed"),
            (Some("completed"), Some(Running), "working", "active"),
            (Some("completed"), Some(Retrying), "working", "paused"),
        ] {
            assert_eq!(goal.status(stored, run).as_deref(), Some(of_goal), "goal {stored:?} {run:?}");
            assert_eq!(task.status(stored, run).as_deref(), Some(of_task), "task {stored:?} {run:?}");
            assert_eq!(user_agent.status(stored, run), None);
        }
        // The first status is stored on creation; it is not a decision.
        assert_eq!(goal.status(Some("waiting"), Some(Running)).as_deref(), Some("working"));
        assert_eq!(task.status(Some("active"), Some(Retrying)).as_deref(), Some("paused"));
        // A project is conversational: only its user sets `paused`.
        let project =
            AgentType { statuses: ["active", "paused", "archived"].map(String::from).to_vec(), ..goal };
        assert_eq!(project.status(None, Some(Retrying)).as_deref(), Some("active"));
        assert_eq!(project.status(Some("paused"), Some(MessageSent)).as_deref(), Some("paused"));
    }

    #[test]
    fn kinds_fit_into_ids_and_paths_and_are_not_reserved() {
        for good in ["project", "user_agent", "p2"] {
            check_kind(good).unwrap();
        }
        for bad in ["", "Project", "2p", "_p", "my-project", "a b", "ä", &"p".repeat(41), "run", "kind"] {
            let error = check_kind(bad).unwrap_err().to_string();
            assert!(error.contains(&format!("`{bad}` cannot be a kind")), "{error}");
        }
        let error = check_kind("note").unwrap_err().to_string();
        assert!(error.contains("learning"), "it lists all reserved names: {error}");
    }

    #[test]
    fn unknown_keys_are_named_with_the_allowed_ones() {
        let error = toml::from_str::<AgentType>("kind = 'x'\nconversationl = true").unwrap_err().to_string();
        assert!(error.contains("conversationl`") && error.contains("conversational`"), "{error}");
    }

    #[test]
    fn double_texting_has_one_name_and_errors_list_all_four() {
        use DoubleTexting::{Enqueue, Interrupt, Reject, Rollback};
        for policy in [Enqueue, Interrupt, Reject, Rollback] {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        let error = serde_json::from_str::<DoubleTexting>("\"merge\"").unwrap_err().to_string();
        assert!(error.contains("`enqueue`, `interrupt`, `reject`, `rollback`"), "{error}");
    }
}

//! Agent types: what a kind of agentable is, read from `jobs/agents/<kind>.toml`. Code asks the type a question
//! (`conversational`), never for its name.
//!
//! # How an agentable stands
//! Only what somebody decided is stored (`archived`, a task that was closed); whether one is at work follows from its
//! run each time it is asked, in [`AgentType::status`], and is stored nowhere twice.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::agent::limits::LimitChanges;
use crate::agent::token_budget::TokenBudgetChanges;
use crate::autonomy::Autonomy;
use crate::id::AgentableId;
use crate::id::PREFIXES;
use crate::mode::Mode;
use crate::run::RunStatus;

/// What the user of an agentable reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// What the model passes to `send_message`; other text is thinking.
    SendMessage,
    /// The model's text.
    Text,
}

/// How urgent the runs of a kind are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Somebody waits.
    #[default]
    Interactive,
    /// Nobody does.
    Background,
}

/// What a message does to a run that is open when it comes: double texting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoubleTexting {
    /// The run reads it at its next step.
    #[default]
    Enqueue,
    /// The run is cancelled, and the message opens the next one. What the run did stays.
    Interrupt,
    /// It is refused, and nothing is stored.
    Reject,
    /// As `Interrupt`, and the model forgets the run. What its tools did to the world stays done.
    Rollback,
}

impl DoubleTexting {
    /// The name in the database and in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Interrupt => "interrupt",
            Self::Reject => "reject",
            Self::Rollback => "rollback",
        }
    }

    /// Whether it cancels the run that is open.
    #[must_use]
    pub fn cancels(self) -> bool {
        matches!(self, Self::Interrupt | Self::Rollback)
    }
}

/// What tells a provider that requests share a beginning: the same for all of an agentable's, and no id that means
/// anything outside. 32 hex digits.
#[must_use]
pub fn cache_key(agentable: AgentableId) -> String {
    let mut hash = Sha256::new();
    hash.update(b"houston.cache");
    hash.update(agentable.0.as_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// One kind of agentable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentType {
    /// The kind's name: the stem of its file and the prefix of its ids.
    pub kind: String,
    /// Whether it talks with a person: it stops after `send_message`, and nobody is left without an answer.
    pub conversational: bool,
    /// Whether one of it is made with each user, and none in any other way.
    #[serde(default)]
    pub made_with_user: bool,
    /// Whether quiet sessions are folded into summaries.
    pub archives: bool,
    /// What the user reads.
    pub reply: Reply,
    /// The statuses it may have, the first being that of a new one; empty: it has none.
    #[serde(default)]
    pub statuses: Vec<String>,
    /// How urgent its runs are.
    #[serde(default)]
    pub urgency: Urgency,
    /// What a message does to a run that is open, unless its request says otherwise.
    #[serde(default)]
    pub double_texting: DoubleTexting,
    /// How far it goes without asking.
    #[serde(default)]
    pub autonomy: Autonomy,
    /// The tools it may call.
    pub tools: Vec<String>,
    /// The kinds it may create tasks of, by the tool `create_task`; the first when a call names none.
    #[serde(default)]
    pub creates: Vec<String>,
    /// What else than messages its runs may begin with.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Which model it asks for, by use case.
    #[serde(default = "AgentType::default_use_case")]
    pub use_case: String,
    /// Whether one that was made without a title gets one, once its user has said enough.
    #[serde(default)]
    pub titles: bool,
    /// What it changes in the limits of `orchestrator.toml`.
    #[serde(default)]
    pub limits: LimitChanges,
    /// What it changes in `context.budget_tokens` there.
    #[serde(default)]
    pub budget_tokens: TokenBudgetChanges,
    /// The texts of its system prompt.
    pub prompt: Prompt,
}

impl AgentType {
    fn default_use_case() -> String {
        "agent".to_owned()
    }

    /// Whether people begin one: they talk with it, and it is not made with them. Others are begun by agents.
    #[must_use]
    pub fn begun_by_people(&self) -> bool {
        self.conversational && !self.made_with_user
    }

    /// The status of a new agentable of this kind.
    #[must_use]
    pub fn initial_status(&self) -> Option<&str> {
        self.statuses.first().map(String::as_str)
    }

    /// How an agentable of this kind stands whose stored status is `stored` and whose open or latest run is at
    /// `run`; `None` for a kind that has no statuses. Of the names below, those the kind has are used:
    ///
    /// | its run | a goal | a task |
    /// |---|---|---|
    /// | none yet | the first: `waiting` | the first: `active` |
    /// | is open | `working` | `active` |
    /// | waits for its next attempt | `working` | `paused`, as nobody talks with it |
    /// | ended | `waiting` | `completed` |
    /// | was ended by a stop rule | `waiting` | `stopped` |
    /// | failed for good | `waiting` | `failed` |
    /// | was cancelled | `waiting` | `cancelled` |
    ///
    /// A stored status other than the first was decided by somebody. One that no run could lead to (`archived`)
    /// holds whatever the run does; one that could (`completed` for a task gone stale) until a run is open again.
    #[must_use]
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

    /// The pairs of a stored status and that of the latest run which [`AgentType::status`] shows as `wanted`; a run of
    /// `None`: there was none yet.
    #[must_use]
    pub fn shown_as(&self, wanted: &str) -> Vec<(Option<&str>, Option<RunStatus>)> {
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

/// Why a kind cannot be called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKind {
    /// It does not fit into an id, a path and the name of an XML element.
    #[error(
        "`{0}` cannot be a kind: a kind begins with a letter from a to z, has letters, digits and underscores \
         after it, and {MAX_KIND_CHARS} characters at most"
    )]
    Characters(String),
    /// Ids or paths of something else begin so.
    #[error("`{kind}` cannot be a kind: these names are taken: {taken}")]
    Taken {
        /// The name.
        kind: String,
        /// All that are taken.
        taken: String,
    },
}

/// Characters of an agentable's title: one line.
pub const MAX_TITLE_CHARS: usize = 200;
/// Bytes of an agentable's description: it stands in each of its prompts.
pub const MAX_DESCRIPTION_BYTES: usize = 32 * 1024;

/// Characters of a kind's name.
const MAX_KIND_CHARS: usize = 40;
/// Paths of the API that begin with something else than the prefix of an id, without the s at their end.
const PATHS: [&str; 3] = ["custom_instruction", "memorie", "message"];

/// Whether a kind may be called so.
///
/// # Errors
/// [`InvalidKind`].
pub fn check_kind(kind: &str) -> Result<(), InvalidKind> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if kind.len() > MAX_KIND_CHARS
        || !kind.starts_with(|c: char| c.is_ascii_lowercase())
        || !kind.chars().all(plain)
    {
        return Err(InvalidKind::Characters(kind.chars().take(80).collect()));
    }
    let taken = || PREFIXES.iter().copied().chain(PATHS);
    if taken().any(|name| name == kind) {
        let taken = taken().collect::<Vec<_>>().join(", ");
        return Err(InvalidKind::Taken { kind: kind.to_owned(), taken });
    }
    Ok(())
}

/// The texts of an agent type's system prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// Who it is and what for.
    pub role: String,
    /// How it works.
    #[serde(default)]
    pub guidelines: String,
    /// Where it works: folders it may use, what lies in them.
    #[serde(default)]
    pub workspace: String,
    /// Whether it says who the user is: profile, custom instructions, memories.
    #[serde(default = "Prompt::default_about_user")]
    pub about_user: bool,
}

impl Prompt {
    fn default_about_user() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> AgentType {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_status_is_shown_by_the_pairs_that_say_so_and_no_others() {
        let task: AgentType = toml::from_str(include_str!("../../../jobs/agents/task.toml")).unwrap();
        let all: usize = task.statuses.iter().map(|status| task.shown_as(status).len()).sum();
        assert_eq!(all, (task.statuses.len() + 1) * (RunStatus::ALL.len() + 1), "each pair shows one status");
        assert!(task.shown_as("paused").contains(&(None, Some(RunStatus::Retrying))));
        assert!(!task.shown_as("active").contains(&(None, Some(RunStatus::Retrying))));
        assert_eq!(task.shown_as("archived"), []);
    }

    #[test]
    fn a_status_follows_from_the_run_unless_somebody_decided() {
        use RunStatus::*;
        let goal = kind(include_str!("../../../jobs/agents/goal.toml"));
        let task = kind(include_str!("../../../jobs/agents/task.toml"));
        let nobody = kind(include_str!("../../../jobs/agents/user_agent.toml"));
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
            assert_eq!(nobody.status(stored, run), None);
        }
        // The first status, stored when it was made, was decided by nobody.
        assert_eq!(goal.status(Some("waiting"), Some(Running)).as_deref(), Some("working"));
        assert_eq!(task.status(Some("active"), Some(Retrying)).as_deref(), Some("paused"));
        // Somebody talks with a project: `paused` is for them to say.
        let project =
            AgentType { statuses: ["active", "paused", "archived"].map(String::from).to_vec(), ..goal };
        assert_eq!(project.status(None, Some(Retrying)).as_deref(), Some("active"));
        assert_eq!(project.status(Some("paused"), Some(MessageSent)).as_deref(), Some("paused"));
    }

    #[test]
    fn a_kind_fits_into_ids_and_paths_and_takes_no_name_of_another() {
        for good in ["project", "user_agent", "p2"] {
            check_kind(good).unwrap();
        }
        for bad in ["", "Project", "2p", "_p", "my-project", "a b", "ä", &"p".repeat(41), "run", "message"] {
            let told = check_kind(bad).unwrap_err().to_string();
            assert!(told.contains(&format!("`{bad}` cannot be a kind")), "{told}");
        }
        assert!(check_kind("note").unwrap_err().to_string().contains("learning"), "all taken names are told");
    }

    #[test]
    fn an_unknown_key_names_itself_and_what_is_allowed() {
        let error = toml::from_str::<AgentType>("kind = 'x'\nconversationl = true").unwrap_err();
        assert!(error.to_string().contains("conversationl"), "{error}");
        assert!(error.to_string().contains("conversational"), "{error}");
    }

    #[test]
    fn a_policy_has_one_name_everywhere_and_an_unknown_one_is_told_the_four() {
        use DoubleTexting::{Enqueue, Interrupt, Reject, Rollback};
        for policy in [Enqueue, Interrupt, Reject, Rollback] {
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        let error = serde_json::from_str::<DoubleTexting>("\"merge\"").unwrap_err().to_string();
        assert!(error.contains("`enqueue`, `interrupt`, `reject`, `rollback`"), "{error}");
    }
}

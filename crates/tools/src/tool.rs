//! The [`Tool`] trait, and the plan of a tool call. An action outside may pause: until a person has answered, or until it is asked
//! how far it is.
//!
//! ```text
//! Plan::Begin → Acted::Paused(pause) → committed with the call → the run waits → Tool::go_on(state, answer) → Acted::Done
//! ```

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use futures_util::future::BoxFuture;
use houston_domain::agentable::AgentType;
use houston_domain::autonomy::Autonomy;
use houston_domain::capability::Capability;
use houston_domain::guard::{Layer, ToolFacts};
use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::snippet::SnippetTool;
use houston_domain::tool_call::{ToolDefinition, ToolResponse};
use houston_store::workspace_file::CommandFiles;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ask::Ask;
use crate::code::Code;
use crate::input::InvalidInput;
use crate::progress::Progress;
use crate::record::Record;
use crate::skills::Skills;

/// The circumstances of a tool call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The tenant of that user.
    pub tenant: TenantId,
    /// The agentable whose model made the call.
    pub agentable: AgentableId,
    /// The user that agentable works for.
    pub user: UserId,
    /// The run the call belongs to.
    pub run: RunId,
    /// SHA-256 of agentable, run and call id: a call repeated after a crash carries the same key.
    pub idempotency_key: String,
    /// The time of the call.
    pub now: DateTime<Utc>,
    /// The user's time zone.
    pub zone: Tz,
    /// The kinds of task that the agent may create.
    pub tasks: Arc<[TaskKind]>,
    /// The kinds whose conversations with the user the agent may list, read and post to.
    pub reached: Arc<[AgentType]>,
    /// What judged the call. A tool that reads more than the call names leaves out what is not open
    /// ([`is_open`](houston_domain::guard::is_open)).
    pub guards: Arc<[Arc<Layer>]>,
    /// The skills that the run has; `None`: none.
    pub skills: Option<Arc<Skills>>,
    /// The folder of the agentable's files, for a tool that runs commands; `None`: its files are rows.
    pub files: Option<CommandFiles>,
    /// Cancelled together with the run: a tool that stops gracefully must begin to do so, see
    /// [`Tool::stop_within`].
    pub stop: CancellationToken,
    /// For reports of how far the call is.
    pub progress: Progress,
}

/// A kind of task that an agent may create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskKind {
    /// Its name.
    pub kind: String,
    /// The first stored status of such a task.
    pub status: Option<String>,
    /// Whether it is a plan.
    pub is_plan: bool,
    /// The names of the tools it may call: those of its kind that its creator may call as well.
    pub tools: Vec<String>,
    /// Those of its tools that act outside Houston, if it is a plan.
    pub acting: Vec<String>,
    /// How much its creator does without asking.
    pub autonomy: Autonomy,
}

/// What executing a call means, once its arguments are parsed.
pub enum Plan {
    /// The response, without any effect.
    Answer(ToolResponse),
    /// A message to the user, and the response: committed with the step.
    Message {
        /// Markdown; not empty.
        content: String,
        /// What the model reads.
        response: ToolResponse,
    },
    /// An access to Houston's own tables: committed with its result in one fenced transaction, exactly once.
    Record(Arc<dyn Record>),
    /// An action outside Houston. Its intent is committed before this future is polled; dropping it must stop it.
    Execute(BoxFuture<'static, ToolResponse>),
    /// The same for an action that may pause, and go on later: [`Tool::go_on`].
    Begin(BoxFuture<'static, Acted>),
    /// Code that calls other tools. Its intent is committed before it starts, and so is the response to each of its calls
    /// before the code goes on: after a crash it is run again with those responses.
    Code(Code),
    /// A question to a model. Its intent is committed before the model is asked, and its costs with the response.
    Ask(Box<Ask>),
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answer(response) => f.debug_tuple("Answer").field(response).finish(),
            Self::Message { content, .. } => f.debug_tuple("Message").field(content).finish(),
            Self::Record(record) => f.debug_tuple("Record").field(record).finish(),
            Self::Execute(_) => f.write_str("Execute"),
            Self::Begin(_) => f.write_str("Begin"),
            Self::Code(_) => f.write_str("Code"),
            Self::Ask(ask) => f.debug_tuple("Ask").field(ask).finish(),
        }
    }
}

/// Whether a call that was interrupted by a crash was executed: the result of [`Tool::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The call was executed, with this outcome.
    Executed(ToolResponse),
    /// The call was not and will not be executed: it may be executed now.
    NotExecuted,
    /// It cannot be determined.
    Unknown,
}

/// What the offer of a tool may depend on when a run starts, besides what the installation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Situation {
    /// Whether the agentable has closed sessions.
    pub has_sessions: bool,
    /// Whether there are skills for it.
    pub has_skills: bool,
    /// Whether its kind creates plans.
    pub makes_plans: bool,
}

impl Situation {
    /// How many different situations there are.
    pub(crate) const COUNT: usize = 8;

    /// The number of this one, below [`Self::COUNT`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.has_sessions) + 2 * usize::from(self.has_skills) + 4 * usize::from(self.makes_plans)
    }
}

/// One tool.
///
/// `crates/cli/examples/custom_tool.rs` is a complete example.
pub trait Tool: Send + Sync + 'static {
    /// Name, description and schema for the model; effect class and time-out for Houston.
    fn definition(&self) -> &ToolDefinition;

    /// Whether the tool is offered to the model in this situation. Default: always. A tool that was offered once to an
    /// agentable must stay offered: its history may contain calls of it.
    fn offered(&self, _situation: Situation) -> bool {
        true
    }

    /// Whether code may call the tool. Default: yes. No for what has a meaning only in the conversation itself.
    fn is_for_code(&self) -> bool {
        true
    }

    /// This tool for an agent in code mode: its code may call `tools`. Default: none, it runs no code.
    fn calling(&self, _tools: &[ToolDefinition]) -> Option<SharedTool> {
        None
    }

    /// The tool that a snippet of the user is, if this tool runs snippets and they may be tools here. Default: none.
    fn snippet_tool(&self, _tool: &SnippetTool) -> Option<SharedTool> {
        None
    }

    /// What guards rely on. Default: what follows from the effect class. `[tools.<name>]` of `jobs/guards.toml` changes it.
    fn facts(&self) -> ToolFacts {
        ToolFacts::of_effect(self.definition().effect)
    }

    /// A hash of the definition, for a tool that others define: a lasting yes of a person counts only as long as it is the
    /// same. Default: none.
    fn pin(&self) -> Option<&str> {
        None
    }

    /// What the tool enables an agent to do, for the prompt. Without it the prompt lists the tool by its name.
    fn capability(&self) -> Option<Capability> {
        None
    }

    /// Parses the arguments and returns what to do. Pure: nothing happens before the plan is carried out.
    ///
    /// # Errors
    /// [`InvalidInput`]: what is wrong, and what is allowed.
    fn plan(&self, input: &Value, context: &CallContext) -> Result<Plan, InvalidInput>;

    /// Whether its arguments may contain expressions of plans, which are tried before it is called. Default: no.
    fn takes_expressions(&self) -> bool {
        false
    }

    /// How long a call may continue after its run was cancelled (`CallContext::stop`), to stop gracefully and
    /// report what it has done; then it is dropped. Default: zero, dropped at once.
    fn stop_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Goes on with a call that has paused; dropping the future must stop it, but not what goes on elsewhere. A call that waited
    /// for a time goes on as often as workers stop; one that waited for a person goes on once.
    fn go_on(&self, _paused: Paused, _input: &Value, _context: &CallContext) -> BoxFuture<'static, Acted> {
        Box::pin(std::future::ready(Acted::Done(ToolResponse::outcome_unknown())))
    }

    /// Ends what goes on elsewhere of a paused call, whose run ends; its response is read by no one. It gets a few seconds.
    /// Default: nothing.
    fn give_up(&self, _state: Value) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    /// For `checkable` tools: determines by the call's idempotency key whether the call was executed.
    fn check<'a>(&'a self, _input: &'a Value, _context: &'a CallContext) -> BoxFuture<'a, CheckOutcome> {
        Box::pin(std::future::ready(CheckOutcome::Unknown))
    }
}

/// A shared tool.
pub type SharedTool = Arc<dyn Tool>;

/// How far an action outside is.
#[derive(Debug, Clone, PartialEq)]
pub enum Acted {
    /// It has ended.
    Done(ToolResponse),
    /// It goes on later.
    Paused(Pause),
}

/// An action outside that goes on later.
#[derive(Debug, Clone, PartialEq)]
pub struct Pause {
    /// What the tool needs to go on: committed before anything else happens. At most
    /// [`MAX_STATE_BYTES`](houston_domain::tool_call::MAX_STATE_BYTES) bytes of JSON; a call with a larger one fails.
    pub state: Value,
    /// What it waits for.
    pub until: Until,
}

/// What a paused action waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Until {
    /// A person. Going on is another action, which is repeated after a crash only if the effect class of the tool allows it.
    Answered(CallQuestion),
    /// This time; zero: it goes on at once, after its state is committed. Going on only asks how far it is, or waits: it may be
    /// repeated.
    Elapsed(Duration),
}

/// What a person is asked in the middle of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallQuestion {
    /// The text for people.
    pub text: String,
    /// The JSON Schema of what is asked for, an object; `None`: the person does something elsewhere and says that it is done.
    pub content: Option<Value>,
    /// Whether the client is asked for the result of one of its own tools
    /// ([`client_offer`](houston_domain::client_offer)), and not a person.
    pub of_client: bool,
}

/// What a paused call goes on with.
#[derive(Debug, Clone, PartialEq)]
pub struct Paused {
    /// [`Pause::state`].
    pub state: Value,
    /// The answer, if it waited for one: an [`InputAnswer`](houston_domain::question::input::InputAnswer) as JSON.
    pub answer: Option<Value>,
}

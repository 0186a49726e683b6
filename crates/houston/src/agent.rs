//! [`AgentBuilder`] describes an agent and starts it; [`Agent`] is the running one, with its worker and servers.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use houston_cli::process::{Plan, PlannedModel, Process, ProcessError};
use houston_domain::agent::limits::LimitChanges;
use houston_domain::agentable::AgentType;
use houston_domain::answering::{Effort, Output, Sampling};
use houston_domain::autonomy::Autonomy;
use houston_domain::guard::{GuardError, GuardSettings, LayerKind};
use houston_domain::id::{AgentableId, parse_prefixed};
use houston_domain::model_policy::{CachePolicy, Latency, ModelPolicy};
use houston_engine::{Observer, RunHook};
use houston_llm::Model;
use houston_tools::{SharedTool, schema};
use schemars::JsonSchema;
use serde_json::json;

use crate::conversation::Conversation;
use crate::error::Error;
use crate::event::Answer;
use crate::happened::{Followers, Happened, Wanted};
use crate::question::{Decision, Question};
use crate::run::{Decide, Run, Running};
use crate::tool::{AgentTool, AnyTool};

/// The user of [`Agent::prompt`].
const PROGRAM: &str = "program";
/// How the agent works, unless [`AgentBuilder::guidelines`] says otherwise.
const GUIDELINES: &str = "\
The user reads what you write as you write it.
Do what was asked before you report on it. When a tool fails, read its error: mend the call, or tell the user plainly what did \
not work.
Write in the language of the user. Be brief.";

/// Describes an agent. What is not set has a default that works on a developer's machine.
#[derive(Default)]
#[must_use = "an agent is started by `build`"]
pub struct AgentBuilder {
    name: Option<String>,
    instructions: String,
    guidelines: Option<String>,
    tools: Vec<AgentTool>,
    guards: Option<AgentGuards>,
    autonomy: Autonomy,
    sampling: Sampling,
    model_policy: ModelPolicy,
    limits: LimitChanges,
    output: Option<Output>,
    wanted: Vec<Wanted>,
    decide: Option<Arc<Decide>>,
    /// What else the process needs.
    plan: Plan,
}

impl AgentBuilder {
    /// Names the agent. Its conversations belong to this name, and it is the prefix of their ids: letters from a to z, digits and
    /// `_`. Default: `assistant`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Names the tenant to which users and conversations belong. Default: `default`.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.plan.tenant = Some(tenant.into());
        self
    }

    /// Sets the model: a name such as `"anthropic/claude-sonnet-4-5"`, a provider, several of them with commas between them, or
    /// `"simulated"`; or a [`Model`] of the program in an [`Arc`]. Default: `HOUSTON_MODEL`, else the first provider whose key
    /// is set (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, …), else a local Ollama, else the simulated model.
    pub fn model(mut self, model: impl Into<AgentModel>) -> Self {
        self.plan.model = model.into().0;
        self
    }

    /// Says who the agent is, and what for.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Says how it works. Default: a few sentences that suit a conversation.
    pub fn guidelines(mut self, guidelines: impl Into<String>) -> Self {
        self.guidelines = Some(guidelines.into());
        self
    }

    /// Adds a tool: one that [`tool`](crate::tool()) made, an implementation of
    /// [`Tool`](crate::tools::Tool) in an [`Arc`], or the name of
    /// one that exists already, as `"create_note"`. Tools of Houston that need its sandbox (`run_code`, `calculate`) are not
    /// offered in a program.
    pub fn tool(mut self, tool: impl Into<AgentTool>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Limits what the agent may do with its tools: TOML as in `jobs/guards.toml`, or [`GuardSettings`]. They can only make
    /// stricter what the installation allows.
    pub fn guards(mut self, guards: impl Into<AgentGuards>) -> Self {
        self.guards = Some(guards.into());
        self
    }

    /// Says how far the agent goes without asking. Default: [`Autonomy::Medium`].
    pub fn autonomy(mut self, autonomy: Autonomy) -> Self {
        self.autonomy = autonomy;
        self
    }

    /// Sets how freely the model chooses its words, from 0 to 2. Default: as its provider has it. A model that does not accept it
    /// is refused by [`AgentBuilder::build`].
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.sampling.temperature = Some(temperature);
        self
    }

    /// Sets how much the model thinks before it answers. Default: as its provider has it.
    pub fn effort(mut self, effort: Effort) -> Self {
        self.sampling.effort = Some(effort);
        self
    }

    /// Limits the tokens of one answer of the model. Default: `limits.max_output_tokens` of `jobs/orchestrator.toml`.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.limits.max_output_tokens = Some(tokens);
        self
    }

    /// Limits the model calls of one run. Default: `limits.max_iterations` of `jobs/orchestrator.toml`.
    pub fn max_iterations(mut self, calls: u32) -> Self {
        self.limits.max_iterations = Some(calls);
        self
    }

    /// Says how soon answers are needed. Default: [`Latency::Interactive`]. With [`Latency::Batch`], runs may wait for hours, and
    /// cost less.
    pub fn latency(mut self, latency: Latency) -> Self {
        self.model_policy.latency = Some(latency);
        self
    }

    /// Says how long providers keep prompts. Default: [`CachePolicy::Auto`].
    pub fn cache(mut self, cache: CachePolicy) -> Self {
        self.model_policy.cache = Some(cache);
        self
    }

    /// Asks for answers of a type: each run ends with a value that fits the type's schema ([`Answer::parse`](crate::Answer::parse)),
    /// or fails with `RESULT_MISMATCH`. The type must be a struct.
    pub fn output<T: JsonSchema>(mut self) -> Self {
        self.output = Some(Output::of(schema::of::<T>()));
        self
    }

    /// Adds a hook that changes model, tools or prompt of a run before its first model call. Hooks are called in the order in
    /// which they were added.
    pub fn before_run(mut self, hook: impl RunHook + 'static) -> Self {
        self.plan.hooks.push(Arc::new(hook));
        self
    }

    /// Adds an observer: it is called before and after calls of models and tools, and at the end of a run, with the `tracing`
    /// span of the call.
    pub fn on_event(mut self, observer: impl Observer + 'static) -> Self {
        self.plan.observers.push(Arc::new(observer));
        self
    }

    /// Calls `hear` with events whose topic matches the pattern: `"tool.*"`, `"run.finished"`, `"**"`; the API's documentation
    /// lists the topics.
    ///
    /// It hears what this process commits, after the commit, in the order of each conversation. **Events may be lost**: those of
    /// other processes, those before a restart, and those that come faster than `hear` returns. What must not miss one is a
    /// trigger or a webhook. `hear` is called in a task of its own, never on the way of a run; it should return quickly and must
    /// not panic.
    pub fn on(
        mut self,
        pattern: impl Into<String>,
        hear: impl Fn(&Happened) + Send + Sync + 'static,
    ) -> Self {
        self.wanted.push((pattern.into(), Arc::new(hear)));
        self
    }

    /// Decides the questions of runs that this program follows. Without it they are left to people, and
    /// [`Run::answer`](crate::Run::answer) returns [`Error::Question`].
    pub fn on_question<F>(mut self, decide: impl Fn(Question) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Decision> + Send + 'static,
    {
        self.decide = Some(Arc::new(move |question| decide(question).boxed()));
        self
    }

    /// Sets the folder for the data of embedded servers. Default: `.houston` in the current folder.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.plan.folder = Some(folder.into());
        self
    }

    /// Sets a folder with files that override those of `jobs/`: limits, retries, guards, MCP servers, … Default: none. The
    /// environment (`HOUSTON_…`) overrides both.
    pub fn jobs(mut self, folder: impl Into<PathBuf>) -> Self {
        self.plan.jobs = Some(folder.into());
        self
    }

    /// Sets the URL of Postgres. Its schema must be that of this version: see [`AgentBuilder::migrate`]. Default:
    /// `DATABASE_URL`, else an embedded Postgres.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.plan.database_url = Some(url.into());
        self
    }

    /// Sets the URL of Redis. Default: `HOUSTON_REDIS_URL`, else an embedded Redis.
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.plan.redis_url = Some(url.into());
        self
    }

    /// Migrates the schema of a Postgres that is not embedded when the agent is started, as `houston migrate` does.
    pub fn migrate(mut self) -> Self {
        self.plan.migrates = true;
        self
    }

    /// Starts the agent: the servers that no URL names, and a worker.
    ///
    /// # Errors
    /// [`Error::Tool`], [`Error::Guards`] and [`Error::Topic`] when those are wrong; [`Error::Process`] when other settings are
    /// wrong, or a server or the worker cannot be started.
    pub async fn build(mut self) -> Result<Agent, Error> {
        let decide = self.decide.take();
        let followers = Followers::new(std::mem::take(&mut self.wanted))?;
        let (plan, agent) = self.parts()?;
        let process = Box::pin(Process::start(plan, agent)).await?;
        if !followers.is_empty() {
            let kind = process.agent.kind.clone();
            process.follow(move |agentable, event| followers.hear(&kind, agentable, event));
        }
        Ok(Agent { running: Arc::new(Running { process, decide }) })
    }

    /// What the process runs, and the kind of the agent.
    fn parts(mut self) -> Result<(Plan, AgentType), Error> {
        let mut names = Vec::new();
        for AgentTool(tool) in self.tools {
            let tool: SharedTool = match tool {
                AnyTool::Named(name) => {
                    names.push(name);
                    continue;
                }
                AnyTool::Function(function) => {
                    function.check()?;
                    Arc::new(function)
                }
                AnyTool::Own(tool) => tool,
            };
            names.push(tool.definition().name.clone());
            self.plan.tools.push(tool);
        }
        let agent = json!({
            "kind": self.name.as_deref().unwrap_or("assistant"),
            "conversational": true,
            "archives": true,
            "reply": "text",
            "statuses": ["waiting", "working", "archived"],
            "autonomy": self.autonomy,
            "sampling": self.sampling,
            "model_policy": self.model_policy,
            "limits": self.limits,
            "output": self.output,
            "tools": names,
            "prompt": {
                "role": self.instructions,
                "guidelines": self.guidelines.as_deref().unwrap_or(GUIDELINES),
            },
        });
        let agent: AgentType =
            serde_json::from_value(agent).map_err(|error| ProcessError::Settings(error.into()))?;
        let guards = self.guards.map(AgentGuards::checked).transpose()?;
        Ok((self.plan, AgentType { guards, ..agent }))
    }
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The model of an agent: a name, or a model of the program.
pub struct AgentModel(PlannedModel);

impl From<&str> for AgentModel {
    fn from(name: &str) -> Self {
        Self(PlannedModel::Named(name.to_owned()))
    }
}

impl From<String> for AgentModel {
    fn from(name: String) -> Self {
        Self(PlannedModel::Named(name))
    }
}

impl<M: Model + 'static> From<Arc<M>> for AgentModel {
    fn from(model: Arc<M>) -> Self {
        Self(PlannedModel::Own(model))
    }
}

/// The guards of an agent.
pub struct AgentGuards(Result<Box<GuardSettings>, GuardError>);

impl AgentGuards {
    fn checked(self) -> Result<Box<GuardSettings>, GuardError> {
        let settings = self.0?;
        settings.check(LayerKind::Kind)?;
        Ok(settings)
    }
}

impl From<&str> for AgentGuards {
    fn from(toml: &str) -> Self {
        Self(GuardSettings::from_toml(LayerKind::Kind, toml).map(Box::new))
    }
}

impl From<GuardSettings> for AgentGuards {
    fn from(settings: GuardSettings) -> Self {
        Self(Ok(Box::new(settings)))
    }
}

/// A running agent. Clones share it.
///
/// It drives runs in the background until [`Agent::shutdown`]. A program that ends without it, or dies, loses nothing: its open
/// runs go on when an agent of the same name is started with the same database.
#[derive(Clone)]
pub struct Agent {
    running: Arc<Running>,
}

impl Agent {
    /// Describes an agent.
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Asks in a new conversation, and waits for the answer. All prompts of a program belong to one user, and of one user
    /// `fairness.max_running` runs (10) are driven at once; the others wait.
    ///
    /// # Errors
    /// As [`Agent::stream`] and [`Run::answer`].
    pub async fn prompt(&self, message: impl AsRef<str>) -> Result<Answer, Error> {
        self.stream(message).await?.answer().await
    }

    /// Asks in a new conversation, and returns the run that answers.
    pub async fn stream(&self, message: impl AsRef<str>) -> Result<Run, Error> {
        self.new_conversation(PROGRAM).await?.stream(message).await
    }

    /// The newest conversation with a user, whom the program calls `user`: its own id of a person, a room, a ticket. User and
    /// conversation are created if they do not exist.
    pub async fn conversation(&self, user: &str) -> Result<Conversation, Error> {
        let (id, newest) = self.running.user(user).await?;
        let conversation = match newest {
            Some(newest) => newest,
            None => self.running.create(id).await?,
        };
        Ok(Conversation::new(Arc::clone(&self.running), id, conversation))
    }

    /// A new conversation with a user, who is created if they do not exist.
    pub async fn new_conversation(&self, user: &str) -> Result<Conversation, Error> {
        let (user, _) = self.running.user(user).await?;
        let conversation = self.running.create(user).await?;
        Ok(Conversation::new(Arc::clone(&self.running), user, conversation))
    }

    /// The conversation with this id, as [`Conversation::id`] returns it.
    ///
    /// # Errors
    /// [`Error::Conversation`] when the id is malformed or of another agent; [`Error::Store`] when there is no such conversation,
    /// or Postgres cannot be read.
    pub async fn open_conversation(&self, id: &str) -> Result<Conversation, Error> {
        let kind = &self.running.process.agent.kind;
        let conversation = AgentableId(parse_prefixed(kind, id)?);
        let found = self.running.store(conversation).agentable(kind, conversation).await?;
        Ok(Conversation::new(Arc::clone(&self.running), found.user, conversation))
    }

    /// Stops gracefully: open runs finish their step or are handed over, and tools that must not be repeated finish, within the
    /// drain time (`worker.drain_s`, 20 s). Then embedded servers are stopped. A second call returns at once.
    ///
    /// # Errors
    /// [`Error::Process`] when an embedded server does not stop.
    pub async fn shutdown(&self) -> Result<(), Error> {
        Ok(self.running.process.stop().await?)
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("process", &self.running.process).finish_non_exhaustive()
    }
}

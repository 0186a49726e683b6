//! A replay that asks a model. Its tools are answered from the record, so it changes nothing.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use anyhow::anyhow;
use clap::ValueEnum;
use futures_util::StreamExt as _;
use houston_domain::agent::{AgentRun, Next};
use houston_domain::autonomy::Autonomy;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::guard::{Call, Decision, Layer, LayerKind, Situation, clamp, decide};
use houston_domain::id::{AgentableId, RunId, TenantId, UserId};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, Usage};
use houston_domain::tool_call::{EffectClass, ToolCall, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::trace::Trace;
use houston_domain::trace::checkpoint::Checkpoint;
use houston_domain::trace::compare::{Called, Way};
use houston_llm::{Description, Event, Model, Price, Request, SystemPart};
use houston_tools::untrusted::is_marked;
use houston_tools::{CallContext, Plan, Progress, Registry};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Agent, PromptFiles, With};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::models;

/// The most model calls of a replay, whatever limits a trace has.
const MOST_ITERATIONS: u32 = 200;

/// The longest result that the model reads, in characters.
const MOST_CHARS: usize = 50_000;

/// What was recorded from the checkpoint on, and what the model does there that is asked instead of the recorded one.
pub(in crate::commands) async fn way(
    context: &Context,
    trace: &Trace,
    with: &With<'_>,
) -> Result<(Way, Way)> {
    let own;
    let agent = match with.agent {
        Some(agent) => agent,
        None => {
            own = Agent::of_kind(context, &trace.header.kind)?;
            &own
        }
    };
    let model = model(context, agent, with.model).await?;
    let mut policy = trace.header.policy();
    if with.agent.is_some() {
        let kind = &agent.agent_type;
        policy.limits = context.loaded.settings.orchestrator.limits.with(kind.limits);
        (policy.conversational, policy.reply) = (kind.conversational, kind.reply);
    }
    policy.limits.max_iterations = policy.limits.max_iterations.min(MOST_ITERATIONS);
    let text = PromptFiles::system(with.prompt, &agent.agent_type);
    let tools = definitions(context, trace, agent, with);
    let max_output_tokens = policy.limits.max_output_tokens;
    let checkpoint = trace.checkpoint(with.from).map_err(Failure::usage)?;
    let run = checkpoint.run(policy, &trace.header, SystemClock.now());
    let mut answers = Answers::new(context, &checkpoint, agent, trace.header.run, with.tools)?;
    answers.offer(&tools);
    let system = &[SystemPart { text, cached: true }];
    let sent = Request { system, tools: &tools, max_output_tokens, ..Request::default() };
    let way = drive(run, &*model, sent, &mut answers, checkpoint.messages.clone()).await?;
    Ok((checkpoint.rest, way))
}

/// The model of this name; of `recorded`: that of the agent.
pub(in crate::commands) async fn model(
    context: &Context,
    agent: &Agent,
    name: &str,
) -> Result<Arc<dyn Model>> {
    let models = models::build(&context.loaded).await?;
    if name != "recorded" {
        return Ok((models.make)(name.to_owned()).await);
    }
    let use_case = &agent.agent_type.use_case;
    let usual = models.by_use_case.get(use_case).cloned();
    let usual = usual.ok_or_else(|| anyhow!("the use case `{use_case}` has no model"))?;
    let settings = agent.settings.as_ref();
    match settings.and_then(|settings| settings.model_name(&usual.description().provider)) {
        Some(name) => Ok((models.make)(name).await),
        None => Ok(usual),
    }
}

/// The recorded definitions are those that the run had; another agent has its own.
fn definitions(context: &Context, trace: &Trace, agent: &Agent, with: &With<'_>) -> Vec<ToolDefinition> {
    if with.agent.is_none() && !trace.header.tools.is_empty() {
        return trace.header.tools.clone();
    }
    let tools = agent.agent_type.tools.iter().filter_map(|name| context.registry.get(name));
    tools.map(|tool| tool.definition().clone()).collect()
}

async fn drive(
    mut run: AgentRun,
    model: &dyn Model,
    sent: Request<'_>,
    answers: &mut Answers<'_>,
    mut messages: VecDeque<Vec<String>>,
) -> Result<Way> {
    let mut way = Way::default();
    loop {
        match run.next(SystemClock.now()) {
            Next::CallModel => {
                let request = Request { entries: run.history(), ..sent };
                let answer = unless_interrupted(ask(model, &request)).await??;
                way.answered(&answer.content, &answer.usage);
                run.on_model(answer)?;
            }
            Next::CallTools(calls) => {
                let mut responses = Vec::with_capacity(calls.len());
                for call in &calls {
                    responses.push((call.id.clone(), unless_interrupted(answers.answer(call)).await??));
                }
                way.calls.extend(calls.into_iter().map(|call| Called { name: call.name, input: call.input }));
                run.on_tools(responses);
            }
            Next::Done(status) => {
                if messages.pop_front().and_then(|texts| run.on_messages(texts)).is_none() {
                    way.status = Some(status);
                    return Ok(way);
                }
            }
        }
    }
}

/// Does this, unless a person presses Ctrl-C.
pub(in crate::commands) async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        done = work => Ok(done),
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted").into()),
    }
}

/// Asks the model and prices its answer.
pub(in crate::commands) async fn ask(
    model: &dyn Model,
    request: &Request<'_>,
) -> Result<ModelAnswer, ModelError> {
    let mut events = model.stream(request).await?;
    let mut answering: Description = model.description().clone();
    while let Some(event) = events.next().await {
        match event? {
            Event::Answering(who) => answering = *who,
            Event::Done(answer) => {
                let Description { provider, model, .. } = &answering;
                let listed = || Price::find(provider, model)?.cost(&answer.usage, SystemClock.now());
                let cost = answer.usage.cost.or_else(listed);
                return Ok(ModelAnswer { usage: Usage { cost, ..answer.usage }, ..*answer });
            }
            _ => {}
        }
    }
    Err(ModelError::new(ModelErrorCode::InvalidResponse, "the model's answer ended early"))
}

/// What a call is answered that is not in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tools {
    /// The replay ends
    Fail,
    /// Tools that only read are called, if guards let them without asking; of others the model reads that they are not
    /// available
    LiveRead,
    /// The model reads that the tool is not available
    Skip,
}

/// Answers the calls of one replay.
pub(super) struct Answers<'c> {
    /// Recorded calls that are not used yet; then those before the checkpoint, which are never used up.
    recorded: Vec<(Called, ToolResponse)>,
    earlier: &'c [(Called, ToolResponse)],
    mode: Tools,
    registry: &'c Registry,
    offered: BTreeSet<String>,
    guards: Vec<Arc<Layer>>,
    autonomy: Autonomy,
    run: RunId,
    /// Whether what strangers wrote was read.
    untrusted: bool,
    /// How often each tool was called.
    live: BTreeMap<String, u32>,
}

impl<'c> Answers<'c> {
    pub(super) fn new(
        context: &'c Context,
        checkpoint: &'c Checkpoint,
        agent: &Agent,
        run: RunId,
        mode: Tools,
    ) -> Result<Self> {
        let kind = &agent.agent_type;
        let mut guards = vec![Arc::clone(&context.loaded.guards)];
        let of_agent = agent.settings.as_ref().and_then(|settings| settings.guards.as_ref());
        let lower = [(LayerKind::Kind, kind.guards.as_deref()), (LayerKind::Agent, of_agent)];
        for (layer, settings) in lower.into_iter().filter_map(|(layer, of)| Some((layer, of?))) {
            let layer = Layer::compile(layer, &kind.kind, settings);
            guards.push(Arc::new(layer.map_err(Failure::usage)?));
        }
        Ok(Self {
            recorded: checkpoint.calls.clone(),
            earlier: &checkpoint.earlier,
            mode,
            registry: &context.registry,
            offered: BTreeSet::new(),
            guards,
            autonomy: kind.autonomy,
            run,
            untrusted: false,
            live: BTreeMap::new(),
        })
    }

    /// The model is sent the definitions of these tools.
    pub(super) fn offer(&mut self, tools: &[ToolDefinition]) {
        self.offered.extend(tools.iter().map(|tool| tool.name.clone()));
    }

    /// The response of a call.
    ///
    /// # Errors
    /// When the record does not answer it, and nothing else may.
    pub(super) async fn answer(&mut self, call: &ToolCall) -> Result<ToolResponse> {
        let response = match (self.recorded(call), self.mode) {
            (Some(response), _) => response,
            (None, Tools::Skip) => unavailable(""),
            (None, Tools::LiveRead) => self.live(call).await.unwrap_or_else(unavailable),
            (None, Tools::Fail) => {
                return Err(Failure::Other(anyhow!(
                    "the record does not answer {} {}; use --tools skip to go on without such calls",
                    call.name,
                    call.input
                )));
            }
        };
        self.note(&call.name, &response);
        Ok(response)
    }

    /// The recorded response of a call with the same name and arguments; each is used once, and the last one again.
    fn recorded(&mut self, call: &ToolCall) -> Option<ToolResponse> {
        let is_same = |(of, _): &&(Called, ToolResponse)| of.name == call.name && of.input == call.input;
        if let Some(at) = self.recorded.iter().position(|recorded| is_same(&recorded)) {
            let is_last = !self.recorded[at + 1..].iter().any(|other| is_same(&other));
            return Some(match is_last {
                true => self.recorded[at].1.clone(),
                false => self.recorded.remove(at).1,
            });
        }
        self.earlier.iter().rfind(is_same).map(|(_, response)| response.clone())
    }
}

/// What the model reads of a call that is not answered.
fn unavailable(reason: &str) -> ToolResponse {
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let text = format!("this tool is not available{reason}: go on without it");
    ToolResponse::failure(ToolErrorCode::ConfigError, text)
}

impl Answers<'_> {
    /// Calls a tool of this process whose own definition says that it reads: what a trace says of it does not count.
    ///
    /// # Errors
    /// Why it is not called.
    async fn live(&mut self, call: &ToolCall) -> Result<ToolResponse, &'static str> {
        let tool = self.registry.get(&call.name).filter(|_| self.offered.contains(&call.name));
        let tool = Arc::clone(tool.ok_or("there is no such tool")?);
        let definition = tool.definition();
        if definition.effect != EffectClass::Read {
            return Err("a replay calls only tools that read");
        }
        let facts = tool.facts();
        let (input, _) = clamp(&facts.in_force(&self.guards, &call.name).limits, call.input.clone());
        let calls = self.live.entry(call.name.clone()).or_default();
        *calls = calls.saturating_add(1);
        let situation = Situation {
            calls_last_minute: *calls - 1,
            untrusted_read: self.untrusted,
            // A trace does not say what its prompt had.
            private_read: true,
            unattended: true,
            ..Situation::new(self.autonomy)
        };
        let judged = Call {
            tool: &call.name,
            facts: Some(&facts),
            input: &input,
            pin: tool.pin(),
            pin_changed: false,
        };
        if decide(&self.guards, &judged, &situation).decision != Decision::Allow {
            return Err("guards do not let it be called without a person");
        }
        match tool.plan(&input, &self.context(call)) {
            Ok(Plan::Answer(response)) => Ok(cut(response)),
            Ok(Plan::Execute(work)) => Ok(match tokio::time::timeout(definition.timeout, work).await {
                Ok(response) => cut(response),
                Err(_) => ToolResponse::failure(ToolErrorCode::Timeout, "the tool took too long"),
            }),
            Ok(_) => Err("a replay does not read Houston's own tables"),
            Err(invalid) => Ok(invalid.into()),
        }
    }

    /// Nothing of the tenant: a tool that reads needs none of it.
    fn context(&self, call: &ToolCall) -> CallContext {
        CallContext {
            tenant: TenantId(Uuid::nil()),
            agentable: AgentableId(Uuid::nil()),
            user: UserId(Uuid::nil()),
            run: self.run,
            idempotency_key: call.idempotency_key(AgentableId(Uuid::nil()), self.run),
            now: SystemClock.now(),
            zone: chrono_tz::UTC,
            tasks: Arc::new([]),
            reached: Arc::new([]),
            guards: self.guards.clone().into(),
            skills: None,
            files: None,
            stop: CancellationToken::new(),
            progress: Progress::default(),
        }
    }

    /// A response was read: what strangers wrote counts for the calls after it.
    fn note(&mut self, tool: &str, response: &ToolResponse) {
        let facts = self.registry.get(tool).map(|tool| tool.facts());
        let marks = facts.is_none_or(|facts| facts.in_force(&self.guards, tool).untrusted_output);
        self.untrusted |= marks || is_marked(response.text());
    }
}

fn cut(response: ToolResponse) -> ToolResponse {
    let Some((end, _)) = response.text().char_indices().nth(MOST_CHARS) else { return response };
    let text = format!("{}\n\n[cut off here]", &response.text()[..end]);
    match response {
        ToolResponse::Failure { code, .. } => ToolResponse::failure(code, text),
        _ => ToolResponse::success(text),
    }
}

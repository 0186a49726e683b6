//! A replay that asks a model. Its tools are answered from the record, so it changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::anyhow;
use futures_util::StreamExt as _;
use houston_domain::agent::step::Next;
use houston_domain::agent::{AgentRun, RunPolicy};
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, Usage};
use houston_domain::tool_call::ToolDefinition;
use houston_domain::trace::Trace;
use houston_domain::trace::compare::{Called, Way};
use houston_llm::{Description, Event, Model, Price, Request, SystemPart};

use super::With;
use super::agent::{Agent, PromptFiles};
use super::answers::Answers;
use crate::commands::{Context, Failure};
use crate::models;

/// The most model calls of a replay, whatever limits a trace has.
const MOST_ITERATIONS: u32 = 200;

/// What a model is sent besides the history.
struct Sent {
    system: Vec<SystemPart>,
    tools: Vec<ToolDefinition>,
    max_output_tokens: u32,
}

/// What was recorded from the checkpoint on, and what the model does there that is asked instead of the recorded one.
pub(in crate::commands) async fn way(
    context: &Context,
    trace: &Trace,
    with: &With<'_>,
) -> Result<(Way, Way), Failure> {
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
    let sent = sent(context, trace, agent, with, &policy);
    let checkpoint = trace.checkpoint(with.from).map_err(|error| Failure::Usage(error.into()))?;
    let run = checkpoint.run(policy, &trace.header, SystemClock.now());
    let mut answers = Answers::new(context, &checkpoint, agent, trace.header.run, with.tools)?;
    answers.offer(&sent.tools);
    let way = drive(run, &*model, &sent, &mut answers, checkpoint.messages.clone()).await?;
    Ok((checkpoint.rest, way))
}

/// The model of this name; of `recorded`: that of the agent.
pub(in crate::commands) async fn model(
    context: &Context,
    agent: &Agent,
    name: &str,
) -> Result<Arc<dyn Model>, Failure> {
    let models = models::build(&context.loaded).await.map_err(anyhow::Error::from)?;
    if name != "recorded" {
        return Ok((models.make)(name.to_owned()).await);
    }
    let use_case = &agent.agent_type.use_case;
    let usual = models.by_use_case.get(use_case).cloned();
    let usual = usual.ok_or_else(|| anyhow!("the use case `{use_case}` has no model"))?;
    let named = agent.stored.as_ref();
    match named.and_then(|stored| stored.settings.model_name(&usual.description().provider)) {
        Some(name) => Ok((models.make)(name).await),
        None => Ok(usual),
    }
}

fn sent(context: &Context, trace: &Trace, agent: &Agent, with: &With<'_>, policy: &RunPolicy) -> Sent {
    let text = PromptFiles::system(with.prompt, &agent.agent_type);
    // The recorded definitions are those that the run had; another agent has its own.
    let tools = match with.agent.is_none() && !trace.header.tools.is_empty() {
        true => trace.header.tools.clone(),
        false => {
            let tools = agent.agent_type.tools.iter().filter_map(|name| context.registry.get(name));
            tools.map(|tool| tool.definition().clone()).collect()
        }
    };
    let max_output_tokens = policy.limits.max_output_tokens;
    Sent { system: vec![SystemPart { text, cached: true }], tools, max_output_tokens }
}

async fn drive(
    mut run: AgentRun,
    model: &dyn Model,
    sent: &Sent,
    answers: &mut Answers<'_>,
    mut messages: VecDeque<Vec<String>>,
) -> Result<Way, Failure> {
    let mut way = Way::default();
    loop {
        match run.next(SystemClock.now()) {
            Next::CallModel => {
                let request = Request {
                    system: &sent.system,
                    entries: run.history(),
                    tools: &sent.tools,
                    max_output_tokens: sent.max_output_tokens,
                    ..Request::default()
                };
                let answer = unless_interrupted(ask(model, &request)).await?.map_err(anyhow::Error::from)?;
                way.answered(&answer.content, &answer.usage);
                run.on_model(answer).map_err(anyhow::Error::from)?;
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

async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
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
            Event::Done(answer) => return Ok(priced(*answer, &answering)),
            _ => {}
        }
    }
    Err(ModelError::new(ModelErrorCode::InvalidResponse, "the model's answer ended early"))
}

fn priced(answer: ModelAnswer, Description { provider, model, .. }: &Description) -> ModelAnswer {
    let listed = || Price::find(provider, model)?.cost(&answer.usage, SystemClock.now());
    let cost = answer.usage.cost.or_else(listed);
    ModelAnswer { usage: Usage { cost, ..answer.usage }, ..answer }
}

//! A replay that asks a model. The tools are answered from the record, so it changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use futures_util::StreamExt as _;
use houston_domain::agent::AgentRun;
use houston_domain::agent::step::Next;
use houston_domain::agentable::AgentType;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, Usage};
use houston_domain::tool_call::{ToolCall, ToolDefinition, ToolErrorCode, ToolResponse};
use houston_domain::trace::compare::{Called, Way};
use houston_domain::trace::{Line, Trace};
use houston_llm::{Description, Event, Model, Price, Request, SystemPart};

use super::{Tools, With};
use crate::commands::{Context, Failure};
use crate::models;

/// What the record answers.
struct Record {
    /// Tool calls that are not used yet.
    tools: Vec<(Called, ToolResponse)>,
    /// Messages that came while the run was open.
    messages: VecDeque<Vec<String>>,
}

/// What a model is sent besides the history.
struct Sent {
    system: Vec<SystemPart>,
    tools: Vec<ToolDefinition>,
    max_output_tokens: u32,
}

/// What the model does that is asked instead of the recorded one.
pub(crate) async fn way(context: &Context, trace: &Trace, with: &With<'_>) -> Result<Way, Failure> {
    let name = with.agent.unwrap_or(&trace.header.kind);
    let kind = crate::commands::agentable::agent_type(&context.loaded, name)?;
    let models = models::build(&context.loaded).await.map_err(anyhow::Error::from)?;
    let model: Arc<dyn Model> = match with.model {
        "recorded" => {
            let found = models.by_use_case.get(&kind.use_case).cloned();
            found.ok_or_else(|| anyhow!("the use case `{}` has no model", kind.use_case))?
        }
        named => (models.make)(named.to_owned()).await,
    };
    let sent = sent(context, kind, with)?;
    let mut policy = trace.header.policy();
    if with.agent.is_some() {
        policy.limits = context.loaded.settings.orchestrator.limits.with(kind.limits);
        (policy.conversational, policy.reply) = (kind.conversational, kind.reply);
    }
    let (history, own, mut record) = parts(trace);
    let run = AgentRun::resume(policy, history, own, SystemClock.now()).overseen(trace.header.overseer);
    drive(run, &*model, &sent, &mut record, with.tools).await
}

fn sent(context: &Context, kind: &AgentType, with: &With<'_>) -> Result<Sent, Failure> {
    let text = match with.prompt {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("{} cannot be read", path.display()))
            .map_err(Failure::Usage)?,
        None => format!("{}\n\n{}", kind.prompt.role, kind.prompt.guidelines),
    };
    let tools = kind.tools.iter().filter_map(|name| context.registry.get(name));
    let limits = context.loaded.settings.orchestrator.limits.with(kind.limits);
    Ok(Sent {
        system: vec![SystemPart { text, cached: true }],
        tools: tools.map(|tool| tool.definition().clone()).collect(),
        max_output_tokens: limits.max_output_tokens,
    })
}

/// What the run starts from, how much of that is its own, and what the record answers later.
fn parts(trace: &Trace) -> (Vec<Entry>, usize, Record) {
    let (mut history, mut own) = (Vec::new(), 0);
    let mut record = Record { tools: Vec::new(), messages: VecDeque::new() };
    let mut has_begun = false;
    for line in &trace.lines {
        match line {
            Line::Before(entry) => history.push(entry.clone()),
            Line::Message { content, .. } if !has_begun => {
                history.push(Entry::user(content.clone()));
                own += 1;
            }
            Line::Message { content, .. } => {
                let texts = content.iter().filter_map(Block::read).map(str::to_owned);
                record.messages.push_back(texts.collect());
            }
            Line::Answer { .. } => has_begun = true,
            Line::Tool { name, input, response, .. } => {
                record.tools.push((Called { name: name.clone(), input: input.clone() }, response.clone()));
            }
            _ => {}
        }
    }
    (history, own, record)
}

async fn drive(
    mut run: AgentRun,
    model: &dyn Model,
    sent: &Sent,
    record: &mut Record,
    tools: Tools,
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
                let asked = ask(model, &request);
                let answer = tokio::select! {
                    answer = asked => answer.map_err(anyhow::Error::from)?,
                    _ = tokio::signal::ctrl_c() => return Err(anyhow!("interrupted").into()),
                };
                way.answered(&answer.content, &answer.usage);
                run.on_model(answer).map_err(anyhow::Error::from)?;
            }
            Next::CallTools(calls) => {
                let responses = calls.iter().map(|call| Ok((call.id.clone(), answer(record, call, tools)?)));
                let responses = responses.collect::<Result<Vec<_>, Failure>>()?;
                way.calls.extend(calls.into_iter().map(|call| Called { name: call.name, input: call.input }));
                run.on_tools(responses);
            }
            Next::Done(status) => match record.messages.pop_front() {
                Some(texts) => {
                    if run.on_messages(texts).is_none() {
                        way.status = Some(status);
                        return Ok(way);
                    }
                }
                None => {
                    way.status = Some(status);
                    return Ok(way);
                }
            },
        }
    }
}

/// The recorded response of a call with the same name and arguments; each is used once, and the last one again.
fn answer(record: &mut Record, call: &ToolCall, tools: Tools) -> Result<ToolResponse, Failure> {
    let is_same = |(of, _): &(Called, ToolResponse)| of.name == call.name && of.input == call.input;
    if let Some(at) = record.tools.iter().position(is_same) {
        let is_last = record.tools[at + 1..].iter().all(|other| !is_same(other));
        return Ok(match is_last {
            true => record.tools[at].1.clone(),
            false => record.tools.remove(at).1,
        });
    }
    match tools {
        Tools::Skip => {
            let text = "this tool is not available: go on without it";
            Ok(ToolResponse::failure(ToolErrorCode::ConfigError, text))
        }
        Tools::Fail => Err(Failure::Other(anyhow!(
            "the record does not answer {} {}; use --tools skip to go on without such calls",
            call.name,
            call.input
        ))),
    }
}

/// Asks the model and prices its answer.
async fn ask(model: &dyn Model, request: &Request<'_>) -> Result<ModelAnswer, ModelError> {
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

//! `houston ask`: one question to a model, without an agent, Postgres or Redis.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Args;
use futures_util::StreamExt as _;
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, StopReason, Usage};
use houston_llm::{Answer, AnswerSchema, Description, Event, Model, Price, Request, call};
use serde_json::{Value, json};

use super::{Context, Failure, runtime};
use crate::models;
use crate::output::{Painted, Stream, paint, print, print_json, tell};

/// Ask a model one thing: whether its key works, how it answers, what that costs.
///
/// The model is that of the use case, or HOUSTON_MODEL=provider/model. Exits 1 when there is no answer.
#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// What is asked
    #[arg(required = true)]
    question: Vec<String>,
    /// Whose model is asked: agent, summaries, titles, planner or routing
    #[arg(long, default_value = "agent")]
    use_case: String,
    /// A file with the JSON Schema of an object: the answer must fit it
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The longest answer, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 1024)]
    max_tokens: u32,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Ask {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let schema = self.schema.as_deref().map(read_schema).transpose().map_err(Failure::Usage)?;
        let entries = [Entry::user(vec![Block::text(self.question.join(" "))])];
        let request = Request {
            entries: &entries,
            max_output_tokens: self.max_tokens,
            answer_schema: schema.as_ref().map(|schema| AnswerSchema { name: "answer", schema }),
            ..Request::default()
        };
        runtime()?.block_on(async {
            let models = models::build(&context.loaded).await.map_err(anyhow::Error::from)?;
            let known = || models.by_use_case.keys().cloned().collect::<Vec<_>>().join(", ");
            let model = models.by_use_case.get(&self.use_case).ok_or_else(|| {
                Failure::Usage(anyhow!("there is no use case `{}`; there are: {}", self.use_case, known()))
            })?;
            let streamed = !self.json && schema.is_none();
            let asked = async {
                if streamed { stream(&**model, &request).await } else { call(&**model, &request).await }
            };
            let answer = tokio::select! {
                answer = asked => answer.map_err(|error| Failure::Other(error.into()))?,
                _ = tokio::signal::ctrl_c() => return Ok(ExitCode::from(130)),
            };
            show(&answer, self.json, streamed);
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn read_schema(path: &std::path::Path) -> anyhow::Result<Value> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    let schema: Value = serde_json::from_str(&text).with_context(|| format!("{shown} is no JSON"))?;
    anyhow::ensure!(
        schema["type"] == "object",
        "{shown}: the schema must be that of an object (type = object)"
    );
    Ok(schema)
}

/// Prints the answer while it comes.
async fn stream(model: &dyn Model, request: &Request<'_>) -> Result<Answer, ModelError> {
    let mut events = model.stream(request).await?;
    let mut answer = Answer {
        text: String::new(),
        value: None,
        stop: StopReason::EndTurn,
        usage: Usage::default(),
        model: model.description().clone(),
    };
    while let Some(event) = events.next().await {
        match event? {
            Event::Text(text) => {
                let mut piece = Painted::default();
                piece.text(&text);
                paint(Stream::Out, &piece);
                answer.text.push_str(&text);
            }
            Event::Fallback(switch) => {
                tell(&format!("{} did not answer ({}), asking {}", switch.from, switch.message, switch.to));
            }
            Event::Answering(who) => answer.model = *who,
            Event::Done(turn) => (answer.stop, answer.usage) = (turn.stop, turn.usage),
            _ => {}
        }
    }
    Ok(answer)
}

fn show(answer: &Answer, as_json: bool, streamed: bool) {
    let Description { provider, model, .. } = &answer.model;
    let listed = || Price::find(provider, model)?.cost(&answer.usage, SystemClock.now());
    let cost = answer.usage.cost.or_else(listed).map(|cost| cost.normalize());
    if as_json {
        let told = json!({
            "model": answer.model.to_string(), "text": answer.text, "value": answer.value, "stop": answer.stop,
            "usage": Usage { cost: None, ..answer.usage }, "cost": cost,
        });
        return print_json(&told);
    }
    match (&answer.value, streamed) {
        (Some(value), _) => print(&format!("{value:#}")),
        (None, true) => print(""),
        (None, false) => print(&answer.text),
    }
    let Usage { input_tokens, output_tokens, .. } = answer.usage;
    let cost = cost.map_or("at an unknown price".to_owned(), |cost| format!("for ${cost}"));
    let cut = if answer.stop == StopReason::MaxTokens { ", cut off at its limit" } else { "" };
    tell(&format!("{}: {input_tokens} tokens in, {output_tokens} out{cut}, {cost}", answer.model));
}

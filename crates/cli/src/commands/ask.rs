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

use super::{Context, Failure, Result, runtime};
use crate::models;
use crate::output::{Paint, Painted, Stream, paint, print, print_json, print_stderr};

/// Ask a model one question: checks its key, shows its answer and what it cost.
///
/// Asks the model of the use case, or that of HOUSTON_MODEL=provider/model. Exits 1 when the model does not answer.
#[derive(Debug, Args)]
pub(crate) struct Ask {
    /// The question
    #[arg(required = true)]
    question: Vec<String>,
    /// The use case whose model is asked: agent, summaries, titles, planner or routing
    #[arg(long, default_value = "agent")]
    use_case: String,
    /// A file with the JSON Schema of an object, which the answer must match
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The limit of the answer, in tokens
    #[arg(long, value_name = "TOKENS", default_value_t = 1024)]
    max_tokens: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Ask {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode> {
        let schema = self.schema.as_deref().map(read_schema).transpose().map_err(Failure::Usage)?;
        let entries = [Entry::user(vec![Block::text(self.question.join(" "))])];
        let request = Request {
            entries: &entries,
            max_output_tokens: self.max_tokens,
            answer_schema: schema.as_ref().map(|schema| AnswerSchema {
                name: "answer",
                schema,
                strict: true,
            }),
            ..Request::default()
        };
        runtime()?.block_on(async {
            let models = models::build(&context.loaded).await?;
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
    let file = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{file} cannot be read"))?;
    let schema: Value = serde_json::from_str(&text).with_context(|| format!("{file} is not valid JSON"))?;
    anyhow::ensure!(schema["type"] == "object", "{file}: the schema must have `\"type\": \"object\"`");
    Ok(schema)
}

/// Prints the answer while it arrives.
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
                piece.text(Paint::Plain, &text);
                paint(Stream::Out, &piece);
                answer.text.push_str(&text);
            }
            Event::Fallback(switch) => {
                print_stderr(&format!(
                    "{} did not answer ({}), asking {}",
                    switch.from, switch.message, switch.to
                ));
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
        let object = json!({
            "model": answer.model.to_string(), "text": answer.text, "value": answer.value, "stop": answer.stop,
            "usage": Usage { cost: None, ..answer.usage }, "cost": cost,
        });
        return print_json(&object);
    }
    match (&answer.value, streamed) {
        (Some(value), _) => print(&format!("{value:#}")),
        (None, true) => print(""),
        (None, false) => print(&answer.text),
    }
    let Usage { input_tokens, output_tokens, .. } = answer.usage;
    let cost = cost.map_or("price unknown".to_owned(), |cost| format!("for ${cost}"));
    let cut = if answer.stop == StopReason::MaxTokens { ", cut off at the limit" } else { "" };
    print_stderr(&format!("{}: {input_tokens} tokens in, {output_tokens} out{cut}, {cost}", answer.model));
}

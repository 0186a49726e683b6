//! One question, one answer: the whole of it, bound to a JSON schema on request.
//!
//! A schema goes to the provider, and in words into the prompt: not every provider binds its answers, and those that do
//! write better ones when they are told why. What comes is checked here in any case.

use futures_util::StreamExt as _;
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelErrorCode, ModelTurn, StopReason, Usage};
use serde_json::Value;

use crate::model::{AnswerSchema, Description, Event, Model, Request, SystemPart};
use crate::schema;

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// The same as JSON, when it was bound to a schema.
    pub value: Option<Value>,
    /// Why it ended: at its limit, it is not complete.
    pub stop: StopReason,
    /// What it used, the attempt that was mended included.
    pub usage: Usage,
    /// Who answered.
    pub model: Description,
}

/// Asks `model` and waits for the end of its answer. An answer that departs from the request's schema is sent back once,
/// with what is wrong with it.
///
/// # Errors
/// As [`Model::stream`]; `INVALID_RESPONSE` when the second answer departs from the schema, too.
pub async fn call(model: &dyn Model, request: &Request<'_>) -> Result<Answer, ModelError> {
    let Some(form) = request.answer_schema else { return ask(model, request).await };
    let mut system = request.system.to_vec();
    system.push(SystemPart { text: instruction(&form), cached: false });
    let request = Request { system: &system, ..*request };
    let first = ask(model, &request).await?;
    let fault = match read(&form, &first) {
        Ok(value) => return Ok(Answer { value: Some(value), ..first }),
        Err(fault) => fault,
    };
    tracing::warn!(model = %first.model, fault, "an answer departs from its schema, asking for it again");
    let mut entries = request.entries.to_vec();
    // No history may have an empty text.
    let said = if first.text.trim().is_empty() { "(nothing)" } else { &first.text };
    entries.push(Entry::assistant(vec![Block::text(said)]));
    let told = format!("This is not what was asked for: {fault}. Answer again, with the JSON object alone.");
    entries.push(Entry::user(vec![Block::text(told)]));
    let second = ask(model, &Request { entries: &entries, input_tokens: None, ..request }).await?;
    let mut usage = first.usage;
    usage += second.usage;
    match read(&form, &second) {
        Ok(value) => Ok(Answer { value: Some(value), usage, ..second }),
        Err(fault) => {
            let message = format!("{}: twice no answer of the form `{}`: {fault}", second.model, form.name);
            Err(ModelError::new(ModelErrorCode::InvalidResponse, message))
        }
    }
}

/// One call, collected.
async fn ask(model: &dyn Model, request: &Request<'_>) -> Result<Answer, ModelError> {
    let mut stream = model.stream(request).await?;
    let mut answering = model.description().clone();
    while let Some(event) = stream.next().await {
        match event? {
            Event::Answering(description) => answering = *description,
            Event::Done(turn) => return Ok(whole(*turn, answering)),
            _ => {}
        }
    }
    let message = format!("{answering}: the answer ended before it was complete");
    Err(ModelError::new(ModelErrorCode::InvalidResponse, message))
}

fn whole(turn: ModelTurn, model: Description) -> Answer {
    let texts = turn.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    Answer { text: texts.collect(), value: None, stop: turn.stop, usage: turn.usage, model }
}

fn instruction(form: &AnswerSchema<'_>) -> String {
    format!(
        "Answer with one JSON object and nothing else: no words before or after it, no code fence. It must match this \
         JSON Schema:\n{}",
        form.schema
    )
}

/// The value of an answer.
///
/// # Errors
/// What is wrong with it, for its author.
fn read(form: &AnswerSchema<'_>, answer: &Answer) -> Result<Value, String> {
    let value = serde_json::from_str(unfenced(&answer.text)).map_err(|error| match answer.stop {
        StopReason::MaxTokens => "it was cut off at the limit of its length".to_owned(),
        StopReason::Refusal => "it was declined".to_owned(),
        _ => format!("it is no JSON ({error})"),
    })?;
    schema::check(form.schema, &value).map_err(|mismatch| mismatch.to_string())?;
    Ok(value)
}

/// The inside of a code fence, which models put around JSON whatever they are told.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    inside.map_or(text, |inside| inside.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim())
}

//! Asks a model and waits for the complete answer, optionally validated against a JSON schema. An answer that thinking has used up
//! is asked for again, once, with more room.
//!
//! A schema is sent to the provider and also described in the prompt: not every provider enforces schemas, and those
//! that do write better answers when the prompt explains them. The answer is validated here in any case.

use futures_util::StreamExt as _;
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelAnswer, ModelError, ModelErrorCode, StopReason, Usage};
use houston_domain::question::schema::{self, Mismatch};
use serde_json::Value;

use crate::model::{AnswerSchema, Description, Event, Model, Request, SystemPart};

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The text of the answer.
    pub text: String,
    /// The text parsed as JSON, if the request had a schema.
    pub value: Option<Value>,
    /// Why the answer ended. With [`StopReason::MaxTokens`] it is incomplete.
    pub stop: StopReason,
    /// Tokens used, including a first answer that violated the schema.
    pub usage: Usage,
    /// The model that answered.
    pub model: Description,
}

/// What the error of a call says whose answers violate the request's schema.
pub const MISMATCH: &str = "did not match the schema";

/// Asks `model` and waits for the complete answer. An answer that violates the request's schema is sent back once,
/// with a description of the violation.
///
/// # Errors
/// As [`Model::stream`]; `INVALID_RESPONSE` when the second answer violates the schema, too; `OUTPUT_LIMIT_REACHED` when thinking
/// has used up an answer, also with twice as much room.
pub async fn call(model: &dyn Model, request: &Request<'_>) -> Result<Answer, ModelError> {
    let Some(answer_schema) = request.answer_schema else { return ask(model, request).await };
    let mut system = request.system.to_vec();
    system.push(SystemPart { text: instruction(&answer_schema), cached: false });
    let request = Request { system: &system, ..*request };
    let first = ask(model, &request).await?;
    let fault = match read(&answer_schema, &first) {
        Ok(value) => return Ok(Answer { value: Some(value), ..first }),
        Err(fault) => fault,
    };
    tracing::warn!(model = %first.model, fault, "the answer violates its schema; asking again");
    let mut entries = request.entries.to_vec();
    // A history must not contain an empty text.
    let answer_text = if first.text.trim().is_empty() { "(nothing)" } else { &first.text };
    entries.push(Entry::assistant(vec![Block::text(answer_text)]));
    let correction =
        format!("Your answer does not match the schema: {fault}. Answer again with the JSON object only.");
    entries.push(Entry::user(vec![Block::text(correction)]));
    let second = ask(model, &Request { entries: &entries, input_tokens: None, ..request }).await?;
    let mut usage = first.usage;
    usage += second.usage;
    match read(&answer_schema, &second) {
        Ok(value) => Ok(Answer { value: Some(value), usage, ..second }),
        Err(fault) => {
            let message = format!(
                "{}: two answers in a row {MISMATCH} `{}`: {fault}",
                second.model, answer_schema.name
            );
            Err(ModelError::new(ModelErrorCode::InvalidResponse, message))
        }
    }
}

/// Makes one call and collects its answer; another one with more room if thinking has used up the first.
async fn ask(model: &dyn Model, request: &Request<'_>) -> Result<Answer, ModelError> {
    let (first, answering) = collected(model, request).await?;
    if !first.is_used_up() {
        return Ok(whole(first, answering));
    }
    let limit = request.max_output_tokens;
    let more = more_room(limit, &answering).ok_or_else(|| used_up(limit, &answering))?;
    tracing::warn!(model = %answering, limit, more, "thinking has used up an answer; asking again with more room");
    let mut usage = first.usage;
    let (second, answering) = collected(model, &Request { max_output_tokens: more, ..*request }).await?;
    if second.is_used_up() {
        return Err(used_up(more, &answering));
    }
    usage += second.usage;
    Ok(Answer { usage, ..whole(second, answering) })
}

/// Makes one call: its answer, and the model that gave it.
pub(crate) async fn collected(
    model: &dyn Model,
    request: &Request<'_>,
) -> Result<(ModelAnswer, Description), ModelError> {
    let mut stream = model.stream(request).await?;
    let mut answering = model.description().clone();
    while let Some(event) = stream.next().await {
        match event? {
            Event::Answering(description) => answering = *description,
            Event::Done(turn) => return Ok((*turn, answering)),
            _ => {}
        }
    }
    let message = format!("{answering}: the answer ended before it was complete");
    Err(ModelError::new(ModelErrorCode::InvalidResponse, message))
}

fn whole(turn: ModelAnswer, model: Description) -> Answer {
    Answer { text: text_of(&turn), value: None, stop: turn.stop, usage: turn.usage, model }
}

/// The texts of an answer, joined.
pub(crate) fn text_of(answer: &ModelAnswer) -> String {
    let texts = answer.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Tells a model in which form to answer.
pub fn instruction(answer_schema: &AnswerSchema<'_>) -> String {
    format!(
        "Answer with one JSON object and nothing else: no words before or after it, no code fence. It must match this \
         JSON Schema:\n{}",
        answer_schema.schema
    )
}

/// Parses and validates an answer.
///
/// # Errors
/// A description of what is wrong, addressed to the model.
fn read(answer_schema: &AnswerSchema<'_>, answer: &Answer) -> Result<Value, String> {
    let json = read_result(answer_schema, &answer.text, answer.stop)?;
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// The JSON in an answer, without a code fence around it, if it has the form that was asked for.
///
/// # Errors
/// A description of what is wrong, addressed to the model.
pub fn read_result<'t>(
    answer_schema: &AnswerSchema<'_>,
    text: &'t str,
    stop: StopReason,
) -> Result<&'t str, String> {
    let json = unfenced(text);
    let value = serde_json::from_str(json).map_err(|error| match stop {
        StopReason::MaxTokens => "it was cut off at the output token limit".to_owned(),
        StopReason::Refusal => "it was declined".to_owned(),
        _ => format!("it is not valid JSON ({error})"),
    })?;
    schema::check(answer_schema.schema, &value).map_err(|Mismatch { pointer, reason }| {
        let at = if pointer.is_empty() { "the answer" } else { &pointer };
        format!("{at}: {reason}")
    })?;
    Ok(json)
}

/// The content of a code fence, which models put around JSON even when asked not to.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inside = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    inside.map_or(text, |inside| inside.trim_start_matches(|c: char| c.is_ascii_alphabetic()).trim())
}

/// The limit with which an answer is asked for again whose `limit` of output tokens was used up by thinking: twice as much, at
/// most what the model can. `None` when it can no more, or when its thinking does not count.
pub fn more_room(limit: u32, model: &Description) -> Option<u32> {
    let profile = model.profile();
    let most = profile
        .capabilities
        .max_output_tokens
        .map_or(u32::MAX, |most| u32::try_from(most).unwrap_or(u32::MAX));
    let more = limit.saturating_mul(2).min(most);
    (profile.thinking_shares_limit && more > limit).then_some(more)
}

/// The error of an answer whose `limit` of output tokens was used up by thinking.
pub fn used_up(limit: u32, model: &Description) -> ModelError {
    let message = format!(
        "{model}: thinking has used up the {limit} output tokens of the answer before the model wrote anything; raise \
         max_output_tokens, or let it think less"
    );
    ModelError::new(ModelErrorCode::OutputLimitReached, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_doubled_up_to_what_the_model_can() {
        let model = |provider: &str, model: &str| Description {
            provider: provider.to_owned(),
            model: model.to_owned(),
            simulated: false,
            supports_tools: true,
        };
        let gpt = model("openai", "gpt-5-mini");
        assert_eq!(more_room(4_096, &gpt), Some(8_192));
        assert_eq!(more_room(100_000, &gpt), Some(128_000));
        assert_eq!(more_room(128_000, &gpt), None);
        assert_eq!(more_room(4_096, &model("local", "unlisted")), Some(8_192));
        let error = used_up(8_192, &gpt);
        assert!(
            error.code == ModelErrorCode::OutputLimitReached && error.message.contains("8192"),
            "{error}"
        );
    }
}

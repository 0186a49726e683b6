//! What a chat has that is new: a message of the user, or the assistant's message with answers to what the run waits for.

use std::collections::HashSet;
use std::sync::Arc;

use houston_domain::client_offer::{ClientOffer, ClientTool, ContextItem, failed};
use houston_domain::id::{MessageId, QuestionId};
use houston_protocol::agui::EntityId;
use houston_protocol::ai_sdk::{ChatRequest, UiMessage};
use houston_protocol::message::MessageImage;
use houston_store::Error;
use serde_json::Value;

use crate::error::ApiError;
use crate::events::ag_ui::answers::{Answers, CallResult, checked, of_calls};
use crate::threads::Thread;

/// What the client offers the run that answers.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when `tools` has another shape.
pub(super) fn offer(request: &ChatRequest) -> Result<ClientOffer, ApiError> {
    let tools = request.client_tools().ok_or_else(|| {
        let shape =
            "must be a list of tools, or an object of tools by name; each has `description` and `parameters`";
        ApiError::field("/tools", shape)
    })?;
    let tools = tools.into_iter().map(|tool| ClientTool {
        name: tool.name,
        description: tool.description,
        parameters: Arc::new(tool.parameters),
    });
    let context = request
        .context
        .iter()
        .map(|item| ContextItem { description: item.description.clone(), value: item.value.clone() });
    Ok(ClientOffer { tools: tools.collect(), context: context.collect(), ..ClientOffer::default() }.focused())
}

/// The text and the images of a message of the user. `nth`: where it is in the request.
///
/// # Errors
/// [`ApiError::InvalidRequest`] at a part of another type.
pub(super) fn content(nth: usize, message: &UiMessage) -> Result<(String, Vec<MessageImage>), ApiError> {
    let (mut text, mut images) = (String::new(), Vec::new());
    for (at, part) in message.parts.iter().enumerate() {
        match part["type"].as_str() {
            Some("text") => text.push_str(part["text"].as_str().unwrap_or_default()),
            Some("file") => {
                let image = image(part).ok_or_else(|| {
                    let allowed = "must be an image: a `mediaType` of `image/…`, and a `url` with https: or data: in Base64";
                    ApiError::field(&format!("/messages/{nth}/parts/{at}"), allowed)
                })?;
                images.push(image);
            }
            // Clients keep data and steps in messages; the model reads neither.
            _ => {}
        }
    }
    Ok((text, images))
}

fn image(part: &Value) -> Option<MessageImage> {
    let (media_type, url) = (part["mediaType"].as_str()?, part["url"].as_str()?);
    if !media_type.starts_with("image/") {
        return None;
    }
    match url.strip_prefix("data:") {
        Some(data) => {
            let (kind, data) = data.split_once(',')?;
            kind.ends_with(";base64").then(|| MessageImage { data: Some(data.to_owned()), url: None })
        }
        None => Some(MessageImage { data: None, url: Some(url.to_owned()) }),
    }
}

/// The answers in the last step of the assistant's message, and the calls whose results are among them. `nth`: where it is in
/// the request.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when an answer is for nothing that the run has asked.
pub(super) async fn answers(
    thread: &Thread,
    nth: usize,
    message: &UiMessage,
) -> Result<(Answers, HashSet<MessageId>), ApiError> {
    let is_step = |part: &Value| part["type"] == "step-start";
    let first = message.parts.iter().rposition(is_step).map_or(0, |at| at + 1);
    let (mut answers, mut results) = (Answers::new(), Vec::new());
    for (at, part) in message.parts.iter().enumerate().skip(first).filter(|(_, part)| is_call(part)) {
        let pointer = format!("/messages/{nth}/parts/{at}");
        match part["state"].as_str() {
            Some("approval-responded") => answers.push(approval(thread, &pointer, &part["approval"]).await?),
            Some(state @ ("output-available" | "output-error")) if part["providerExecuted"] != true => {
                results.push(result(pointer, part, state == "output-error")?);
            }
            _ => {}
        }
    }
    let given = results.iter().map(|result| result.cell).collect();
    answers.extend(of_calls(thread, results).await?);
    Ok((answers, given))
}

/// Whether a part is a tool call.
fn is_call(part: &Value) -> bool {
    part["type"].as_str().is_some_and(|kind| kind.starts_with("tool-") || kind == "dynamic-tool")
}

fn result(pointer: String, part: &Value, is_error: bool) -> Result<CallResult, ApiError> {
    let call = part["toolCallId"].as_str().unwrap_or_default();
    let Ok(EntityId::Message(cell)) = call.parse::<EntityId>() else {
        let reason = "must be the id of a call that waits, as in `msg_0190…`";
        return Err(ApiError::field(&format!("{pointer}/toolCallId"), reason));
    };
    let result = match is_error {
        true => failed(part["errorText"].as_str().unwrap_or("it failed")),
        false => part["output"].clone(),
    };
    Ok(CallResult { pointer, cell, result })
}

/// The answer to an approval.
async fn approval(thread: &Thread, pointer: &str, approval: &Value) -> Result<(QuestionId, Value), ApiError> {
    let reason = "is no approval of this chat that waits";
    let unknown = || ApiError::field(&format!("{pointer}/approval/id"), reason);
    let id: QuestionId = approval["id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(unknown)?;
    let Thread { app, caller, path } = thread;
    let question = match app.store(*caller).question(id).await {
        Ok(asked) if asked.agentable == path.id => asked.question,
        Ok(_) | Err(Error::NotFound { .. }) => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let approved = approval["approved"].as_bool();
    let approved = approved
        .ok_or_else(|| ApiError::field(&format!("{pointer}/approval/approved"), "must be true or false"))?;
    let message = approval["reason"].as_str().map(str::to_owned);
    let answer = question.asked.plain_answer(approved, message).ok_or_else(unknown)?;
    Ok((id, checked(&question, answer, &format!("{pointer}/approval"))?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_images_of_a_message_are_read() {
        let message = |parts: Value| UiMessage {
            id: "m".into(),
            role: "user".into(),
            parts: serde_json::from_value(parts).unwrap(),
        };
        let read = content(
            2,
            &message(json!([
                {"type": "text", "text": "What is "}, {"type": "text", "text": "this?"},
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
                {"type": "file", "mediaType": "image/png", "url": "https://a.example/b.png"},
            ])),
        );
        let images = vec![
            MessageImage { data: Some("AAAA".into()), url: None },
            MessageImage { data: None, url: Some("https://a.example/b.png".into()) },
        ];
        assert_eq!(read.unwrap(), ("What is this?".into(), images));
        let other = json!([{"type": "file", "mediaType": "audio/wav", "url": "https://a.example/b.wav"}]);
        assert!(matches!(
            content(2, &message(other)),
            Err(ApiError::InvalidRequest { errors }) if errors[0].pointer.as_deref() == Some("/messages/2/parts/0")
        ));
    }
}

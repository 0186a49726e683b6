//! What a message of a client says: its text, its images, and its data.

use houston_protocol::a2a::{A2AError, SentMessage, SentPart};
use houston_protocol::message::MessageImage;
use serde_json::Value;

use super::error::Refusal;
use crate::error::ApiError;

/// The parts of a message, by what they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Content {
    /// The texts, and data as blocks of JSON, in their order.
    pub(super) text: String,
    pub(super) images: Vec<MessageImage>,
    /// The only data, if there is one part of it.
    pub(super) data: Option<Value>,
}

/// # Errors
/// [`A2AError::content_type_not_supported`] when a part is a file that is no image, [`ApiError::InvalidRequest`] when one has no content.
pub(super) fn content(message: &SentMessage) -> Result<Content, Refusal> {
    let mut content = Content::default();
    let (mut texts, mut data) = (Vec::new(), Vec::new());
    for (nth, part) in message.parts.iter().enumerate() {
        match part {
            SentPart { text: Some(text), .. } => texts.push(text.clone()),
            SentPart { raw: Some(raw), .. } if is_image(part) => {
                content.images.push(MessageImage { data: Some(raw.clone()), url: None });
            }
            SentPart { url: Some(url), .. } if is_image(part) => {
                content.images.push(MessageImage { data: None, url: Some(url.clone()) });
            }
            SentPart { data: Some(value), .. } => {
                texts.push(format!("```json\n{value}\n```"));
                data.push(value.clone());
            }
            SentPart { raw: None, url: None, .. } => {
                let pointer = format!("/message/parts/{nth}");
                return Err(
                    ApiError::field(&pointer, "must have one of `text`, `raw`, `url` and `data`").into()
                );
            }
            _ => {
                let mut error = A2AError::content_type_not_supported();
                error.message = format!(
                    "part {nth} is a file that is not read: send text, data, or an image (`mediaType` image/png, image/jpeg, \
                     image/webp or image/gif)"
                );
                return Err(error.into());
            }
        }
    }
    content.text = texts.join("\n\n");
    content.data = data.pop().filter(|_| data.is_empty());
    Ok(content)
}

fn is_image(part: &SentPart) -> bool {
    part.media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"))
}

#[cfg(test)]
mod tests {
    use houston_protocol::a2a::error_code;
    use serde_json::json;

    use super::*;

    fn read(parts: Value) -> Result<Content, Refusal> {
        content(&serde_json::from_value(json!({"messageId": "1", "parts": parts})).unwrap())
    }

    #[test]
    fn texts_data_and_images_are_read_in_order() {
        let read = read(json!([
            {"text": "one"}, {"data": {"a": 1}}, {"url": "https://example.com/a.png", "mediaType": "image/png"}, {"text": "two"}
        ]))
        .unwrap();
        assert_eq!(read.text, "one\n\n```json\n{\"a\":1}\n```\n\ntwo");
        assert_eq!((read.data, read.images.len()), (Some(json!({"a": 1})), 1));
    }

    #[test]
    fn other_files_and_empty_parts_are_refused() {
        let file = read(json!([{"raw": "aGk=", "mediaType": "application/pdf"}])).unwrap_err();
        let Refusal::Protocol(error) = file else { panic!("{file:?}") };
        assert_eq!(error.code, error_code::CONTENT_TYPE_NOT_SUPPORTED);
        assert!(matches!(
            read(json!([{"text": "a"}, {}])),
            Err(Refusal::Api(ApiError::InvalidRequest { .. }))
        ));
        let two = read(json!([{"data": 1}, {"data": 2}])).unwrap();
        assert_eq!(two.data, None);
    }
}

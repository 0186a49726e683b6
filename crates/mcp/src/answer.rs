//! What the model reads of a server's answer, or of its failure.

use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ResourceContents};

use crate::error::CallError;
use crate::text::cleaned;

/// The most characters of a name, an address or a type that is put into a line.
const MAX_WORD: usize = 500;

/// The response to a call of class `effect`.
pub(crate) fn response(effect: EffectClass, answer: Result<CallToolResult, CallError>) -> ToolResponse {
    match answer {
        Ok(result) => {
            let text = text(&result);
            let failed = |text: String| ToolResponse::failure(ToolErrorCode::Unknown, text);
            match (result.is_error == Some(true), text.is_empty()) {
                (true, true) => failed("the server says that it failed, but not why".to_owned()),
                (true, false) => failed(text),
                (false, true) => ToolResponse::success("Done; the server answered with nothing."),
                (false, false) => ToolResponse::success(text),
            }
        }
        Err(error) => {
            let doubt = if effect != EffectClass::Read && may_have_happened(&error) {
                ". It may have happened: check before you try again"
            } else {
                ""
            };
            ToolResponse::failure(code(&error), format!("{error}{doubt}"))
        }
    }
}

fn code(error: &CallError) -> ToolErrorCode {
    match error {
        CallError::Start | CallError::OwnStart(_) | CallError::Paused(_) | CallError::Unsupported(_) => {
            ToolErrorCode::ConfigError
        }
        CallError::Changed => ToolErrorCode::PermissionDenied,
        CallError::Asked(_) | CallError::TaskCancelled => ToolErrorCode::Unknown,
        CallError::TaskTooOld => ToolErrorCode::Timeout,
        CallError::Gone => ToolErrorCode::NotFound,
        CallError::List(_) | CallError::Closed | CallError::TooLarge(_) => ToolErrorCode::IoError,
        CallError::Http { status: Some(401 | 403), .. } => ToolErrorCode::PermissionDenied,
        CallError::Http { status: Some(429), .. } => ToolErrorCode::RateLimited,
        CallError::Http { .. } => ToolErrorCode::IoError,
        CallError::Timeout(_) | CallError::Starting(_) => ToolErrorCode::Timeout,
        CallError::NotSent(error) | CallError::TaskLost(error) => self::code(error),
        CallError::Rpc { code, message } => match ErrorCode(*code) {
            ErrorCode::INVALID_PARAMS if is_unknown_tool(message) => ToolErrorCode::NotFound,
            ErrorCode::INVALID_PARAMS => ToolErrorCode::ValidationError,
            ErrorCode::METHOD_NOT_FOUND | ErrorCode::RESOURCE_NOT_FOUND => ToolErrorCode::NotFound,
            _ => ToolErrorCode::Unknown,
        },
    }
}

/// Servers have one code for unknown tools and wrong arguments.
fn is_unknown_tool(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("tool") && (message.contains("unknown") || message.contains("not found"))
}

fn may_have_happened(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Closed
            | CallError::Http { .. }
            | CallError::TooLarge(_)
            | CallError::Timeout(_)
            | CallError::Unsupported(_)
            | CallError::Asked(_)
            | CallError::TaskCancelled
            | CallError::TaskLost(_)
            | CallError::TaskTooOld
    )
}

/// The texts of a result. What is no text is named; links are not followed. The structured content is for programs, and
/// is used when there is no text.
fn text(result: &CallToolResult) -> String {
    let lines: Vec<String> =
        result.content.iter().map(block).filter(|line| !line.trim().is_empty()).collect();
    match &result.structured_content {
        Some(value) if lines.is_empty() => value.to_string(),
        _ => lines.join("\n"),
    }
}

fn block(block: &ContentBlock) -> String {
    let word = |text: &str| cleaned(text, MAX_WORD);
    let not_shown = |what: &str, name: &str, base64: &str| {
        format!("[{what}{}, {} characters of base64: not shown]", word(name), base64.len())
    };
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => not_shown("an image, ", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => not_shown("audio, ", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("{}:\n{text}", word(uri)),
            ResourceContents::BlobResourceContents { uri, blob, .. } => not_shown("", uri, blob),
            _ => "[something else: not shown]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[link: {} {}]", word(&link.name), word(&link.uri)),
        _ => "[something else: not shown]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(result: Value) -> ToolResponse {
        response(EffectClass::Effect, Ok(serde_json::from_value(result).unwrap()))
    }

    #[test]
    fn texts_are_shown_and_everything_else_is_named() {
        let shown = of(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "two"}},
            {"type": "resource_link", "name": "b", "uri": "https://example.com/b"},
        ], "structuredContent": {"a": 1}}));
        assert_eq!(
            shown.text(),
            "one\n[an image, image/png, 4 characters of base64: not shown]\nfile:///a:\ntwo\n[link: b https://example.com/b]"
        );
        assert_eq!(of(json!({"content": [], "structuredContent": {"a": 1}})).text(), "{\"a\":1}");
        assert!(of(json!({"content": []})).text().contains("nothing"));
    }

    #[test]
    fn failed_results_carry_the_text_of_the_server() {
        let failed = of(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert_eq!(failed, ToolResponse::failure(ToolErrorCode::Unknown, "no such file"));
    }

    #[test]
    fn errors_have_codes_and_say_what_may_have_happened() {
        let http = |status| CallError::Http { reason: "oops".to_owned(), status };
        let rpc = |code, message: &str| CallError::Rpc { code, message: message.to_owned() };
        for (error, code, is_doubtful) in [
            (CallError::Closed, ToolErrorCode::IoError, true),
            (CallError::TooLarge(1), ToolErrorCode::IoError, true),
            (CallError::Timeout(60), ToolErrorCode::Timeout, true),
            (CallError::NotSent(Box::new(CallError::Closed)), ToolErrorCode::IoError, false),
            (CallError::NotSent(Box::new(CallError::Timeout(60))), ToolErrorCode::Timeout, false),
            (http(None), ToolErrorCode::IoError, true),
            (http(Some(503)), ToolErrorCode::IoError, true),
            (CallError::NotSent(Box::new(http(Some(401)))), ToolErrorCode::PermissionDenied, false),
            (CallError::NotSent(Box::new(http(Some(429)))), ToolErrorCode::RateLimited, false),
            (CallError::Starting(60), ToolErrorCode::Timeout, false),
            (CallError::List("oops".to_owned()), ToolErrorCode::IoError, false),
            (CallError::Start, ToolErrorCode::ConfigError, false),
            (CallError::Paused(3), ToolErrorCode::ConfigError, false),
            (CallError::Changed, ToolErrorCode::PermissionDenied, false),
            (CallError::Gone, ToolErrorCode::NotFound, false),
            (rpc(-32602, "Unknown tool: fly"), ToolErrorCode::NotFound, false),
            (rpc(-32602, "`path` is missing"), ToolErrorCode::ValidationError, false),
            (rpc(-32603, "oops"), ToolErrorCode::Unknown, false),
        ] {
            for effect in [EffectClass::Effect, EffectClass::Read] {
                let ToolResponse::Failure { error: text, code: given } = response(effect, Err(error.clone()))
                else {
                    panic!("{error} is no success")
                };
                assert_eq!(given, code, "{error}");
                let doubt = is_doubtful && effect == EffectClass::Effect;
                assert_eq!(text.contains("may have happened"), doubt, "{text}");
            }
        }
    }
}

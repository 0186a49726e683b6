//! Approvals: questions whether a tool call may be carried out, and what people answer.
//!
//! The question's subject is the id of the call. Its schema is that of the answers ([`answer_schema`]), so that a client
//! can check an edited call before it sends it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::id::MessageId;
use crate::tool_call::{ToolErrorCode, ToolResponse};

/// Maximum number of characters of the message of an answer.
pub const MAX_MESSAGE_CHARS: usize = 4000;

/// The call that an approval is about.
///
/// ```json
/// {"tool": "delete_note", "input": {"note_id": "note_0192a3b4c5d67e8f9a0b1c2d3e4f5061"},
///  "why": "it deletes something for good", "message_id": "msg_0192a3b4c5d67e8f9a0b1c2d3e4f5061"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The tool.
    pub tool: String,
    /// Its arguments, as the model gave them.
    pub input: Value,
    /// Why a person is asked, as a clause: `it deletes something for good`.
    pub why: String,
    /// The thread message (tool cell) that shows the call.
    pub message_id: MessageId,
    /// What it would change, as it was when the question was asked: a unified diff of a file. Many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

/// What a person answers to an approval.
///
/// ```json
/// {"decision": "approve"}
/// {"decision": "edit", "input": {"title": "Hotels in Rome"}}
/// {"decision": "reject", "message": "not today"}
/// {"decision": "respond", "message": "I have done it myself"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalAnswer {
    /// The call is carried out.
    Approve {},
    /// The call is carried out with other arguments, if the guards allow that.
    Edit {
        /// All of its arguments.
        input: Value,
    },
    /// The call is not carried out.
    Reject {
        /// Why not, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The call is not carried out; the model reads the message as its result.
    Respond {
        /// The result.
        message: String,
    },
}

impl ApprovalAnswer {
    /// Parses an answer that matches [`answer_schema`]; `None` if it does not match.
    #[must_use]
    pub fn from_value(answer: &Value) -> Option<Self> {
        Self::deserialize(answer).ok()
    }
}

/// The JSON Schema of the answers to an approval of a tool whose arguments have the schema `input`.
#[must_use]
pub fn answer_schema(input: &Value) -> Value {
    let message = json!({"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_CHARS});
    let option = |title: &str, decision: &str, fields: &[(&str, &Value)], required: &[&str]| {
        let mut properties = serde_json::Map::new();
        properties.insert("decision".to_owned(), json!({"const": decision}));
        properties.extend(fields.iter().map(|(name, schema)| ((*name).to_owned(), (*schema).clone())));
        let mut names = vec!["decision"];
        names.extend(required);
        json!({"title": title, "properties": properties, "required": names, "additionalProperties": false})
    };
    json!({
        "type": "object",
        "properties": {"decision": {"enum": ["approve", "edit", "reject", "respond"]}},
        "required": ["decision"],
        "oneOf": [
            option("Approve", "approve", &[], &[]),
            option("Change the arguments", "edit", &[("input", input)], &["input"]),
            option("Reject", "reject", &[("message", &message)], &[]),
            option("Answer instead", "respond", &[("message", &message)], &["message"]),
        ],
    })
}

/// The question's text: `Delete note: it deletes something for good. Allow it?`
#[must_use]
pub fn question_text(title: &str, why: &str) -> String {
    format!("{title}: {why}. Allow it?")
}

/// The response of a call that a person rejected.
#[must_use]
pub fn rejected(message: Option<&str>) -> ToolResponse {
    let reason = message.map_or_else(String::new, |message| format!(": {message}"));
    ToolResponse::failure(
        ToolErrorCode::PermissionDenied,
        format!("not carried out: your user said no{reason}"),
    )
}

/// The response of a call whose approval expired.
#[must_use]
pub fn expired() -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::PermissionDenied,
        "not carried out: it needs a person's approval, and no answer came in time",
    )
}

/// The response of a call that waited for an approval when its run ended.
#[must_use]
pub fn never_decided() -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::PermissionDenied,
        "not carried out: the run ended before a person had approved it",
    )
}

/// The response of a call whose user wrote a message instead of answering.
#[must_use]
pub fn superseded() -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::PermissionDenied,
        "not carried out: your user wrote a message before it was approved. Read the message first.",
    )
}

/// The note before the result of a call that was carried out with other arguments than the history has.
#[must_use]
pub fn edited_note(input: &Value) -> String {
    format!("[your user changed the arguments: carried out with {input}]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::schema::check;

    fn schema() -> Value {
        answer_schema(&json!({
            "type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"],
            "additionalProperties": false
        }))
    }

    #[test]
    fn answers_of_the_schema_are_parsed() {
        for (answer, expected) in [
            (json!({"decision": "approve"}), ApprovalAnswer::Approve {}),
            (
                json!({"decision": "edit", "input": {"title": "x"}}),
                ApprovalAnswer::Edit { input: json!({"title": "x"}) },
            ),
            (json!({"decision": "reject"}), ApprovalAnswer::Reject { message: None }),
            (
                json!({"decision": "respond", "message": "done"}),
                ApprovalAnswer::Respond { message: "done".to_owned() },
            ),
        ] {
            check(&schema(), &answer).unwrap();
            assert_eq!(ApprovalAnswer::from_value(&answer), Some(expected.clone()));
            assert_eq!(serde_json::to_value(expected).unwrap(), answer);
        }
    }

    #[test]
    fn wrong_answers_say_where_they_are_wrong() {
        for (answer, pointer, reason) in [
            (json!(true), "", "must be of type \"object\""),
            (json!({}), "/decision", "is missing"),
            (json!({"decision": "yes"}), "/decision", "approve"),
            (json!({"decision": "edit"}), "/input", "is missing"),
            (json!({"decision": "edit", "input": {"title": 1}}), "/input/title", "string"),
            (json!({"decision": "edit", "input": {"title": "x", "more": 1}}), "/input/more", "field"),
            (json!({"decision": "approve", "input": {}}), "/input", "field"),
            (json!({"decision": "respond", "message": ""}), "/message", "at least 1"),
        ] {
            let wrong = check(&schema(), &answer).unwrap_err();
            assert_eq!(wrong.pointer, pointer, "{answer}: {wrong:?}");
            assert!(wrong.reason.contains(reason), "{answer}: {wrong:?}");
        }
    }
}

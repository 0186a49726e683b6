//! Approvals: questions whether a tool call may be carried out, and what people answer.
//!
//! The question's subject is the id of the call. Its schema is that of the answers ([`answer_schema`]), so that a client
//! can check an edited call before it sends it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::Mismatch;
use super::{Choice, one_of};
use crate::guard::{Grant, GrantScope, Granted, LayerKind};
use crate::id::{Ids, MessageId, QuestionId};
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
    /// The thread message (tool cell) that shows the call; `None`: no thread shows the calls of a plan's steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// What it would change, as it was when the question was asked: a unified diff of a file. Many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Whether a lasting yes is possible.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
    /// The pin of the tool's definition, which a lasting yes is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
}

/// What a person answers to an approval.
///
/// ```json
/// {"decision": "approve"}
/// {"decision": "approve", "remember": {"scope": "agentable", "when": {"/to": {"equals": "ann@example.com"}}}}
/// {"decision": "edit", "input": {"title": "Hotels in Rome"}}
/// {"decision": "reject", "message": "not today"}
/// {"decision": "respond", "message": "I have done it myself"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalAnswer {
    /// The call is carried out.
    Approve {
        /// So are later calls of the tool, without being asked about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remember: Option<Remember>,
    },
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

/// A lasting yes for a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remember {
    /// How far it reaches.
    pub scope: GrantScope,
    /// JSON pointers into the arguments, and what they must be; none: whatever the arguments are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, Granted>,
}

impl ApprovalAnswer {
    /// A yes for this call alone.
    pub const APPROVE: Self = Self::Approve { remember: None };

    /// Parses an answer that matches [`answer_schema`]; `None` if it does not match.
    pub fn from_value(answer: &Value) -> Option<Self> {
        Self::deserialize(answer).ok()
    }
}

/// The lasting yes that an answer gives, if it gives one.
///
/// # Errors
/// [`Mismatch`] when the question allows none, or a condition is wrong.
pub fn granted(approval: &Approval, answer: &Value) -> Result<Option<(GrantScope, Grant)>, Mismatch> {
    if answer.get("remember").is_none() {
        return Ok(None);
    }
    let wrong = |pointer: &str, reason: String| Mismatch { pointer: pointer.to_owned(), reason };
    if !approval.lasting {
        let reason = "this question has no lasting yes: it is asked each time".to_owned();
        return Err(wrong("/remember", reason));
    }
    let remember = match ApprovalAnswer::deserialize(answer) {
        Ok(ApprovalAnswer::Approve { remember: Some(remember) }) => remember,
        Ok(_) => return Ok(None),
        Err(error) => {
            let reason =
                format!("{error}; a condition is {{\"equals\": VALUE}} or {{\"glob\": \"PATTERN\"}}");
            return Err(wrong("/remember/when", reason));
        }
    };
    let Remember { scope, when } = remember;
    let grant = Grant { tool: approval.tool.clone(), when, pin: approval.pin.clone() };
    grant.compile(LayerKind::User).map_err(|error| wrong("/remember/when", error.to_string()))?;
    Ok(Some((scope, grant)))
}

/// The JSON Schema of the answers to an approval of a tool whose arguments have the schema `input`. `lasting`: whether a
/// lasting yes is possible.
pub fn answer_schema(input: &Value, lasting: bool) -> Value {
    let remember = json!({
        "type": "object",
        "properties": {"scope": {"enum": ["agentable", "user"]}, "when": {"type": "object"}},
        "required": ["scope"],
        "additionalProperties": false
    });
    let message = json!({"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_CHARS});
    let choices = [
        Choice::new("Approve", "approve").with("remember", lasting.then_some(&remember), false),
        Choice::new("Change the arguments", "edit").with("input", Some(input), true),
        Choice::new("Reject", "reject").with("message", Some(&message), false),
        Choice::new("Answer instead", "respond").with("message", Some(&message), true),
    ];
    one_of("decision", &choices)
}

/// The schema of the tool's arguments in the schema of an approval's answer.
pub fn arguments(answer_schema: &Value) -> Option<&Value> {
    answer_schema.pointer("/oneOf/1/properties/input")
}

/// The question's text: `Delete note: it deletes something for good. Allow it?`
pub fn question_text(title: &str, why: &str) -> String {
    format!("{title}: {why}. Allow it?")
}

/// How the response of a call begins that a person rejected.
const REJECTED: &str = "not carried out: your user said no";

/// Whether the result of a call that failed says that a person rejected it.
pub fn is_rejection(result: &str) -> bool {
    result.contains(REJECTED)
}

/// The response of a call that a person rejected.
pub fn rejected(message: Option<&str>) -> ToolResponse {
    let reason = message.map_or_else(String::new, |message| format!(": {message}"));
    denied(format!("{REJECTED}{reason}"))
}

/// The response of a call whose approval expired.
pub fn expired() -> ToolResponse {
    denied("not carried out: it needs a person's approval, and no answer came in time")
}

/// The response of a call that waited for an approval when its run ended.
pub fn never_decided() -> ToolResponse {
    denied("not carried out: the run ended before a person had approved it")
}

/// The response of a call whose user wrote a message instead of answering.
pub fn superseded() -> ToolResponse {
    denied("not carried out: your user wrote a message before it was approved. Read the message first.")
}

fn denied(why: impl Into<String>) -> ToolResponse {
    ToolResponse::failure(ToolErrorCode::PermissionDenied, why)
}

/// The note before the result of a call that was carried out with other arguments than the history has.
pub fn edited_note(input: &Value) -> String {
    format!("[your user changed the arguments: carried out with {input}]")
}

/// A new token of a link with which people decide a question. Who has the link may decide, so the token is stored only as a
/// hash: 256 random bits in hex.
pub fn link_token(ids: &Ids) -> String {
    let mut random = [0; 32];
    ids.fill(&mut random);
    hex::encode(random)
}

/// The path of the page that such a link opens, at the address of the API: `/approve/question_0192…/<token>`.
pub fn link_path(question: QuestionId, token: &str) -> String {
    format!("/approve/{question}/{token}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::schema::check;

    fn schema() -> Value {
        answer_schema(
            &json!({
                "type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"],
                "additionalProperties": false
            }),
            false,
        )
    }

    #[test]
    fn answers_of_the_schema_are_parsed() {
        for (answer, expected) in [
            (json!({"decision": "approve"}), ApprovalAnswer::APPROVE),
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

    fn approval(lasting: bool) -> Approval {
        Approval {
            tool: "send_mail".to_owned(),
            input: json!({"to": "ann@example.com"}),
            why: "it sends something out".to_owned(),
            message_id: Some(MessageId(uuid::Uuid::nil())),
            preview: None,
            lasting,
            pin: Some("6f1c".to_owned()),
        }
    }

    #[test]
    fn lasting_yes_is_bound_to_tool_pin_and_conditions() {
        let answer =
            |when: Value| json!({"decision": "approve", "remember": {"scope": "user", "when": when}});
        let to_ann = answer(json!({"/to": {"glob": "*@example.com"}}));
        check(&answer_schema(&json!({}), true), &to_ann).unwrap();
        let (scope, grant) = granted(&approval(true), &to_ann).unwrap().unwrap();
        assert_eq!(scope, GrantScope::User);
        let compiled = grant.compile(LayerKind::User).unwrap();
        let (ann, eve) = (json!({"to": "ann@example.com"}), json!({"to": "eve@evil.example"}));
        assert!(compiled.covers("send_mail", &ann, Some("6f1c")));
        assert!(!compiled.covers("send_mail", &eve, Some("6f1c")), "another argument");
        assert!(!compiled.covers("send_mail", &ann, Some("77aa")), "a changed tool");
        assert!(!compiled.covers("delete_mail", &ann, Some("6f1c")), "another tool");
        for (when, words) in [
            (json!({"to": {"equals": 1}}), "JSON pointer"),
            (json!({"/to": {"glob": "a["}}), "pattern"),
            (json!({"/to": "ann"}), "equals"),
        ] {
            let wrong = granted(&approval(true), &answer(when)).unwrap_err();
            assert_eq!(wrong.pointer, "/remember/when");
            assert!(wrong.reason.contains(words), "{}", wrong.reason);
        }
        assert_eq!(granted(&approval(true), &json!({"decision": "approve"})).unwrap(), None);
    }

    #[test]
    fn question_without_lasting_yes_refuses_one() {
        let answer = json!({"decision": "approve", "remember": {"scope": "user"}});
        assert!(check(&answer_schema(&json!({}), false), &answer).is_err());
        assert_eq!(granted(&approval(false), &answer).unwrap_err().pointer, "/remember");
    }
}

use super::*;
use crate::id::QuestionId;
use crate::question::approval::Approval;
use crate::question::{QuestionKind, QuestionState};

#[test]
fn stored_events_keep_their_shape() {
    let event = Event::RunFinished {
        status: RunStatus::MessageSent,
        iteration: Some(1),
        usage: Usage::default(),
        message: None,
        code: None,
        result: None,
    };
    let stored = serde_json::to_value(&event).unwrap();
    assert_eq!(stored["type"], "run_finished");
    assert_eq!(stored["status"], "message_sent");
    assert_eq!(serde_json::from_value::<Event>(stored).unwrap(), event);
}

#[test]
fn events_of_questions_are_read_as_they_were_written() {
    let asked = NewQuestion {
        id: QuestionId(uuid::Uuid::nil()),
        kind: QuestionKind::Input,
        subject: Some("call_1".into()),
        text: "Which?".into(),
        schema: Some(serde_json::json!({"type": "object", "properties": {"type": {"enum": [1, null]}}})),
        default_value: Some(serde_json::json!([1.5, {"type": "x"}])),
        expires_at: Some(DateTime::UNIX_EPOCH),
        approval: Some(Box::new(Approval {
            tool: "delete_note".into(),
            input: serde_json::json!({"type": "x"}),
            why: "it deletes something".into(),
            message_id: Some(MessageId(uuid::Uuid::nil())),
            preview: Some("-1\n+2\n".into()),
            lasting: true,
            pin: None,
        })),
        message_id: Some(MessageId(uuid::Uuid::nil())),
    };
    let closed =
        ClosedQuestion { id: asked.id, state: QuestionState::Answered, answer: Some(Value::Bool(true)) };
    for event in [Event::QuestionAsked(Box::new(asked)), Event::QuestionClosed(closed)] {
        let written = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&written).unwrap(), event, "{written}");
    }
}

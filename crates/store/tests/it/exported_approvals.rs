//! Approvals in exported conversations.

use chrono::DateTime;
use houston_domain::conversation::{Conversation, ExportedApproval, ExportedQuestion, ThreadMessage};
use houston_domain::message::{MessageType, Source};
use houston_domain::question::approval::answer_schema;
use houston_domain::question::{QuestionKind, QuestionState};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::conversation::{conversation, exported, imported};
use crate::test_store::TestStore;

#[tokio::test]
async fn approvals_keep_their_calls_and_find_their_cells() {
    let test = TestStore::start().await;
    let at = |minute: i64| DateTime::from_timestamp(1_790_000_000 + 60 * minute, 0).unwrap();
    let mut document = conversation().new_tree(&mut TestRunner::deterministic()).unwrap().current();
    // Two runs called with the same id.
    let cell = |minute: i64| ThreadMessage {
        source: Source::Agent,
        message_type: MessageType::Tool,
        content: format!("Delete note {minute}"),
        metadata: serde_json::Map::from_iter([("call_id".to_owned(), json!("call_1"))]),
        created_at: at(minute),
    };
    let approval = |minute: i64, subject: &str| ExportedQuestion {
        kind: QuestionKind::Approval,
        subject: Some(subject.to_owned()),
        text: format!("Delete note {minute}?"),
        schema: None,
        default_value: None,
        expires_at: None,
        state: QuestionState::Expired,
        answer: None,
        answered_by: None,
        created_at: at(minute),
        closed_at: at(minute + 1),
        approval: Some(ExportedApproval {
            tool: "delete_note".to_owned(),
            input: json!({"note_id": minute}),
            why: "it deletes something for good".to_owned(),
        }),
    };
    document.messages = vec![cell(0), cell(10)];
    document.questions = vec![approval(0, "call_1"), approval(10, "call_1")];
    assert_eq!(document.check(), Ok(()));
    let id = imported(&test, &document).await;
    let read = exported(&test, id).await;
    assert_eq!(Conversation { seal: None, ..read }, document);
    let cells = "select string_agg((m.content || '?' = q.text)::text, ',')
                   from houston.questions q
                   join houston.messages m on 'msg_' || replace(m.id::text, '-', '') = q.approval ->> 'message_id'";
    assert_eq!(test.sql(cells).trim(), "true,true");

    // One that could have been answered for good, as it is stored: with the schema of its arguments.
    test.sql(
        r#"update houston.questions
              set approval = approval || '{"lasting": true, "pin": "p1", "arguments": {"type": "object"}}'
            where text = 'Delete note 0?'"#,
    );
    let read = exported(&test, id).await.questions;
    assert_eq!(read[0].schema, Some(answer_schema(&json!({"type": "object"}), true)));
    assert_eq!(read[0].approval, document.questions[0].approval);
}

use super::*;

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

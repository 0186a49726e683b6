use serde_json::json;

use super::*;

/// Events as the server writes them.
fn written() -> [Value; 12] {
    let message = format!("msg_{:032x}", 7);
    let (run, plan) = (format!("run_{:032x}", 8), format!("plan_{:032x}", 9));
    [
        json!({"type": "RUN_STARTED", "timestamp": 1, "threadId": "goal_1", "runId": run, "protocolVersion": "1.0"}),
        json!({"type": "RUN_FINISHED", "threadId": "goal_1", "runId": run,
            "result": {"status": "cancelled", "cancelled_by": "user", "cost": "0.01"},
            "outcome": {"type": "cancelled"},
            "usage": [{"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}]}),
        json!({"type": "STEP_STARTED", "stepName": "iteration 3"}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": message,
            "metadata": {"houston": {"source": "error", "metadata": {"a": 1}}}}),
        json!({"type": "TOOL_CALL_RESULT", "messageId": format!("result_{:032x}", 7), "toolCallId": message,
            "content": "no", "role": "tool", "metadata": {"houston": {"is_error": true}}}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": run, "name": "Look up", "parentToolCallId": message,
            "metadata": {"houston": {"task_id": "task_1", "status": "completed"}}}),
        json!({"type": "MESSAGES_SNAPSHOT", "messages": [
            {"id": message, "role": "user", "content": "hi", "metadata": {"houston": {"rolled_back": true}}},
            {"id": message, "role": "assistant", "toolCalls": [{"id": message, "type": "function",
                "function": {"name": "create_note", "arguments": "{}"},
                "metadata": {"houston": {"call_id": "c1"}}}]},
            {"id": message, "role": "activity", "content": {"text": "no"}, "activityType": "houston.error"}]}),
        json!({"type": "ACTIVITY_SNAPSHOT", "messageId": plan, "activityType": "houston.plan",
            "content": {"status": "running", "steps": []}}),
        json!({"type": "ACTIVITY_DELTA", "timestamp": 1, "messageId": plan, "activityType": "houston.plan",
            "patch": [{"op": "replace", "path": "/status", "value": "done"}]}),
        json!({"type": "CUSTOM", "name": "houston.plan.ended", "value": {"plan_id": plan, "status": "failed",
            "code": "TIMEOUT", "message": "took too long"}}),
        json!({"type": "CUSTOM", "timestamp": 1, "name": "houston.retry.scheduled", "value": {"attempt": 1, "of": 5,
            "retry_at": "2026-11-22T09:00:10.500Z", "code": "RATE_LIMITED", "message": "busy",
            "cause": "slow down"}}),
        json!({"type": "CUSTOM", "name": "houston.message.posted", "value": {"message": {
            "id": message, "source": "user", "message_type": "text", "content": "hi", "run_id": run, "seq": 2,
            "created_at": "2026-11-22T09:00:10.000Z"}}}),
    ]
}

#[test]
fn events_round_trip() {
    for event in written() {
        let read: Event<'_> =
            serde_json::from_value(event.clone()).unwrap_or_else(|e| panic!("{e}: {event}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), event);
    }
}

#[test]
fn events_of_newer_servers_are_unknown() {
    for other in [
        r#"{"type":"CUSTOM","name":"houston.brand.new","value":{"steps":[1]}}"#,
        r#"{"type":"BRAND_NEW","x":1}"#,
        r#"{"type":"RUN_STARTED"}"#,
        "no json",
    ] {
        assert_eq!(Event::read(other), Event::Unknown, "{other}");
    }
}

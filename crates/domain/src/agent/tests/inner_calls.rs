//! Calls that are made through the tool that calls others.

use super::*;

/// A call of `name` through the tool that calls others.
fn through(id: &str, name: &str) -> Block {
    let input = json!({"tool_name": name, "arguments": {"n": id}});
    Block::ToolUse { id: id.into(), name: crate::inner_call::USE_TOOL.into(), input, raw: None }
}

#[test]
fn inner_calls_are_called_counted_and_resumed() {
    let mut run = start(policy(true, Reply::Text));
    for nth in 1..=8 {
        let (id, name) = (nth.to_string(), if nth % 2 == 0 { "a" } else { "b" });
        let said = run.on_model(turn(vec![through(&id, name)])).unwrap();
        assert_eq!((said.calls[0].name.as_str(), &said.calls[0].input), (name, &json!({"n": id})));
        assert_eq!(
            said.entry.unwrap().content,
            [through(&id, name)],
            "the history has the call as it was written"
        );
        let resumed =
            AgentRun::resume(*run.policy(), run.history().to_vec(), run.own_entries(), DateTime::UNIX_EPOCH);
        assert_eq!(next(&resumed), Next::CallTools(said.calls));
        run.on_tools(vec![(id, ToolResponse::success(nth.to_string()))]);
        assert_eq!(validate(run.history()), Ok(()));
        assert_eq!(next(&run), Next::CallModel, "different tools are no repetition");
    }
    for nth in 9..=13 {
        run.on_model(turn(vec![through(&nth.to_string(), "c")])).unwrap();
        run.on_tools(vec![(nth.to_string(), ToolResponse::success(nth.to_string()))]);
    }
    assert_eq!(next(&run), Next::Done(RunStatus::SameTool));
}

#[test]
fn message_sent_through_another_tool_ends_the_turn() {
    let mut run = start(policy(true, Reply::SendMessage));
    run.on_model(turn(vec![through("1", SEND_MESSAGE)])).unwrap();
    run.on_tools(vec![("1".into(), ToolResponse::success("sent"))]);
    assert_eq!(next(&run), Next::Done(RunStatus::MessageSent));
    let resumed =
        AgentRun::resume(*run.policy(), run.history().to_vec(), run.own_entries(), DateTime::UNIX_EPOCH);
    assert_eq!(next(&resumed), Next::Done(RunStatus::MessageSent));
}

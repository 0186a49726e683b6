use super::*;
use crate::history::validate;
use crate::model::Usage;
use crate::tool_call::ToolErrorCode;
use proptest::prelude::*;
use serde_json::json;

mod inner_calls;
mod oversight;

fn policy(conversational: bool, reply: Reply) -> RunPolicy {
    RunPolicy {
        conversational,
        expects_reply: true,
        reply,
        limits: Limits { max_output_tokens: 1000, ..Limits::USUAL },
    }
}

fn start(policy: RunPolicy) -> AgentRun {
    let mut run = AgentRun::resume(policy, vec![], 0, DateTime::UNIX_EPOCH);
    run.on_messages(vec!["hi".into()]);
    run
}

fn turn(content: Vec<Block>) -> ModelAnswer {
    ModelAnswer { content, malformed: vec![], stop: StopReason::EndTurn, usage: Usage::default() }
}

fn call(id: &str, name: &str) -> Block {
    Block::ToolUse { id: id.into(), name: name.into(), input: json!({}), raw: None }
}

fn next(run: &AgentRun) -> Next {
    run.next(DateTime::UNIX_EPOCH)
}

#[test]
fn conversational_run_stops_after_its_message_until_a_reply() {
    let mut run = start(policy(true, Reply::SendMessage));
    let said = run.on_model(turn(vec![Block::text("let me answer"), call("1", SEND_MESSAGE)])).unwrap();
    assert_eq!(said.reply, None);
    run.on_tools(vec![("1".into(), ToolResponse::success("sent"))]);
    assert_eq!(next(&run), Next::Done(RunStatus::MessageSent));
    run.on_messages(vec!["more".into()]);
    assert_eq!(next(&run), Next::CallModel);
}

#[test]
fn declined_answer_ends_the_run() {
    for content in [vec![], vec![Block::text("Half a")]] {
        let mut run = start(policy(true, Reply::SendMessage));
        let declined = ModelAnswer { stop: StopReason::Refusal, ..turn(content.clone()) };
        let said = run.on_model(declined).unwrap();
        assert_eq!(said.reply.is_some(), !content.is_empty());
        assert_eq!((next(&run), run.was_declined()), (Next::Done(RunStatus::Completed), true));
        run.on_messages(vec!["And this?".into()]);
        assert!(!run.was_declined());
        run.on_model(turn(vec![Block::text("Fine.")])).unwrap();
        assert!(!run.was_declined());
    }
}

#[test]
fn triggered_run_may_end_silently_until_a_user_writes() {
    let quiet = RunPolicy { expects_reply: false, ..policy(true, Reply::SendMessage) };
    let opened = Entry::user(vec![Block::text("<feed_generation/>")]);
    let begin =
        |history: Vec<Entry>| AgentRun::resume(quiet, history.clone(), history.len(), DateTime::UNIX_EPOCH);
    let mut run = begin(vec![opened.clone()]);
    let said = run.on_model(turn(vec![Block::text("done")])).unwrap();
    assert_eq!(said.reply, None);
    assert!(begin(vec![opened.clone()]).on_model(turn(vec![])).is_ok());
    let mut run = begin(vec![opened.clone()]);
    run.on_model(turn(vec![call("1", SEND_MESSAGE)])).unwrap();
    run.on_tools(vec![("1".into(), ToolResponse::success("sent"))]);
    assert_eq!(next(&run), Next::Done(RunStatus::MessageSent), "one message is enough");
    // A user message arrived while it ran, before it started, or before another worker took it over.
    let mut during = begin(vec![opened.clone()]);
    during.on_messages(vec!["hi".into()]);
    let at_once = begin(vec![Entry::user(vec![Block::text("<feed_generation/>"), Block::text("hi")])]);
    let before = begin(vec![opened, Entry::user(vec![Block::text("hi")])]);
    for mut run in [during, at_once, before] {
        assert!(run.clone().on_model(turn(vec![])).is_err());
        assert_eq!(run.on_model(turn(vec![Block::text("hello")])).unwrap().reply.as_deref(), Some("hello"));
    }
}

#[test]
fn failed_send_message_does_not_stop_the_run() {
    let mut run = start(policy(true, Reply::SendMessage));
    run.on_model(turn(vec![call("1", SEND_MESSAGE)])).unwrap();
    run.on_tools(vec![("1".into(), ToolResponse::failure(ToolErrorCode::ValidationError, "empty"))]);
    assert_eq!(next(&run), Next::CallModel);
}

#[test]
fn a_failure_beside_a_message_is_read_before_the_run_ends() {
    let both = || vec![call("call_1", SEND_MESSAGE), call("call_2", "delete_note")];
    let answer = |deleted: ToolResponse| {
        vec![("call_1".into(), ToolResponse::success("sent")), ("call_2".into(), deleted)]
    };
    let refused = ToolResponse::failure(ToolErrorCode::PermissionDenied, "not carried out");
    for (response, expected) in
        [(ToolResponse::success("Deleted."), Next::Done(RunStatus::MessageSent)), (refused, Next::CallModel)]
    {
        let mut run = start(policy(true, Reply::SendMessage));
        run.on_model(turn(both())).unwrap();
        run.on_tools(answer(response));
        assert_eq!(next(&run), expected);
        let taken_over = AgentRun::resume(*run.policy(), run.history().to_vec(), 3, DateTime::UNIX_EPOCH);
        assert_eq!(next(&taken_over), expected);
        if expected == Next::CallModel {
            let outcome = run.on_model(turn(vec![Block::text("It stays.")])).unwrap();
            assert_eq!(outcome.reply, None, "the user has a message of this run");
            assert_eq!(next(&run), Next::Done(RunStatus::Completed));
        }
    }
}

#[test]
fn natural_completion_without_a_message_delivers_the_text() {
    let mut run = start(policy(true, Reply::SendMessage));
    let said = run.on_model(turn(vec![Block::text("42")])).unwrap();
    assert_eq!(said.reply.as_deref(), Some("42"));
    assert_eq!(next(&run), Next::Done(RunStatus::Completed));
}

#[test]
fn empty_answer_is_an_error_only_if_a_reply_is_expected() {
    assert_eq!(start(policy(true, Reply::Text)).on_model(turn(vec![])), Err(EmptyAnswer));
    let mut task = start(policy(false, Reply::Text));
    task.on_model(turn(vec![])).unwrap();
    assert_eq!(next(&task), Next::Done(RunStatus::Completed));
}

#[test]
fn only_the_final_text_of_a_task_is_a_message() {
    let mut task = start(policy(false, Reply::Text));
    let text = || Block::text("Three hotels");
    let before = task.on_model(turn(vec![text(), call("", "search")])).unwrap();
    assert_eq!(before.reply, None);
    task.on_tools(vec![]);
    assert_eq!(task.on_model(turn(vec![text()])).unwrap().reply.as_deref(), Some("Three hotels"));
    assert_eq!(next(&task), Next::Done(RunStatus::Completed));
}

#[test]
fn user_message_starts_the_count_of_the_same_tool_anew() {
    let policy = policy(true, Reply::SendMessage);
    let mut run = start(policy);
    let mut committed = vec![Entry::user(vec![Block::text("hi")])];
    let use_tool = |run: &mut AgentRun, committed: &mut Vec<Entry>, nth: usize| {
        let id = format!("call_{nth}");
        committed.extend(run.on_model(turn(vec![call(&id, "search")])).unwrap().entry);
        committed.extend(run.on_tools(vec![(id, ToolResponse::success("found"))]));
    };
    for nth in 0..8 {
        if nth == 4 {
            committed.extend(run.on_messages(vec!["now search for another".into()]));
        }
        use_tool(&mut run, &mut committed, nth);
        assert_eq!(next(&run), Next::CallModel);
    }
    let mut resumed = AgentRun::resume(policy, committed.clone(), committed.len(), DateTime::UNIX_EPOCH);
    for run in [&mut run, &mut resumed] {
        use_tool(run, &mut committed, 8);
        assert_eq!(next(run), Next::Done(RunStatus::SameTool));
    }
}

#[test]
fn each_limit_ends_with_its_own_status() {
    let mut run = start(policy(false, Reply::Text));
    for i in 0..5 {
        assert_eq!(next(&run), Next::CallModel, "call {i}");
        run.on_model(turn(vec![call("", "search")])).unwrap();
        run.on_tools(vec![]);
    }
    assert_eq!(next(&run), Next::Done(RunStatus::SameTool));

    let mut run = start(policy(false, Reply::Text));
    for i in 0..20 {
        assert_eq!(next(&run), Next::CallModel, "call {i}");
        run.on_model(turn(vec![call("", if i % 2 == 0 { "a" } else { "b" })])).unwrap();
        run.on_tools(vec![]);
    }
    assert_eq!(next(&run), Next::Done(RunStatus::MaxIterations));
    run.on_messages(vec!["And now?".to_owned()]);
    assert_eq!(next(&run), Next::CallModel, "somebody waits for an answer to that");

    let mut run = start(policy(false, Reply::Text));
    let at = |seconds| DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(seconds);
    assert_eq!(run.next(at(600)), Next::Done(RunStatus::MaxDuration));
    run.has_waited(std::time::Duration::from_secs(20));
    assert_eq!(run.next(at(619)), Next::CallModel, "a provider had it wait");
    assert_eq!(run.next(at(620)), Next::Done(RunStatus::MaxDuration));

    let mut capped = policy(false, Reply::Text);
    capped.limits.max_history_entries = 1;
    assert_eq!(next(&start(capped)), Next::Done(RunStatus::HistoryFull));
}

#[test]
fn tool_calls_get_ids_unique_within_the_run() {
    let mut run = start(policy(false, Reply::Text));
    for _ in 0..3 {
        run.on_model(turn(vec![call("call_0", "a"), call("call_0", "b"), call("", "c")])).unwrap();
        run.on_tools(vec![]);
    }
    let ids: Vec<&str> = run.history().iter().flat_map(Entry::tool_uses).collect();
    assert_eq!(ids.len(), 9);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 9);
}

#[derive(Debug, Clone)]
enum Happening {
    Model(Vec<(u8, String)>),
    Tools(Vec<bool>),
    Messages(u8),
    /// The worker dies and another resumes from the committed history.
    Crash,
    End,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let block = (0u8..6, prop::sample::select(vec!["", "x", "call_0", "call_1_1", "dup"]))
        .prop_map(|(kind, id)| (kind, id.to_owned()));
    let one = prop_oneof![
        4 => prop::collection::vec(block, 0..4).prop_map(Happening::Model),
        4 => prop::collection::vec(any::<bool>(), 0..4).prop_map(Happening::Tools),
        2 => (0u8..3).prop_map(Happening::Messages),
        2 => Just(Happening::Crash),
        1 => Just(Happening::End),
    ];
    prop::collection::vec(one, 0..40)
}

fn block(kind: u8, id: &str) -> Block {
    match kind {
        0 => Block::text("hello"),
        1 => Block::text("  "),
        2 => Block::Thinking { text: "hm".into(), raw: None },
        3 => call(id, SEND_MESSAGE),
        _ => call(id, "create_note"),
    }
}

proptest! {
    /// In any order of events a provider accepts every committed prefix, and a crash changes neither the history
    /// nor the next action.
    #[test]
    fn providers_accept_every_committed_prefix(
        events in happenings(), conversational in any::<bool>(), text in any::<bool>()
    ) {
        let policy = policy(conversational, if text { Reply::Text } else { Reply::SendMessage });
        let mut run = start(policy);
        let mut committed = run.history().to_vec();
        for event in events {
            let entry = match event {
                Happening::Model(blocks) => match next(&run) {
                    Next::CallModel => run
                        .on_model(turn(blocks.iter().map(|(kind, id)| block(*kind, id)).collect()))
                        .ok()
                        .and_then(|turn| turn.entry),
                    _ => None,
                },
                Happening::Tools(worked) => match next(&run) {
                    Next::CallTools(calls) => run.on_tools(
                        calls
                            .iter()
                            .zip(worked)
                            .map(|(call, ok)| {
                                let response = if ok { ToolResponse::success("ok") }
                                    else { ToolResponse::failure(ToolErrorCode::IoError, "no") };
                                (call.id.clone(), response)
                            })
                            .collect(),
                    ),
                    _ => None,
                },
                Happening::Messages(n) => run.on_messages((0..n).map(|i| format!("m{i}")).collect()),
                Happening::Crash => {
                    let before = next(&run);
                    let resumed = AgentRun::resume(policy, committed.clone(), committed.len(), DateTime::UNIX_EPOCH);
                    if matches!(before, Next::CallTools(_) | Next::CallModel) {
                        let kind = std::mem::discriminant(&before);
                        let after = next(&resumed);
                        prop_assert!(kind == std::mem::discriminant(&after), "{before:?} became {after:?}");
                    }
                    run = resumed;
                    None
                }
                Happening::End => run.on_end(RunStatus::Cancelled, vec![], &ToolResponse::outcome_unknown()),
            };
            committed.extend(entry);
            prop_assert_eq!(validate(&committed), Ok(()));
            prop_assert_eq!(run.history(), &committed[..]);
        }
    }
}

#[test]
fn run_keeps_its_counters_when_a_summary_replaces_entries() {
    let policy = policy(true, Reply::SendMessage);
    let mut run = start(policy);
    for id in ["1", "2", "3"] {
        run.on_model(turn(vec![call(id, "look")])).unwrap();
        run.on_tools(vec![(id.into(), ToolResponse::success("found"))]);
    }
    let whole = run.history().to_vec();
    assert_eq!((whole.len(), run.own_entries()), (7, 7));
    run.replace_prefix_with_summary(
        5,
        crate::compression::summary_entry("They looked.", &crate::frame::FrameMark::hidden()),
    );
    assert_eq!(validate(run.history()), Ok(()));
    assert_eq!(&run.history()[1..], &whole[5..]);

    // Another worker takes over: it reads the run's whole history, and sends what the first worker sent.
    let mut again = AgentRun::resume(policy, whole, 7, DateTime::UNIX_EPOCH);
    again.replace_prefix_with_summary(
        5,
        crate::compression::summary_entry("They looked.", &crate::frame::FrameMark::hidden()),
    );
    assert_eq!((again.history(), again.iterations(), again.own_entries()), (run.history(), 3, 7));
    let said = again.on_model(turn(vec![call("1", "look")])).unwrap();
    assert_eq!(said.calls[0].id, "call_4_1", "no id is used twice in a run");
}

proptest! {
    /// A worker that takes a run over, after any turn, sees what the overseer saw: from the history alone, notes included.
    #[test]
    fn taken_over_run_is_overseen_the_same(turns in prop::collection::vec((0_u8..2, 0_u8..3, any::<bool>()), 1..14)) {
        let settings: overseer::Settings =
            toml::from_str(include_str!("../../../../jobs/overseer.toml")).unwrap();
        let policy = policy(true, Reply::SendMessage);
        let mut run = start(policy).overseen(settings);
        for (tool, result, reads) in turns {
            let said = run.on_model(turn(vec![call("", ["a", "b"][usize::from(tool)])])).unwrap();
            let response = match result {
                0 => ToolResponse::success("same"),
                1 => ToolResponse::failure(ToolErrorCode::Unknown, "broken"),
                _ => ToolResponse::failure(ToolErrorCode::PermissionDenied, "refused by a guard: no"),
            };
            run.on_tools(vec![(said.calls[0].id.clone(), response)]);
            if reads && result == 2 {
                run.on_messages(vec!["more".into()]);
            }
            let (history, own) = (run.history().to_vec(), run.own_entries());
            let other = AgentRun::resume(policy, history, own, DateTime::UNIX_EPOCH).overseen(settings);
            prop_assert_eq!(other.trace(), run.trace());
            let measured = overseer::Measured { tokens: 7, ..overseer::Measured::default() };
            prop_assert_eq!(other.finding(&measured), run.finding(&measured));
            prop_assert_eq!(other.iterations(), run.iterations());
        }
    }
}

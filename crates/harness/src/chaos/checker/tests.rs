//! Each violation is reported by its rule and by no other; correct evidence has no violation.

use houston_testkit::tool_ledger::Execution;
use serde_json::json;

use houston_protocol::message::AcceptedMessageResponse;

use super::super::client::Post;
use super::super::evidence::{EntryRow, LockRow, MessageRow, RunRow, SessionRow};
use super::super::model::ModelCall;
use super::super::nemesis::Kill;
use super::super::reader::ReceivedStream;
use super::*;

/// An execution at an arbitrary time.
fn at(op: &str, key: &str) -> Execution {
    let execution = json!({"call_id": op, "idempotency_key": key, "at": "2026-11-22T00:00:00Z"});
    serde_json::from_value(execution).unwrap()
}

fn event(seq: i64, kind: &str, epoch: i64, message: Option<&str>) -> EventRow {
    EventRow {
        goal: "g".into(),
        seq,
        epoch,
        run: "r".into(),
        kind: kind.into(),
        message: message.map(str::to_owned),
        session: None,
        at: 0.0,
    }
}

fn message(id: &str, source: &str, content: String) -> MessageRow {
    MessageRow { id: id.into(), goal: "g".into(), source: source.into(), content, run: "r".into() }
}

fn entry(position: i64, epoch: i64, role: &str, block: serde_json::Value) -> EntryRow {
    let content = json!([block]);
    EntryRow { goal: "g".into(), position, run: "r".into(), epoch, role: role.into(), content }
}

fn session(number: i64, first: i64, last: i64) -> SessionRow {
    SessionRow { goal: "g".into(), number, first, last, by_model: true, pending: false }
}

/// Without its prefix, the id of the accepted message.
const MESSAGE: &str = "01900000000070008000000000000001";

/// The response to a post of the message with this id.
fn accepted(id: &str) -> AcceptedMessageResponse {
    serde_json::from_value(json!({
        "id": format!("msg_{id}"), "goal_id": "goal_01900000000070008000000000000002", "source": "user",
        "message_type": "text", "content": "hi", "metadata": {}, "status": "pending",
        "run_id": "run_01900000000070008000000000000003", "seq": 2, "created_at": "2026-11-22T09:00:00.000Z",
        "processed_at": null, "events_url": "/v1/goals/goal_01900000000070008000000000000002/events?after=0",
    }))
    .unwrap()
}

/// One message, answered at the second attempt: no rule is violated.
fn fine() -> Evidence {
    let mut evidence = Evidence { goals: vec!["g".into()], ..Evidence::default() };
    evidence.posts = vec![Post {
        number: 7,
        goal: 0,
        content: "hi".into(),
        accepted: Some(accepted(MESSAGE)),
        rejected: None,
        tries: 1,
    }];
    evidence.rows.events = vec![
        event(1, "run_queued", 0, None),
        event(2, "message_posted", 0, Some("1")),
        event(3, "attempt_started", 1, None),
        event(4, "attempt_started", 2, None),
        event(5, "message_sent", 2, Some("2")),
        event(6, "run_finished", 2, None),
    ];
    evidence.rows.messages = vec![message(MESSAGE, "user", "hi".into()), message("2", "agent", answer(&[7]))];
    evidence.rows.runs =
        vec![RunRow { id: "r".into(), goal: "g".into(), status: "message_sent".into(), attempt: 2 }];
    evidence.rows.history = vec![
        entry(1, 1, "user", json!({"type": "text", "text": "hi"})),
        entry(2, 2, "assistant", json!({"type": "tool_use", "id": "c", "name": "send_message", "input": {}})),
        entry(
            4,
            2,
            "user",
            json!({"type": "tool_result", "tool_use_id": "c", "content": "", "is_error": false}),
        ),
    ];
    evidence.rows.locks = vec![LockRow {
        goal: "g".into(),
        last_seq: 6,
        events_from: 1,
        run_open: false,
        open_for: 99.0,
        holder_is_dead: false,
        unread: 0,
        session_position: 4,
    }];
    evidence.rows.sessions = vec![session(1, 1, 4)];
    evidence.rows.events[2].session = Some(1);
    let log = ["queued r", "posted 1", "sent 2", "ended"].map(str::to_owned).to_vec();
    let texts = HashMap::from([("2".to_owned(), answer(&[7]))]);
    let mut received = ReceivedStream::default();
    (received.log, received.texts) = (log, texts);
    evidence.streams = vec![("g".into(), received)];
    // Two equal model calls: the run has had two attempts.
    evidence.model_calls = (0..2)
        .map(|number| ModelCall { number, conversation: 1, message: Some(7), is_faulted: false })
        .collect();
    evidence.endings = [(0, Ending::Answered), (1, Ending::Answered)].into();
    evidence.ledgers = BTreeMap::from([("charge".to_owned(), vec![at("#7/0/0", "k")])]);
    evidence
}

/// The rules that must report a violation, and what violates them.
type Case = (&'static [&'static str], fn(&mut Evidence));

/// The rules that report a violation.
fn found(evidence: &Evidence) -> Vec<&'static str> {
    all(evidence).iter().filter(|finding| finding.count > 0).map(|finding| finding.rule).collect()
}

#[test]
fn correct_evidence_has_no_violation() {
    let findings = all(&fine());
    let wrong: Vec<_> = findings.iter().filter(|finding| finding.count > 0).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["R1", "R2", "R3", "R4", "R5", "R12", "R6", "R7", "R8", "R9", "R11", "R13", "R14"]);
}

#[test]
fn each_violation_is_reported_by_its_rule() {
    let cases: [Case; 26] = [
        (&["R1"], |evidence| evidence.posts[0].rejected = Some("409".into())),
        (&["R1"], |evidence| evidence.rows.messages[0].content = "ho".into()),
        (&["R1"], |evidence| evidence.posts[0].accepted = Some(accepted("01900000000070008000000000000009"))),
        (&["R1"], |evidence| evidence.posts[0].number = 8),
        (&["R2", "R6"], |evidence| {
            let text = answer(&[7, 7]);
            evidence.streams[0].1.texts.clear();
            evidence.rows.messages[1].content = text.replace("wörd", "word");
        }),
        (&["R3"], |evidence| evidence.rows.events[4].epoch = 1),
        (&["R3"], |evidence| evidence.rows.events[3].epoch = 1),
        (&["R3"], |evidence| evidence.rows.history[2].epoch = 1),
        (&["R4"], |evidence| evidence.ledgers.get_mut("charge").unwrap().push(at("#7/0/0", "other"))),
        (&["R4"], |evidence| evidence.rows.notes = vec!["#7/0/1".into(), "#7/0/1".into()]),
        (&["R4"], |evidence| {
            evidence.ledgers.insert("poison".into(), (0..=2 * DEATHS).map(|_| at("#7/0/0", "k")).collect());
        }),
        (&["R5"], |evidence| drop(evidence.rows.history.pop())),
        (&["R5"], |evidence| evidence.invalid_conversations.push("no result".into())),
        (&["R6"], |evidence| evidence.rows.locks[0].last_seq = 7),
        (&["R6"], |evidence| drop(evidence.streams[0].1.log.pop())),
        (&["R8"], |evidence| evidence.rows.runs[0].attempt = 1),
        (&["R9"], |evidence| {
            evidence.rows.locks[0].run_open = true;
        }),
        (&["R9"], |evidence| evidence.rows.sessions[0].pending = true),
        // Closed twice, a run in two sessions, not from its first entry, not to its last, a wrong number, announced
        // twice or before it was closed.
        (&["R11"], |evidence| evidence.rows.sessions.push(session(2, 1, 4))),
        (&["R11"], |evidence| evidence.rows.sessions = vec![session(1, 1, 1), session(2, 2, 4)]),
        (&["R11"], |evidence| evidence.rows.sessions[0].first = 2),
        (&["R11"], |evidence| evidence.rows.locks[0].session_position = 5),
        (&["R11"], |evidence| evidence.rows.sessions[0].number = 2),
        (&["R11"], |evidence| evidence.rows.events[3].session = Some(1)),
        (&["R11"], |evidence| {
            evidence.rows.sessions.clear();
            evidence.rows.locks[0].session_position = 0;
        }),
        (&["R13"], |evidence| evidence.rows.runs[0].status = "dead_lettered".into()),
    ];
    for (number, (rules, violate)) in cases.into_iter().enumerate() {
        let mut evidence = fine();
        violate(&mut evidence);
        assert_eq!(found(&evidence), rules, "case {number}: {:?}", all(&evidence));
    }
}

#[test]
fn poison_may_kill_two_more_for_each_other_at_the_same_time() {
    let mut evidence = fine();
    let poison = |count| (0..count).map(|_| at("#7/0/0", "k")).collect::<Vec<_>>();
    evidence.ledgers.insert("poison".into(), poison(2 * DEATHS + 1));
    assert_eq!(found(&evidence), ["R4"]);
    let mut both = poison(2 * DEATHS + 2);
    both.push(at("#8/0/0", "k"));
    evidence.ledgers.insert("poison".into(), both);
    assert_eq!(found(&evidence), [""; 0]);
}

#[test]
fn poison_may_kill_two_more_for_each_cancelled_run_beside() {
    let poison = || (0..2 * DEATHS + 4).map(|_| at("#7/0/0", "k")).collect::<Vec<_>>();
    let executed = poison()[0].at.timestamp() as f64;
    let cancelled = |evidence: &mut Evidence, id: &str, died: f64| {
        let (goal, status) = ("g".to_owned(), "cancelled".to_owned());
        evidence.rows.runs.push(RunRow { id: id.into(), goal, status, attempt: 2 });
        let event = |kind, at| EventRow { run: id.into(), at, ..event(0, kind, 0, None) };
        evidence.rows.events.extend([event("attempt_started", died), event("attempt_started", died + 5.0)]);
    };
    let allowed = |died: [f64; 2]| {
        let mut evidence = fine();
        evidence.ledgers.insert("poison".into(), poison());
        cancelled(&mut evidence, "one", died[0]);
        cancelled(&mut evidence, "two", died[1]);
        !found(&evidence).contains(&"R4")
    };
    assert!(allowed([executed - 1.0, executed - 2.0]));
    assert!(!allowed([executed - 1.0, executed + 1.0]), "one of them died at another time");
}

#[test]
fn run_killed_from_outside_three_times_is_no_innocent_one() {
    let mut evidence = fine();
    evidence.rows.runs[0].status = "dead_lettered".into();
    evidence.rows.events[1] = event(2, "attempt_started", 0, None);
    let kill = |epoch| Kill { now: 0.0, held: vec![("g".into(), epoch)] };
    evidence.faults.kills = (0..2).map(kill).collect();
    let innocents = |evidence: &Evidence| {
        let mut finding = Finding::default();
        innocents::innocents(evidence, &mut finding);
        finding.count
    };
    assert_eq!(innocents(&evidence), 1);
    evidence.faults.kills.push(kill(2));
    assert_eq!(innocents(&evidence), 0);
}

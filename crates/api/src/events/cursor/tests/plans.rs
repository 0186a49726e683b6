//! The list of a plan's steps, wherever the connection of a client breaks, and the order of what it is reported.

use chrono::DateTime;
use houston_domain::event::MessageBody;
use houston_domain::message::{MessageType, Source};
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

use super::*;

const PLAN: &str = "plan_00000000000000000000000000000007";

fn message(nth: u128) -> MessageId {
    MessageId(Uuid::from_u128(nth))
}

fn list(status: &str, done: usize) -> Value {
    let step =
        |nth: usize| json!({"id": format!("s{nth}"), "status": if nth < done { "done" } else { "pending" }});
    json!({"plan_id": PLAN, "status": status, "done": done, "steps": (0..3).map(step).collect::<Vec<_>>()})
}

fn started(attempt: i32, next: u128) -> Durable {
    let (next_message_id, resumed) = (message(next), attempt > 1);
    Durable::AttemptStarted { attempt, iteration: 1, next_message_id, takeover: false, resumed }
}

/// A run whose plan ends with `status`; then a run of its own.
fn log_of(ends: RunStatus) -> Vec<Committed> {
    let (plan_id, call_id) = (PLAN.to_owned(), "c1".to_owned());
    let run_end = |status, code: Option<&str>| Durable::RunFinished {
        status,
        iteration: Some(1),
        usage: Usage::default(),
        message: None,
        code: code.map(str::to_owned),
        result: None,
    };
    let called = Durable::ToolCalled {
        call_id: call_id.clone(),
        name: "create_plan".into(),
        input: json!({}),
        message_id: message(2),
        decided_by: None,
    };
    let returned = Durable::ToolReturned {
        call_id,
        content: "made".into(),
        is_error: false,
        message_id: message(2),
        code: None,
    };
    let progress = |done: usize| {
        let delta =
            [("/done".to_owned(), json!(done)), (format!("/steps/{}/status", done - 1), json!("done"))];
        let delta = delta.map(|(path, value)| json!({"op": "replace", "path": path, "value": value}));
        Durable::PlanProgress { plan_id: plan_id.clone(), delta: delta.to_vec(), checklist: None }
    };
    let answer = Durable::MessageSent { message_id: message(3) };
    let last = match ends {
        RunStatus::Failed => run_end(ends, Some("INTERNAL")),
        _ => run_end(RunStatus::MessageSent, None),
    };
    let events = vec![
        Durable::RunQueued {},
        Durable::MessagePosted { message_id: message(1) },
        started(1, 3),
        called,
        returned,
        Durable::PlanCreated { plan_id: plan_id.clone(), goal: "g".into(), checklist: list("running", 0) },
        Durable::RunWaiting { until: None, iteration: 1 },
        progress(1),
        progress(2),
        Durable::PlanEnded {
            plan_id: plan_id.clone(),
            status: RunStatus::Completed,
            code: None,
            message: None,
            checklist: list("completed", 3),
        },
        started(2, 3),
        answer,
        last,
    ];
    events.into_iter().enumerate().map(committed).collect()
}

fn committed((nth, event): (usize, Durable)) -> Committed {
    let body = |content: &str, source| MessageBody {
        source,
        message_type: MessageType::Text,
        content: content.into(),
        metadata: Value::Null,
    };
    let body = match &event {
        Durable::MessagePosted { .. } => Some(body("plan: a", Source::User)),
        Durable::MessageSent { .. } => Some(body("done", Source::Agent)),
        _ => None,
    };
    let (seq, run_id) = (i64::try_from(nth).unwrap() + 1, Uuid::from_u128(8).into());
    Committed { seq, run_id, at: DateTime::UNIX_EPOCH, event, body }
}

/// The frames of a client that is cut off after the frames in `cuts`, in order.
fn frames(log: &[Committed], cuts: &BTreeSet<usize>) -> Vec<Value> {
    let (mut all, mut at) = (Vec::new(), Position::after(0));
    'connections: loop {
        let mut cursor = Cursor::new("goal_1", at, open_iteration_at(log, at.seq));
        for event in log.iter().filter(|event| event.seq > at.seq) {
            let mut sent = Vec::new();
            cursor.durable(event, &Needed::default(), &mut |at, frame| {
                sent.push((at, serde_json::to_value(frame).unwrap()));
            });
            for (position, frame) in sent {
                all.push(frame);
                if cuts.contains(&all.len()) {
                    at = position;
                    continue 'connections;
                }
            }
        }
        return all;
    }
}

fn list_after(frames: &[Value]) -> Value {
    let mut list = Value::Null;
    for frame in frames {
        match frame["type"].as_str().unwrap() {
            "ACTIVITY_SNAPSHOT" => list = frame["content"].clone(),
            "ACTIVITY_DELTA" => shared_state::apply(&mut list, frame["patch"].as_array().unwrap()),
            _ => {}
        }
    }
    list
}

fn order(frames: &[Value]) -> Vec<&str> {
    frames.iter().map(|frame| frame["name"].as_str().unwrap_or(frame["type"].as_str().unwrap())).collect()
}

#[test]
fn plan_is_reported_in_the_order_that_front_ends_expect() {
    let all = frames(&log_of(RunStatus::Completed), &BTreeSet::new());
    let reported: Vec<&str> = order(&all).into_iter().filter(|kind| !kind.starts_with("TOOL_CALL")).collect();
    assert_eq!(
        reported,
        [
            "RUN_STARTED",
            "houston.message.posted",
            "houston.attempt.started",
            "STEP_STARTED",
            "houston.plan.created",
            "ACTIVITY_SNAPSHOT",
            "STEP_FINISHED",
            "houston.run.waiting",
            "ACTIVITY_DELTA",
            "ACTIVITY_DELTA",
            "houston.plan.ended",
            "ACTIVITY_SNAPSHOT",
            "houston.attempt.started",
            "STEP_STARTED",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ]
    );
    let failed = frames(&log_of(RunStatus::Failed), &BTreeSet::new());
    assert_eq!(order(&failed).last(), Some(&"RUN_ERROR"), "an error is last");
}

proptest! {
    #[test]
    fn list_of_a_plan_is_the_same_wherever_clients_are_cut(cuts in prop::collection::btree_set(1..25_usize, 0..8)) {
        let log = log_of(RunStatus::Completed);
        let all = frames(&log, &BTreeSet::new());
        let cut = frames(&log, &cuts);
        prop_assert_eq!(&cut, &all);
        prop_assert_eq!(list_after(&cut), list("completed", 3));
        for end in 0..all.len() {
            let seen = list_after(&all[..end]);
            prop_assert!(seen.is_null() || seen["steps"].as_array().unwrap().len() == 3);
        }
    }
}

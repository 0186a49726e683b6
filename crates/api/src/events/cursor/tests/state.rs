//! A client that applies what it is sent has the state of Postgres, wherever its connection breaks.

use chrono::DateTime;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The log of runs that change a state, and the state after each of its events.
fn log_of(changes: &[(u8, bool)]) -> (Vec<Committed>, Vec<Value>) {
    let mut state = json!({"items": []});
    let (mut log, mut states, mut run_open) = (Vec::new(), vec![state.clone()], false);
    let mut add = |event: Durable, state: &Value| {
        let seq = i64::try_from(states.len()).unwrap();
        let (run_id, at) = (uuid::Uuid::nil().into(), DateTime::UNIX_EPOCH);
        log.push(Committed { seq, run_id, at, event, body: None });
        states.push(state.clone());
    };
    add(Durable::RunQueued {}, &state);
    add(run_end(), &state);
    for (nth, (what, toggles)) in changes.iter().enumerate() {
        if *toggles {
            add(if run_open { run_end() } else { Durable::RunQueued {} }, &state);
            run_open = !run_open;
        }
        let before = state.clone();
        match what % 4 {
            0 => state["items"].as_array_mut().unwrap().push(json!(nth)),
            1 => drop(state["items"].as_array_mut().unwrap().pop()),
            2 => state["a/b~"] = json!({ "nth": nth }),
            _ => drop(state.as_object_mut().unwrap().shift_remove("a/b~")),
        }
        let delta = shared_state::delta(&before, &state);
        add(Durable::StateChanged { delta, between_runs: !run_open }, &state);
    }
    (log, states)
}

fn run_end() -> Durable {
    let (status, usage) = (RunStatus::MessageSent, Usage::default());
    Durable::RunFinished { status, iteration: None, usage, message: None, code: None, result: None }
}

/// What a client has after a frame.
fn take(state: &mut Option<Value>, frame: &Value) {
    match frame["type"].as_str().unwrap() {
        "STATE_SNAPSHOT" => {
            assert!(state.as_ref().is_none_or(|had| *had == frame["snapshot"]), "{state:?} {frame}");
            *state = Some(frame["snapshot"].clone());
        }
        "STATE_DELTA" => {
            let delta = frame["delta"].as_array().unwrap();
            shared_state::apply(state.as_mut().expect("a snapshot first"), delta);
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn clients_have_the_state_wherever_they_are_cut(
        changes in prop::collection::vec((any::<u8>(), any::<bool>()), 1..12),
        cuts in prop::collection::btree_set(0..40_usize, 0..8),
    ) {
        let (log, states) = log_of(&changes);
        let cursor = |at: Position| {
            let state = states[usize::try_from(at.seq).unwrap()].clone();
            Cursor::new("goal_1", at, None).with_state(Some(state))
        };
        let (mut at, mut client, mut delivered) = (Position::after(0), None, 0);
        'connections: loop {
            let mut cursor = cursor(at);
            for event in log.iter().filter(|event| event.seq > at.seq) {
                let mut frames = Vec::new();
                cursor.durable(event, &Needed::default(), &mut |at, frame| {
                    frames.push((at.to_string(), serde_json::to_value(frame).unwrap()));
                });
                for (id, frame) in frames {
                    take(&mut client, &frame);
                    delivered += 1;
                    if cuts.contains(&delivered) {
                        at = id.parse().unwrap();
                        continue 'connections;
                    }
                }
                prop_assert_eq!(client.as_ref(), Some(&states[usize::try_from(event.seq).unwrap()]));
            }
            break;
        }
        prop_assert_eq!(client.as_ref(), states.last());
    }
}

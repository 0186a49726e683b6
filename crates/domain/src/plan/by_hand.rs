//! What people do to single steps: having one repeated, and going on without one.
//!
//! What had been skipped or failed because of the step gets another chance: the steps that depend on it, and the containers that
//! it is in. This is the only way in which a settled step changes.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::document::Document;
use super::patch::was_left_out;
use super::resolve::{self, Place};
use super::state::{Failure, State, States, Status};

/// Code of a step that a person has skipped: what depends on it goes on.
pub const SKIPPED_BY_HAND: &str = "by_hand";

/// The states that change, by path.
type Changed = BTreeMap<String, State>;

/// Why a step cannot be repeated or skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ByHandError {
    /// The plan has no step with this path.
    #[error("the plan has no such step")]
    Unknown,
    /// Its status does not allow it: why, and what does.
    #[error("{0}")]
    Status(String),
}

/// A step that failed or was cancelled begins again, and one that waits for its next attempt begins at once. Returns the states
/// that change.
///
/// # Errors
/// There is no such step, or it is in another status.
pub fn repeat(
    document: &Document,
    states: &States,
    path: &str,
    now: DateTime<Utc>,
) -> Result<Changed, ByHandError> {
    let trail = trail(document, states, path)?;
    let state = states.get(path).cloned().unwrap_or_default();
    match (state.status, trail.last()) {
        (Status::Retrying, _) => Ok(Changed::from([(path.to_owned(), State { due: Some(now), ..state })])),
        (Status::Failed | Status::Cancelled, Some(place)) if place.step.action.is_container() => {
            let reason = format!("`{path}` has steps of its own: repeat the one that failed");
            Err(ByHandError::Status(reason))
        }
        (Status::Failed | Status::Cancelled, _) => {
            let again = State { attempt: state.attempt, ..State::default() };
            reopened(&trail, states, path, again)
        }
        (other, _) => Err(ByHandError::Status(format!(
            "`{path}` is {other}; only a step that failed, was cancelled or waits for its next attempt can be repeated"
        ))),
    }
}

/// The plan goes on as if the step were not needed. Returns the states that change.
///
/// # Errors
/// There is no such step, or it runs, or has succeeded or been skipped.
pub fn skip(document: &Document, states: &States, path: &str) -> Result<Changed, ByHandError> {
    let trail = trail(document, states, path)?;
    let state = states.get(path).cloned().unwrap_or_default();
    match state.status {
        Status::Running => Err(ByHandError::Status(format!(
            "`{path}` runs; only a step that does not run and has no result can be skipped: cancel its task, or the plan"
        ))),
        Status::Succeeded | Status::Skipped => Err(ByHandError::Status(format!(
            "`{path}` is {}; only a step that does not run and has no result can be skipped",
            state.status
        ))),
        _ => {
            let error = Some(Failure::new(SKIPPED_BY_HAND, "was skipped by hand"));
            let skipped =
                State { status: Status::Skipped, attempt: state.attempt, error, ..State::default() };
            reopened(&trail, states, path, skipped)
        }
    }
}

/// The containers of a step, the outermost first, and the step itself. Turns on the way to it must exist.
fn trail<'d>(document: &'d Document, states: &States, path: &str) -> Result<Vec<Place<'d>>, ByHandError> {
    let has_begun = |place: &Place<'_>| {
        place.turn.is_none_or(|turn| states.get(&place.path()).is_some_and(|state| turn < state.turns.len()))
    };
    let found = resolve::trail(document, path).filter(|trail| trail.iter().all(has_begun));
    found.ok_or(ByHandError::Unknown)
}

/// The step gets the state, and what settled because of it is open again.
fn reopened(trail: &[Place<'_>], states: &States, path: &str, state: State) -> Result<Changed, ByHandError> {
    let mut changed = Changed::from([(path.to_owned(), state)]);
    for place in trail.iter().rev() {
        let here = place.path();
        let container = states.get(&here).filter(|_| here != path);
        match container.map(|state| (state.status, state)) {
            None | Some((Status::Pending | Status::Running, _)) => {}
            Some((Status::Failed, state)) => {
                let running = State { status: Status::Running, error: None, ..state.clone() };
                changed.insert(here, running);
            }
            Some((other, _)) => {
                return Err(ByHandError::Status(format!("`{here}`, which contains it, is {other}")));
            }
        }
        for id in waiting(place, states) {
            changed.insert(format!("{}{id}", place.prefix), State::default());
        }
    }
    Ok(changed)
}

/// Ids of the steps that were skipped because of this one.
fn waiting<'d>(place: &Place<'d>, states: &States) -> Vec<&'d str> {
    let mut open = vec![place.step.id.as_str()];
    let was_left_out = |id: &str| was_left_out(states, &format!("{}{id}", place.prefix));
    let mut at = 0;
    while let Some(id) = open.get(at).copied() {
        let new = place.list.iter().filter(|step| step.after.contains(id) && was_left_out(&step.id));
        let new: Vec<&str> = new.map(|step| step.id.as_str()).filter(|id| !open.contains(id)).collect();
        open.extend(new);
        at += 1;
    }
    open.split_off(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{End, Given, Offer, advance, fail, succeed};
    use super::*;

    fn document() -> Document {
        let document = json!({"v": 1, "goal": "g", "steps": [
            {"id": "both", "type": "parallel", "steps": [
                {"id": "a", "type": "llm", "prompt": "a", "retry": {"max": 0}},
                {"id": "b", "type": "llm", "prompt": "b {{ 1 }}", "after": ["a"]}]},
            {"id": "other", "type": "llm", "prompt": "o"},
            {"id": "end", "type": "llm", "prompt": "{{ both.result }}"}]});
        Document::parse(&document.to_string(), Offer { tools: &[], steps: 10 }).unwrap()
    }

    fn given(input: &Value) -> Given<'_> {
        let now = DateTime::UNIX_EPOCH;
        Given {
            input,
            now,
            paused: false,
            cancelled: false,
            deadline: now + chrono::TimeDelta::hours(1),
            may_replan: false,
            at_once: 5,
        }
    }

    /// `both.a` has failed, `other` runs.
    fn failed() -> (Document, States) {
        let (document, mut states) = (document(), States::new());
        advance(&document, &mut states, &given(&Value::Null));
        let step = super::super::step(&document, "both.a").unwrap();
        let error = Failure::new("NOT_FOUND", "no");
        assert!(fail(step, &mut states, "both.a", error, DateTime::UNIX_EPOCH, 0.5));
        advance(&document, &mut states, &given(&Value::Null));
        (document, states)
    }

    fn statuses(states: &Changed) -> Vec<(&str, Status)> {
        states.iter().map(|(path, state)| (path.as_str(), state.status)).collect()
    }

    #[test]
    fn repeated_step_takes_along_what_failed_with_it() {
        let (document, mut states) = failed();
        assert_eq!(states["both"].status, Status::Failed);
        assert_eq!(states["end"].status, Status::Skipped);
        let changed = repeat(&document, &states, "both.a", DateTime::UNIX_EPOCH).unwrap();
        assert_eq!(
            statuses(&changed),
            [
                ("both", Status::Running),
                ("both.a", Status::Pending),
                ("both.b", Status::Pending),
                ("end", Status::Pending)
            ]
        );
        states.extend(changed);
        let next = advance(&document, &mut states, &given(&Value::Null));
        assert_eq!((next.start, next.end), (vec!["both.a".to_owned()], None));
    }

    #[test]
    fn plan_completes_without_a_step_that_was_skipped() {
        let (document, mut states) = failed();
        let changed = skip(&document, &states, "both.a").unwrap();
        states.extend(changed);
        for path in ["both.b", "other", "end"] {
            advance(&document, &mut states, &given(&Value::Null));
            assert!(succeed(&mut states, path, json!("x")), "{path}: {states:?}");
        }
        let next = advance(&document, &mut states, &given(&Value::Null));
        assert!(matches!(next.end, Some(End::Completed { .. })), "{next:?}");
    }

    #[test]
    fn only_steps_in_the_right_status_are_changed() {
        let (document, states) = failed();
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(repeat(&document, &states, "nope", now), Err(ByHandError::Unknown));
        assert_eq!(skip(&document, &states, "both[0].a"), Err(ByHandError::Unknown));
        for path in ["other", "both", "end"] {
            let refused = repeat(&document, &states, path, now);
            assert!(matches!(refused, Err(ByHandError::Status(_))), "{path}: {refused:?}");
        }
        assert!(matches!(skip(&document, &states, "other"), Err(ByHandError::Status(_))));
    }
}

//! Plans in streams.
//!
//! In the stream of the agentable that a plan works for, its list of steps is an activity: a message that changes in place.
//! Never `STEP_*`, which a client refuses to have open at the end of a run, where a plan may go on. For the same reason the
//! steps in a plan's own stream are `CUSTOM`: its run may wait, fail or be cancelled while some are open, and several attempts
//! have one name.

use std::borrow::Cow;

use houston_domain::event::Event as Durable;
use houston_protocol::agui::{EntityId, Event, Fact, PLAN_ACTIVITY, Timestamp};
use houston_protocol::time::Time;
use serde_json::Value;

/// The AG-UI events for an event of a plan; none for another event.
pub(crate) fn plan(timestamp: Timestamp, event: &Durable) -> Vec<Event<'_>> {
    let step = step(event).map(|fact| Event::Custom { timestamp, fact });
    let reported = reported(event).map(|fact| Event::Custom { timestamp, fact });
    step.into_iter().chain(reported).chain(listed(timestamp, event)).collect()
}

/// What happened to a plan as a whole.
fn reported(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
        Durable::PlanCreated { plan_id, goal, .. } => {
            Fact::PlanCreated { plan_id: plan_id.into(), goal: goal.into() }
        }
        Durable::PlanChanged { plan_id, version, reason, .. } => {
            Fact::PlanChanged { plan_id: plan_id.into(), version: *version, reason: reason.into() }
        }
        Durable::PlanEnded { plan_id, status, code, message, .. } => Fact::PlanEnded {
            plan_id: plan_id.into(),
            status: *status,
            code: code.as_deref().map(Cow::from),
            message: message.as_deref().map(Cow::from),
        },
        _ => return None,
    })
}

/// What happened to a step, in the plan's own stream.
fn step(event: &Durable) -> Option<Fact<'_>> {
    Some(match event {
        Durable::PlanStepStarted { path, title, step, attempt } => Fact::PlanStepStarted {
            path: path.into(),
            title: title.into(),
            step: step.into(),
            attempt: *attempt,
        },
        Durable::PlanStepFinished { path, status } => {
            Fact::PlanStepFinished { path: path.into(), status: status.into() }
        }
        Durable::PlanStepFailed { path, code, message, retry_at } => Fact::PlanStepFailed {
            path: path.into(),
            code: code.into(),
            message: message.into(),
            retry_at: retry_at.map(Time),
        },
        _ => return None,
    })
}

/// The list of steps: whole, or what changed in it.
fn listed(timestamp: Timestamp, event: &Durable) -> Option<Event<'_>> {
    let whole = |plan_id: &str, content| snapshot(timestamp, plan_id, content);
    match event {
        Durable::PlanCreated { plan_id, checklist, .. }
        | Durable::PlanChanged { plan_id, checklist, .. }
        | Durable::PlanEnded { plan_id, checklist, .. }
        | Durable::PlanProgress { plan_id, checklist: Some(checklist), .. } => whole(plan_id, checklist),
        Durable::PlanProgress { plan_id, delta, .. } if !delta.is_empty() => Some(Event::ActivityDelta {
            timestamp,
            message_id: EntityId::of_plan(plan_id)?,
            activity_type: PLAN_ACTIVITY.into(),
            patch: delta.into(),
        }),
        _ => None,
    }
}

fn snapshot<'a>(timestamp: Timestamp, plan_id: &str, content: &'a Value) -> Option<Event<'a>> {
    Some(Event::ActivitySnapshot {
        timestamp,
        message_id: EntityId::of_plan(plan_id)?,
        activity_type: PLAN_ACTIVITY.into(),
        content: Cow::Borrowed(content),
    })
}

#[cfg(test)]
mod tests {
    use houston_domain::run::RunStatus;
    use serde_json::json;

    use super::*;

    const PLAN: &str = "plan_00000000000000000000000000000007";

    fn rendered(event: &Durable) -> Value {
        serde_json::to_value(plan(Some(5), event)).unwrap()
    }

    #[test]
    fn list_of_steps_is_an_activity_with_the_plans_id() {
        let list = json!({"status": "running", "steps": []});
        let activity = json!({"type": "ACTIVITY_SNAPSHOT", "timestamp": 5, "messageId": PLAN, "activityType": "houston.plan",
            "content": list});
        let (plan_id, checklist) = (PLAN.to_owned(), list);
        let created = Durable::PlanCreated {
            plan_id: plan_id.clone(),
            goal: "go".into(),
            checklist: checklist.clone(),
        };
        let reported = |name: &str, value: Value| json!({"type": "CUSTOM", "timestamp": 5, "name": name, "value": value});
        assert_eq!(
            rendered(&created),
            json!([reported("houston.plan.created", json!({"plan_id": PLAN, "goal": "go"})), activity])
        );
        let changed = Durable::PlanChanged {
            plan_id: plan_id.clone(),
            version: 2,
            reason: "`a` failed".into(),
            checklist: checklist.clone(),
        };
        assert_eq!(
            rendered(&changed),
            json!([
                reported(
                    "houston.plan.changed",
                    json!({"plan_id": PLAN, "version": 2, "reason": "`a` failed"})
                ),
                activity
            ])
        );
        let ended = Durable::PlanEnded {
            plan_id: plan_id.clone(),
            status: RunStatus::Failed,
            code: Some("TIMEOUT".into()),
            message: None,
            checklist: checklist.clone(),
        };
        assert_eq!(
            rendered(&ended),
            json!([
                reported(
                    "houston.plan.ended",
                    json!({"plan_id": PLAN, "status": "failed", "code": "TIMEOUT"})
                ),
                activity
            ])
        );
        let again =
            Durable::PlanProgress { plan_id: plan_id.clone(), delta: Vec::new(), checklist: Some(checklist) };
        assert_eq!(rendered(&again), json!([activity]));
        let patch = vec![json!({"op": "replace", "path": "/done", "value": 1})];
        let got_on = Durable::PlanProgress { plan_id, delta: patch.clone(), checklist: None };
        assert_eq!(
            rendered(&got_on),
            json!([{"type": "ACTIVITY_DELTA", "timestamp": 5, "messageId": PLAN, "activityType": "houston.plan",
                "patch": patch}])
        );
    }

    #[test]
    fn steps_in_the_plans_own_stream_are_custom() {
        let started = Durable::PlanStepStarted {
            path: "each[1].read".into(),
            title: "Read".into(),
            step: "task".into(),
            attempt: 2,
        };
        let failed = Durable::PlanStepFailed {
            path: "find".into(),
            code: "TIMEOUT".into(),
            message: "too long".into(),
            retry_at: None,
        };
        let finished = Durable::PlanStepFinished { path: "find".into(), status: "skipped".into() };
        let all = [started, failed, finished].map(|event| rendered(&event)[0]["name"].clone());
        assert_eq!(
            all,
            ["houston.plan.step.started", "houston.plan.step.failed", "houston.plan.step.finished"]
        );
    }
}

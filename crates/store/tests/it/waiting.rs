//! Runs that wait, and the questions they wait for.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use houston_domain::agentable::DoubleTexting;
use houston_domain::event::{Committed, Event};
use houston_domain::id::QuestionId;
use houston_domain::intervention::Intervention;
use houston_domain::question::{NewQuestion, QuestionChanges, QuestionKind, QuestionState};
use houston_domain::run::RunStatus;
use houston_domain::step::{RunTransition, Step};
use houston_store::Error;
use houston_store::answer::Answered;
use houston_store::claim::ClaimedRun;
use houston_store::step::{Commit, CommittedStep};
use serde_json::json;

use crate::step::{ending, finished};
use crate::test_store::TestStore;

/// When a question of these tests expires.
#[derive(Clone, Copy)]
enum Expires {
    Never,
    Now,
}

impl TestStore {
    fn question(&self, expires: Expires) -> NewQuestion {
        let expires_at = match expires {
            Expires::Never => None,
            Expires::Now => Some(self.ids.clock().now() - TimeDelta::hours(1)),
        };
        NewQuestion {
            id: self.ids.beside(self.goal),
            kind: QuestionKind::Approval,
            subject: Some("call_1".into()),
            text: "May I?".into(),
            schema: Some(json!({"type": "boolean"})),
            default_value: Some(json!(false)),
            expires_at,
            approval: None,
            message_id: None,
        }
    }

    fn wait(&self, claimed: &ClaimedRun, until: Option<DateTime<Utc>>, questions: &[QuestionId]) -> Step {
        let event = Event::RunWaiting { until, iteration: 1 };
        self.step(
            claimed,
            RunTransition::Wait { event, until, questions: questions.to_vec(), open_calls: None },
        )
    }

    async fn write(&self, claimed: &ClaimedRun, step: &Step) -> CommittedStep {
        match self.runs().commit(&claimed.fence, step).await.unwrap() {
            Commit::Done(done) => done,
            Commit::AlreadyCommitted => panic!("already committed"),
        }
    }

    /// A run that asks this question and waits for it.
    async fn asked(&self, question: NewQuestion) -> (ClaimedRun, QuestionId) {
        self.post("Delete all notes").await;
        let claimed = self.claim().await.unwrap();
        let id = question.id;
        let mut step = self.wait(&claimed, None, &[id]);
        step.questions = asks([question]);
        assert!(!self.write(&claimed, &step).await.continued);
        (claimed, id)
    }

    async fn is_due(&self) -> bool {
        !self.runs().due(None, 10).await.unwrap().due.is_empty()
    }

    async fn stop(&self, claimed: &ClaimedRun, status: RunStatus) -> CommittedStep {
        let then = RunTransition::Terminate { event: finished(status), ending: ending(status) };
        self.write(claimed, &self.step(claimed, then)).await
    }

    /// The type of each event of the goal, without those before the first question or wait. Positions have no gap.
    async fn events(&self) -> Vec<String> {
        let events = self.requests().events_after(self.goal, 0, 1000).await.unwrap();
        assert!(events.iter().map(|event| event.seq).eq(1..=i64::try_from(events.len()).unwrap()));
        let name = |event: &Committed| {
            serde_json::to_value(&event.event).unwrap()["type"].as_str().unwrap().to_owned()
        };
        events.iter().skip(3).map(name).collect()
    }

    fn status(&self, claimed: &ClaimedRun) -> String {
        self.sql(&format!("select status from houston.runs where id = '{}'", claimed.run.0)).trim().to_owned()
    }
}

fn asks(questions: impl IntoIterator<Item = NewQuestion>) -> Option<Box<QuestionChanges>> {
    let asked = questions.into_iter().collect();
    Some(Box::new(QuestionChanges { asked, superseded: Vec::new() }))
}

async fn state(test: &TestStore, id: QuestionId) -> QuestionState {
    test.requests().question(id).await.unwrap().question.state
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_run_holds_neither_lock_nor_slot() {
    let test = TestStore::start().await;
    let (claimed, id) = test.asked(test.question(Expires::Never)).await;
    assert_eq!(test.status(&claimed), "waiting");
    let held = "select count(*) from houston.runs where held_for is not null";
    assert_eq!(test.sql(held).trim(), "0");
    assert_eq!(
        test.sql("select count(*) from houston.run_locks where holder is not null or wake").trim(),
        "0"
    );
    assert!(!test.is_due().await, "no sweep finds it");
    assert!(test.claim().await.is_none(), "a hint alone is no reason to run");
    let late = test.runs().commit(&claimed.fence, &test.wait(&claimed, None, &[])).await;
    assert!(matches!(late, Err(Error::Fenced)), "{late:?}");
    assert_eq!(test.events().await, ["question_asked", "run_waiting"]);
    let run = test.requests().run(claimed.run).await.unwrap();
    assert_eq!((run.status, run.ended_at, run.waits_until), (RunStatus::Waiting, None, None));
    let open = test.requests().open_questions(None, None, None, 10).await.unwrap();
    assert_eq!(open.iter().map(|of| of.question.asked.id).collect::<Vec<_>>(), [id]);
    assert_eq!((open[0].kind.as_str(), open[0].run), ("goal", claimed.run));
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_wakes_the_run_which_goes_on_with_it() {
    let test = TestStore::start().await;
    let (first, id) = test.asked(test.question(Expires::Never)).await;
    let answered = test.requests().answer_question(id, &json!(true), Some("Ann")).await.unwrap();
    let Answered::Now(asked) = answered else { panic!("{answered:?}") };
    assert_eq!(asked.question.outcome(), Some(&json!(true)));
    assert_eq!(asked.question.answered_by.as_deref(), Some("Ann"));
    assert!(test.is_due().await);
    let resumed = test.claim().await.unwrap();
    assert_eq!((resumed.run, resumed.attempt, resumed.claims), (first.run, 2, 1));
    assert!(matches!(resumed.event.event, Event::AttemptStarted { resumed: true, takeover: false, .. }));
    let questions = test.runs().questions_of(test.goal, resumed.run).await.unwrap();
    assert_eq!(questions[0].outcome(), Some(&json!(true)));
    assert!(!test.write(&resumed, &test.wait(&resumed, None, &[])).await.continued, "the wake-up was used");
    assert_eq!(
        test.events().await,
        ["question_asked", "run_waiting", "question_closed", "attempt_started", "run_waiting"]
    );
    let open = test.requests().open_questions(None, None, None, 10).await.unwrap();
    assert!(open.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_before_the_wait_is_committed_is_not_missed() {
    let test = TestStore::start().await;
    test.post("Delete all notes").await;
    let claimed = test.claim().await.unwrap();
    let question = test.question(Expires::Never);
    let id = question.id;
    let mut asking = test.step(&claimed, RunTransition::Continue { read: false, event: None });
    asking.questions = asks([question]);
    test.write(&claimed, &asking).await;
    test.requests().answer_question(id, &json!(true), None).await.unwrap();
    // The step between the answer and the wait uses the wake-up.
    let reading = test.step(&claimed, RunTransition::Continue { read: true, event: None });
    test.write(&claimed, &reading).await;
    assert!(test.write(&claimed, &test.wait(&claimed, None, &[id])).await.continued);
    assert_eq!(test.status(&claimed), "running");
    assert!(!test.write(&claimed, &test.wait(&claimed, None, &[])).await.continued);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_and_waits_at_once_lose_no_wake_up() {
    let test = TestStore::start().await;
    test.post("Ask me often").await;
    for round in 0..40 {
        let claimed = match test.claim().await {
            Some(claimed) => claimed,
            None => panic!("round {round}: the run waits for a question that is closed"),
        };
        let question = test.question(Expires::Never);
        let id = question.id;
        let mut asking = test.step(&claimed, RunTransition::Continue { read: true, event: None });
        asking.questions = asks([question]);
        test.write(&claimed, &asking).await;
        let (answer, waits) = (json!(round), test.wait(&claimed, None, &[id]));
        let answering = test.requests().answer_question(id, &answer, None);
        let (answered, waited) = tokio::join!(answering, test.write(&claimed, &waits));
        assert!(matches!(answered.unwrap(), Answered::Now(_)));
        let continued = waited.continued;
        if continued {
            // It was answered first. The next wait, for nothing, is left by a message.
            test.write(&claimed, &test.wait(&claimed, None, &[])).await;
            test.post("Go on").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_wakes_a_run_that_waits_until_a_time() {
    let test = TestStore::start().await;
    test.post("Remind me tomorrow").await;
    let first = test.claim().await.unwrap();
    let tomorrow = test.ids.clock().now() + TimeDelta::days(1);
    test.write(&first, &test.wait(&first, Some(tomorrow), &[])).await;
    let run = test.requests().run(first.run).await.unwrap();
    assert_eq!(run.waits_until.map(|at| at.timestamp()), Some(tomorrow.timestamp()));
    assert_eq!(test.runs().wake_waiting(10).await.unwrap(), 0, "it is not due");
    assert!(test.claim().await.is_none());
    test.post("Or now").await;
    assert!(test.is_due().await, "it does not wait for the time");
    let resumed = test.claim().await.unwrap();
    assert_eq!(resumed.run, first.run, "the message joins the run");
    let reads = test.step(&resumed, RunTransition::Continue { read: true, event: None });
    assert_eq!(test.write(&resumed, &reads).await.read[0].text, "Or now");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_before_the_wait_continues_the_run() {
    let test = TestStore::start().await;
    test.post("Hello").await;
    let claimed = test.claim().await.unwrap();
    test.post("One more thing").await;
    let done = test.write(&claimed, &test.wait(&claimed, None, &[])).await;
    assert_eq!((done.continued, done.read[0].text.as_str()), (true, "One more thing"));
    assert_eq!(test.status(&claimed), "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_that_has_come_wakes_the_run_once() {
    let test = TestStore::start().await;
    test.post("Remind me").await;
    let first = test.claim().await.unwrap();
    let past = Some(test.ids.clock().now() - TimeDelta::seconds(1));
    test.write(&first, &test.wait(&first, past, &[])).await;
    assert!(!test.is_due().await, "nothing has looked at the time");
    assert_eq!(test.runs().wake_waiting(10).await.unwrap(), 1);
    assert_eq!(test.runs().wake_waiting(10).await.unwrap(), 0);
    assert!(test.is_due().await);
    assert_eq!(test.claim().await.unwrap().attempt, 2);
    // A timer in a worker may be earlier than the sweep.
    let again = TestStore::start().await;
    again.post("Remind me").await;
    let first = again.claim().await.unwrap();
    again.write(&first, &again.wait(&first, past, &[])).await;
    assert_eq!(again.claim().await.unwrap().attempt, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_run_is_cancelled_and_its_questions_close() {
    let test = TestStore::start().await;
    let (first, id) = test.asked(test.question(Expires::Never)).await;
    test.requests().cancel_run(first.run).await.unwrap().unwrap();
    let resumed = test.claim().await.unwrap();
    assert!(resumed.cancel_seq.is_some());
    test.stop(&resumed, RunStatus::Cancelled).await;
    assert_eq!(test.status(&resumed), "cancelled");
    assert_eq!(state(&test, id).await, QuestionState::Cancelled);
    let late = test.requests().answer_question(id, &json!(true), None).await.unwrap();
    assert!(matches!(late, Answered::Closed(asked) if asked.question.answer.is_none()));
    assert!(!test.is_due().await, "a late answer wakes nothing");
    assert_eq!(
        test.events().await[2..],
        ["attempt_started", "question_closed", "run_finished"].map(str::to_owned),
        "nothing follows the end of the run"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_end_a_run_closes_its_questions() {
    let test = TestStore::start().await;
    for status in [RunStatus::Completed, RunStatus::Failed] {
        let (_, id) = test.asked(test.question(Expires::Never)).await;
        test.post("Never mind").await;
        let resumed = test.claim().await.unwrap();
        let (event, ending) = (finished(status), ending(status));
        let then = if status == RunStatus::Completed {
            let read = test.step(&resumed, RunTransition::Continue { read: true, event: None });
            test.write(&resumed, &read).await;
            RunTransition::Complete { event, continue_event: Event::HandedOver { iteration: 1 }, ending }
        } else {
            RunTransition::Terminate { event, ending }
        };
        test.write(&resumed, &test.step(&resumed, then)).await;
        assert_eq!(state(&test, id).await, QuestionState::Cancelled, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn message_that_interrupts_a_waiting_run_opens_the_next() {
    for policy in [DoubleTexting::Interrupt, DoubleTexting::Rollback] {
        let test = TestStore::start().await;
        let (first, id) = test.asked(test.question(Expires::Never)).await;
        test.try_post_as("Stop, do this instead", policy, None).await.unwrap();
        let resumed = test.claim().await.unwrap();
        assert_eq!(resumed.run, first.run);
        assert!(test.stop(&resumed, RunStatus::Cancelled).await.opened);
        assert_eq!(state(&test, id).await, QuestionState::Cancelled);
        let next = test.claim().await.unwrap();
        assert_ne!(next.run, first.run);
        let rolled_back = "select count(*) from houston.history where rolled_back";
        let expected = if policy == DoubleTexting::Rollback { "1" } else { "0" };
        assert_eq!(test.sql(rolled_back).trim(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_leave_a_waiting_run_alone() {
    let test = TestStore::start().await;
    let (first, id) = test.asked(test.question(Expires::Never)).await;
    test.sql("update houston.runs set created_at = now() - interval '3 days', started_at = now() - interval '3 days'");
    test.sql("update houston.messages set created_at = now() - interval '3 days'");
    test.sql("update houston.events set created_at = now() - interval '3 days'");
    test.sql("update houston.workers set started_at = now() - interval '3 days'");
    let hour = Duration::from_secs(3600);
    let kinds = ["goal".to_owned()];
    let stale = || async {
        test.runs().stop_stale(&kinds, false, hour, Intervention::Stale, 10).await.unwrap().len()
    };
    assert_eq!(stale().await, 0);
    assert!(test.runs().stop_expired(&kinds, hour, 10).await.unwrap().is_empty());
    assert!(test.runs().stop_stuck(hour, 10).await.unwrap().is_empty());
    assert!(test.runs().late(hour, 10).await.unwrap().is_empty());
    assert!(test.runs().wake_forgotten(10).await.unwrap().is_empty());
    assert_eq!(test.status(&first), "waiting");
    // Once something has arrived it waits for a worker, as every run.
    test.requests().answer_question(id, &json!(true), None).await.unwrap();
    test.sql("update houston.events set created_at = now() - interval '3 days'");
    assert_eq!(test.runs().late(hour, 10).await.unwrap().len(), 1);
    assert_eq!(stale().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_is_not_closed_under_a_waiting_run() {
    let test = TestStore::start().await;
    let (first, id) = test.asked(test.question(Expires::Never)).await;
    test.sql("update houston.history set created_at = now() - interval '3 days'");
    let closed = test.sql(&format!("select houston.close_session('{}', 'reset')", test.goal.0));
    assert_eq!(closed.trim(), "deferred");
    test.requests().answer_question(id, &json!(true), None).await.unwrap();
    let resumed = test.claim().await.unwrap();
    assert_eq!(resumed.run, first.run);
    assert_eq!(
        test.sql("select session_position from houston.run_locks where run_id is not null").trim(),
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn driver_state_is_kept_over_attempts() {
    let test = TestStore::start().await;
    test.post("Count").await;
    let first = test.claim().await.unwrap();
    let mut step = test.wait(&first, None, &[]);
    step.state = Some(Box::new(json!({"count": 1})));
    test.write(&first, &step).await;
    test.post("Go on").await;
    let resumed = test.claim().await.unwrap();
    let (state, questions) = test.runs().driven(test.goal, resumed.run).await.unwrap();
    assert_eq!((state, questions.len()), (Some(json!({"count": 1})), 0));
}

mod questions;

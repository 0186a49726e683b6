use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::id::{AgentableId, QuestionId, WriteId};
use crate::message::Source;
use crate::model::Usage;
use crate::plan::PlanChanges;

const LIMITS: ReadLimits = ReadLimits { messages: 3, bytes: 1_000 };
const RUN: RunId = RunId(Uuid::from_u128(1));
const NEXT_RUN: RunId = RunId(Uuid::from_u128(0x1_0001));

fn ending(status: RunStatus) -> Ending {
    Ending { status, error_code: Some("TIMEOUT".into()), error_message: Some("slow".into()) }
}

fn finished() -> Event {
    let (status, message) = (RunStatus::Completed, Some("slow".to_owned()));
    Event::RunFinished {
        status,
        iteration: Some(1),
        usage: Usage::default(),
        message,
        code: None,
        result: None,
    }
}

fn complete() -> RunTransition {
    let (event, continue_event) = (finished(), Event::HandedOver { iteration: 1 });
    RunTransition::Complete { event, continue_event, ending: ending(RunStatus::Completed) }
}

fn terminate() -> RunTransition {
    RunTransition::Terminate { event: finished(), ending: ending(RunStatus::Failed) }
}

fn retry(counts: bool) -> RunTransition {
    let event = Event::HandedOver { iteration: 1 };
    RunTransition::Retry { event, at: DateTime::UNIX_EPOCH, counts, ending: ending(RunStatus::Retrying) }
}

const QUESTION: QuestionId = QuestionId(Uuid::from_u128(3));

fn wait(until: Option<DateTime<Utc>>, questions: &[QuestionId]) -> RunTransition {
    RunTransition::Wait {
        event: Event::RunWaiting { until, iteration: 1 },
        until,
        questions: questions.to_vec(),
        open_calls: None,
    }
}

/// The end of a step whose calls wait for a person, after `seen` unread messages were looked at.
fn wait_with_open_calls(seen: i32) -> RunTransition {
    let event = Event::RunWaiting { until: None, iteration: 1 };
    RunTransition::Wait { event, until: None, questions: vec![QUESTION], open_calls: Some(seen) }
}

fn step(transition: RunTransition) -> Step {
    Step {
        write: WriteId(Uuid::nil()),
        run: RUN,
        entries: Vec::new(),
        frames: Vec::new(),
        events: Vec::new(),
        messages: Vec::new(),
        intents: Vec::new(),
        responses: Vec::new(),
        pauses: Vec::new(),
        large_results: Vec::new(),
        more_calls: Vec::new(),
        questions: None,
        state: None,
        plan: None,
        untrusted: false,
        cells: Vec::new(),
        iterations: 1,
        usage: Usage::default(),
        model: None,
        call: None,
        transition,
    }
}

/// A run that has read up to position 10, when `seqs` have arrived.
fn found(seqs: &[i64]) -> Found {
    let unread = |seq: &i64| Unread {
        seq: *seq,
        source: Source::User,
        metadata_type: None,
        content: seq.to_string(),
        is_for_run: true,
    };
    Found {
        is_awake: !seqs.is_empty(),
        read_seq: 10,
        unread_count: i32::try_from(seqs.len()).unwrap(),
        unread: seqs.iter().map(unread).collect(),
        ..Found::default()
    }
}

/// The same after a request to cancel at `seq`; the messages up to it are taken along.
fn cancelled(seqs: &[i64], seq: i64, reason: Option<&str>) -> Found {
    let left: Vec<i64> = seqs.iter().copied().filter(|one| *one > seq).collect();
    Found {
        is_awake: true,
        cancel_seq: Some(seq),
        cancel_reason: reason.map(str::to_owned),
        unread_count: i32::try_from(seqs.len()).unwrap(),
        unread_after: Some(i32::try_from(left.len()).unwrap()),
        ..found(&left)
    }
}

fn texts(changes: &Changes<'_>) -> Vec<String> {
    changes.read.iter().map(|block| block.text.clone()).collect()
}

#[test]
fn run_ends_when_nothing_has_arrived() {
    let step = step(complete());
    let changes = decide(&step, found(&[]), LIMITS);
    assert!(changes.ends() && changes.releases() && changes.frees_a_slot() && !changes.wakes);
    assert_eq!((changes.status(), changes.next_run), (Some(RunStatus::Completed), None));
    assert_eq!(changes.last.as_deref(), Some(&finished()));
    assert_eq!(undisturbed(&step), Some(changes));
}

#[test]
fn message_continues_a_run_that_would_have_completed() {
    let step = step(complete());
    let changes = decide(&step, found(&[11, 12]), LIMITS);
    assert!(!changes.ends() && !changes.wakes);
    assert_eq!(texts(&changes), ["11", "12"]);
    assert_eq!((changes.read_seq, changes.unread), (Some(12), Some(0)));
    assert_eq!(changes.last.as_deref(), Some(&Event::HandedOver { iteration: 1 }));
    assert!(changes.moved.is_empty(), "they were posted for this run");
}

#[test]
fn messages_beyond_the_limit_keep_the_agentable_awake() {
    let step = step(RunTransition::Continue { read: true, event: None });
    let changes = decide(&step, found(&[11, 12, 13, 14]), LIMITS);
    assert_eq!((texts(&changes).len(), changes.read_seq, changes.unread), (3, Some(13), Some(1)));
    assert!(changes.wakes);
}

#[test]
fn messages_are_not_read_while_tool_calls_are_open() {
    let step = step(RunTransition::Continue { read: false, event: None });
    let found = found(&[11]);
    assert_eq!(found.reads_after(&step), None);
    let changes = decide(&step, found, LIMITS);
    assert!(changes.read.is_empty() && changes.read_seq.is_none() && changes.wakes);
}

#[test]
fn failed_run_leaves_messages_to_the_next_run() {
    let step = step(terminate());
    let changes = decide(&step, found(&[11, 12]), LIMITS);
    assert_eq!((changes.next_run, changes.read_seq, changes.unread), (Some(NEXT_RUN), None, None));
    assert_eq!(changes.moved, [MovedMessages { after: 10, to: 12, run: NEXT_RUN }]);
    assert!(changes.ends() && changes.wakes && changes.read.is_empty());
    assert_eq!(changes.error(), (Some("TIMEOUT"), Some("slow")));
}

#[test]
fn cancelled_run_takes_the_messages_before_the_request_along() {
    for (reason, by) in [(None, "user"), (Some("interrupt"), "interrupt"), (Some("rollback"), "rollback")] {
        let step = step(complete());
        let changes = decide(&step, cancelled(&[11, 12, 13], 12, reason), LIMITS);
        assert_eq!((changes.status(), changes.error()), (Some(RunStatus::Cancelled), (None, None)));
        assert_eq!((changes.read_seq, changes.unread, changes.next_run), (Some(12), Some(1), Some(NEXT_RUN)));
        let moved = [
            MovedMessages { after: 10, to: 12, run: RUN },
            MovedMessages { after: 12, to: 13, run: NEXT_RUN },
        ];
        assert_eq!(changes.moved, moved);
        let Some(Event::RunFinished { status, message, code, .. }) = changes.last.as_deref() else {
            panic!("{changes:?}");
        };
        assert_eq!((*status, message, code.as_deref()), (RunStatus::Cancelled, &None, Some(by)));
        assert_eq!(changes.cancelled.unwrap().rolls_back(), by == "rollback");
    }
}

#[test]
fn run_that_the_health_monitor_ends_is_not_cancelled() {
    let step = step(terminate());
    let changes = decide(&step, Found { is_awake: true, ..cancelled(&[], 10, Some("stuck")) }, LIMITS);
    assert_eq!((changes.status(), changes.cancelled), (Some(RunStatus::Failed), None));
}

#[test]
fn request_to_cancel_does_not_wait_for_the_next_attempt() {
    let step = step(retry(true));
    assert_eq!(decide(&step, found(&[]), LIMITS).until(), Some(DateTime::UNIX_EPOCH));
    let changes = decide(&step, cancelled(&[], 10, None), LIMITS);
    assert_eq!(changes.until(), None);
    assert!(changes.wakes && !changes.ends());
}

#[test]
fn hand_over_counts_neither_as_failure_nor_as_a_freed_slot() {
    let hand_over = step(RunTransition::Release { event: Event::HandedOver { iteration: 1 } });
    for step in [hand_over, step(retry(false))] {
        let changes = decide(&step, found(&[]), LIMITS);
        assert_eq!((changes.failures(), changes.frees_a_slot()), (Some(0), false));
        assert!(changes.is_progress && !changes.forgives_deaths && changes.wakes);
    }
    let (failed, ended) = (step(retry(true)), step(complete()));
    assert_eq!(decide(&failed, found(&[]), LIMITS).failures(), Some(1));
    assert_eq!(decide(&ended, found(&[]), LIMITS).failures(), None, "they are forgotten");
}

#[test]
fn run_waits_without_lock_and_slot_when_nothing_has_arrived() {
    for until in [None, Some(DateTime::UNIX_EPOCH)] {
        let step = step(wait(until, &[]));
        let changes = decide(&step, found(&[]), LIMITS);
        assert!(changes.releases() && changes.frees_a_slot() && !changes.ends() && !changes.wakes);
        assert_eq!((changes.status(), changes.until()), (Some(RunStatus::Waiting), until));
        assert_eq!(changes.last.as_deref(), Some(&Event::RunWaiting { until, iteration: 1 }));
        assert!(changes.forgives_deaths && changes.failures().is_none(), "it got as far as it wanted");
        assert_eq!(undisturbed(&step), Some(changes));
    }
}

#[test]
fn run_that_was_to_wait_goes_on_with_what_has_arrived() {
    let step = step(wait(None, &[QUESTION]));
    assert_eq!(undisturbed(&step), None, "only the rows of the questions say whether they are open");
    let changes = decide(&step, found(&[11]), LIMITS);
    assert_eq!(
        (changes.outcome, texts(&changes), changes.wakes),
        (Outcome::Continued, vec!["11".to_owned()], false)
    );
    let answered = decide(&step, Found { is_answered: true, ..found(&[]) }, LIMITS);
    assert_eq!((answered.outcome, answered.last.is_none()), (Outcome::Continued, true));
    let changes = decide(&step, Found { cancel_seq: Some(11), is_awake: true, ..found(&[11]) }, LIMITS);
    assert_eq!((changes.outcome, changes.read_seq, changes.wakes), (Outcome::Continued, None, true));
}

#[test]
fn step_that_only_polls_is_no_progress() {
    let polls = step(RunTransition::Continue { read: true, event: None });
    assert!(!decide(&polls, found(&[]), LIMITS).is_progress);
    let iterates =
        step(RunTransition::Continue { read: true, event: Some(Event::HandedOver { iteration: 1 }) });
    assert!(decide(&iterates, found(&[]), LIMITS).is_progress);
}

#[test]
fn end_of_a_cancelled_run_is_decided_under_the_lock() {
    let transition = RunTransition::Terminate { event: finished(), ending: ending(RunStatus::Cancelled) };
    assert_eq!(undisturbed(&step(transition)), None);
}

#[test]
fn step_that_changes_the_document_of_a_plan_is_decided_alone() {
    let plan = |document| PlanChanges {
        plan_id: "plan_1".into(),
        parent: AgentableId(Uuid::nil()),
        seen: 0,
        steps: Vec::new(),
        calls: 0,
        deadline: None,
        removed: Vec::new(),
        document,
        listed: None,
        end: None,
    };
    let step = |document| Step { plan: Some(Box::new(plan(document))), ..step(complete()) };
    assert!(undisturbed(&step(None)).is_some_and(|changes| changes.ends()));
    assert_eq!(undisturbed(&step(Some((serde_json::Value::Null, "other steps".into())))), None);
}

fn transition() -> impl Strategy<Value = RunTransition> {
    prop_oneof![
        any::<bool>().prop_map(|read| RunTransition::Continue { read, event: None }),
        Just(complete()),
        Just(terminate()),
        any::<bool>().prop_map(retry),
        Just(wait(None, &[QUESTION])),
        Just(RunTransition::Release { event: Event::HandedOver { iteration: 1 } }),
    ]
}

/// What happens to a run that waits for a question.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Posted,
    Answered,
    Cancelled,
    Stepped { reads: bool },
    Waits,
    Looks,
    WaitsWithOpenCalls,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => Just(Happening::Posted),
        1 => Just(Happening::Answered),
        1 => Just(Happening::Cancelled),
        4 => any::<bool>().prop_map(|reads| Happening::Stepped { reads }),
        4 => Just(Happening::Waits),
        2 => Just(Happening::Looks),
        4 => Just(Happening::WaitsWithOpenCalls),
    ]
}

/// The rows of an agentable, as far as they concern waking it.
#[test]
fn run_with_open_calls_reads_nothing_while_it_waits() {
    let step = step(wait_with_open_calls(2));
    let waiting = decide(&step, found(&[11, 12]), LIMITS);
    assert_eq!((waiting.outcome, waiting.wakes), (Outcome::Waiting { until: None }, false));
    let continued = decide(&step, found(&[11, 12, 13]), LIMITS);
    assert_eq!((continued.outcome, continued.wakes), (Outcome::Continued, true));
    assert_eq!(
        (texts(&continued), continued.unread),
        (Vec::new(), None),
        "the results of the calls come first"
    );
    for arrived in [Found { is_answered: true, ..found(&[]) }, cancelled(&[], 12, None)] {
        assert_eq!(decide(&step, arrived, LIMITS).outcome, Outcome::Continued);
    }
    assert_eq!(undisturbed(&step), None, "only the rows of the questions say whether they are answered");
}

#[derive(Debug, Default)]
struct Rows {
    last_seq: i64,
    read_seq: i64,
    is_awake: bool,
    is_answered: bool,
    cancel_seq: Option<i64>,
    /// Unread messages that a run with open calls has looked at, and whether it has open calls.
    seen: i32,
    has_open_calls: bool,
}

impl Rows {
    fn unread(&self) -> i32 {
        i32::try_from(self.last_seq - self.read_seq).unwrap()
    }

    /// Commits a step; returns whether the run waits then.
    fn commit(&mut self, transition: RunTransition) -> bool {
        let seqs: Vec<i64> = (self.read_seq + 1..=self.last_seq).collect();
        let rows = Found {
            is_awake: self.is_awake,
            read_seq: self.read_seq,
            cancel_seq: self.cancel_seq,
            is_answered: self.is_answered && matches!(transition, RunTransition::Wait { .. }),
            ..found(&seqs)
        };
        let step = step(transition);
        let changes = decide(&step, rows, LIMITS);
        self.read_seq = changes.read_seq.unwrap_or(self.read_seq);
        self.is_awake = changes.wakes;
        matches!(changes.outcome, Outcome::Waiting { .. })
    }
}

proptest! {
    /// Whatever arrives, in whatever order: a run that waits is woken by it, or has seen it before it waits.
    #[test]
    fn no_wake_up_is_lost(happenings in proptest::collection::vec(happening(), 1..40)) {
        let (mut rows, mut waits) = (Rows::default(), false);
        for happening in happenings {
            match happening {
                Happening::Posted => (rows.last_seq, rows.is_awake) = (rows.last_seq + 1, true),
                Happening::Answered => (rows.is_answered, rows.is_awake) = (true, true),
                Happening::Cancelled => (rows.cancel_seq, rows.is_awake) = (Some(rows.last_seq), true),
                // No worker drives a run that waits and is not awake.
                _ if waits && !rows.is_awake => {}
                Happening::Stepped { reads } => {
                    waits = rows.commit(RunTransition::Continue { read: reads, event: None });
                }
                Happening::Waits => {
                    rows.has_open_calls = false;
                    waits = rows.commit(wait(None, &[QUESTION]));
                }
                Happening::Looks => rows.seen = rows.unread(),
                Happening::WaitsWithOpenCalls => {
                    rows.has_open_calls = true;
                    waits = rows.commit(wait_with_open_calls(rows.seen));
                }
            }
            let seen = if rows.has_open_calls { rows.seen } else { 0 };
            let has_arrived = rows.unread() > seen || rows.is_answered || rows.cancel_seq.is_some();
            prop_assert!(!(waits && has_arrived) || rows.is_awake, "{rows:?}");
        }
    }

    /// Each message is read by this run, taken along by its cancel, or left; while one is left, the agentable is awake.
    #[test]
    fn no_message_is_lost(transition in transition(), count in 0..8_i64, cancel in proptest::option::of(10..20_i64)) {
        let seqs: Vec<i64> = (11..11 + count).collect();
        let step = step(transition);
        let ends = step.transition.final_ending().is_some();
        let found = match cancel {
            Some(seq) if ends => cancelled(&seqs, seq, None),
            Some(seq) => Found { is_awake: true, cancel_seq: Some(seq), ..found(&seqs) },
            None => found(&seqs),
        };
        let (was_read, was_unread) = (found.read_seq, found.unread_count);
        let changes = decide(&step, found, LIMITS);
        let read_to = changes.read_seq.unwrap_or(was_read);
        prop_assert!(read_to >= was_read, "no message is read twice");
        let left = seqs.iter().filter(|seq| **seq > read_to).count();
        prop_assert_eq!(changes.unread.unwrap_or(was_unread), i32::try_from(left).unwrap());
        prop_assert!(left == 0 || changes.wakes, "{changes:?}");
        let read = changes.read.iter().map(|block| block.text.parse::<i64>().unwrap());
        prop_assert!(read.eq(seqs.iter().copied().take(changes.read.len())), "in order, from the first");
        prop_assert_eq!(changes.next_run.is_some(), changes.ends() && left > 0);
    }
}

use std::sync::atomic::Ordering;

use futures_util::future::BoxFuture;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolResponse;
use houston_llm::Description;
use houston_queue::Received;
use houston_store::record::{RecordIds, RecordLimits, RecordTx};
use houston_tools::{NewTaskInfo, Record, RecordFuture};

use super::*;
use crate::run::storage::RecordOf;
use crate::run::tests::fixture::{Process, ScriptedModel};
use crate::run::tests::memory_storage::{Fault, MemoryStorage};
use crate::run::tests::memory_transaction::MemoryTransaction;

fn process() -> Process {
    Process::new(ScriptedModel::new([]), Vec::new())
}

/// A note as rows of a step; writing it again has this outcome.
struct Note {
    still_matches: bool,
}

#[derive(Debug)]
struct NoteRecord;

impl Record for NoteRecord {
    fn apply<'t>(&'t self, _: RecordTx<'t>) -> RecordFuture<'t> {
        Box::pin(async { unreachable!("the storage in memory only keeps the record") })
    }

    fn has_preview(&self) -> bool {
        false
    }

    fn preview<'t>(&'t self, _: RecordTx<'t>) -> BoxFuture<'t, houston_store::Result<Option<String>>> {
        Box::pin(async { unreachable!("the storage in memory only keeps the record") })
    }

    fn asks(&self) -> Option<String> {
        None
    }

    fn task(&self) -> Option<NewTaskInfo<'_>> {
        None
    }
}

async fn written(journal: &Journal<'_, MemoryStorage>) -> MemoryTransaction {
    let mut rows = journal.begin().await.unwrap();
    let ids = RecordIds { row: journal.new_id(), run: journal.new_id(), message: journal.new_id() };
    let config = &journal.services.config;
    let limits =
        RecordLimits { tasks: config.tasks, reach: config.reach, check_ins: config.check_ins, page_bytes: 1 };
    let of = RecordOf { owner: journal.owner, ids, limits };
    let written = rows.record(of, &NoteRecord).await.unwrap();
    assert_eq!(written, ToolResponse::success("Written."));
    rows
}

impl Rows<MemoryStorage> for Note {
    async fn write(
        &self,
        journal: &Journal<'_, MemoryStorage>,
    ) -> Result<Option<MemoryTransaction>, Interrupted> {
        let rows = written(journal).await;
        Ok(self.still_matches.then_some(rows))
    }
}

#[tokio::test(start_paused = true)]
async fn step_is_the_same_in_every_attempt() {
    let process = process();
    process.storage.fail([Fault::BrokenBefore, Fault::BrokenBefore]);
    let mut journal = process.journal();
    let step = journal.next_step();
    let write = step.write;
    journal.commit(step).await.unwrap();
    assert_eq!(process.storage.sent(), [write; 3]);
    assert_eq!(process.storage.committed().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn step_of_unknown_outcome_is_committed_once() {
    let process = process();
    process.storage.fail([Fault::BrokenAfter]);
    let mut journal = process.journal();
    let mut stream = journal.services.bus.subscribe(journal.agentable());
    let step = journal.next_step();
    let outcome = journal.commit(step).await;
    assert!(matches!(outcome, Err(Interrupted::Landed)), "{outcome:?}");
    assert_eq!(process.storage.committed().len(), 1);
    // Streams read it from Postgres.
    let Some(Received::Item(item)) = stream.try_recv() else { panic!("nothing was published") };
    assert_eq!(item.live, Live::Nudge);
}

#[tokio::test(start_paused = true)]
async fn fenced_run_writes_nothing() {
    let process = process();
    process.storage.fail([Fault::TakenOver]);
    let mut journal = process.journal();
    for _ in 0..2 {
        let step = journal.next_step();
        let outcome = journal.commit(step).await;
        assert!(matches!(outcome, Err(Interrupted::Lost)), "{outcome:?}");
    }
    assert!(matches!(journal.begin().await, Err(houston_store::Error::Fenced)));
    assert_eq!(process.storage.committed(), []);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_without_a_trusted_lease() {
    let process = process();
    process.storage.fail([Fault::BrokenBefore]);
    process.trusted.store(false, Ordering::Relaxed);
    let mut journal = process.journal();
    let step = journal.next_step();
    let outcome = journal.commit(step).await;
    assert!(matches!(outcome, Err(Interrupted::Lost)), "{outcome:?}");
    assert_eq!(process.storage.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pause_between_attempts_ends_with_the_lease() {
    let process = process();
    process.storage.fail([Fault::BrokenBefore; 100]);
    let mut journal = process.journal();
    let step = journal.next_step();
    let lost = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        process.holder.lost.cancel();
    };
    let (outcome, ()) = tokio::join!(journal.commit(step), lost);
    assert!(matches!(outcome, Err(Interrupted::Lost)), "{outcome:?}");
    // 20, 40, … 640 ms, then once a second.
    assert_eq!(process.storage.sent().len(), 15);
}

#[tokio::test(start_paused = true)]
async fn refused_step_is_not_sent_again() {
    let process = process();
    process.storage.fail([Fault::Refused]);
    let mut journal = process.journal();
    let step = journal.next_step();
    let outcome = journal.commit(step).await;
    assert!(matches!(outcome, Err(Interrupted::Store(_))), "{outcome:?}");
    assert_eq!(process.storage.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rows_are_written_again_with_the_same_step() {
    let process = process();
    process.storage.fail([Fault::BrokenBefore]);
    let mut journal = process.journal();
    let (rows, step) = (written(&journal).await, journal.next_step());
    let write = step.write;
    journal.commit_with_rows(rows, step, &Note { still_matches: true }).await.unwrap();
    assert_eq!(process.storage.sent(), [write; 2]);
    assert_eq!(process.storage.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn committed_rows_are_not_written_again() {
    let process = process();
    process.storage.fail([Fault::BrokenAfter]);
    let mut journal = process.journal();
    let (rows, step) = (written(&journal).await, journal.next_step());
    let outcome = journal.commit_with_rows(rows, step, &Note { still_matches: true }).await;
    assert!(matches!(outcome, Err(Interrupted::Landed)), "{outcome:?}");
    assert_eq!(process.storage.records().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rows_that_do_not_match_their_step_are_not_committed() {
    let process = process();
    process.storage.fail([Fault::BrokenBefore]);
    let mut journal = process.journal();
    let (rows, step) = (written(&journal).await, journal.next_step());
    let outcome = journal.commit_with_rows(rows, step, &Note { still_matches: false }).await;
    assert!(matches!(outcome, Err(Interrupted::Store(_))), "{outcome:?}");
    assert_eq!(process.storage.committed(), []);
}

#[tokio::test(start_paused = true)]
async fn only_the_end_of_an_iteration_opens_the_next() {
    let process = process();
    let mut journal = process.journal();
    let step = journal.next_step();
    journal.commit(step).await.unwrap();
    assert_eq!((journal.open_iteration, journal.next_message), (1, process.message()));
    let event = journal.step_finished();
    let step = journal.step(RunTransition::Continue { read: true, event: Some(event) });
    journal.commit(step).await.unwrap();
    assert_eq!(journal.open_iteration, 2);
    assert_ne!(journal.next_message, process.message());
    let iterations: Vec<u32> = process.storage.committed().iter().map(|step| step.iterations).collect();
    assert_eq!(iterations, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn usage_is_without_cost_if_no_call_has_a_price() {
    let process = process();
    let mut journal = process.journal();
    journal.set_cost(Cost::NOTHING);
    let unpriced = description("acme", "of-my-own");
    journal.ledger.enter_lost(&unpriced, 5);
    assert_eq!(journal.total_usage().cost, None);
    journal.ledger.enter_lost(&description("openai", "gpt-5-mini"), 4_000_000);
    assert_eq!(journal.total_usage().cost, Some(1.into()));
    let (Event::RunFinished { usage, .. }, _) = journal.run_finished(RunStatus::Completed, None) else {
        panic!("another event");
    };
    assert_eq!(usage.input_tokens, 4_000_005);
}

fn description(provider: &str, model: &str) -> Description {
    Description {
        provider: provider.to_owned(),
        model: model.to_owned(),
        simulated: false,
        supports_tools: true,
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_one_commit_each() {
    let process = process();
    let mut journal = process.journal();
    let model = description("openai", "gpt-5-mini");
    journal.ledger.enter_lost(&model, 1);
    journal.ledger.enter_lost(&model, 2);
    // What ends after the step was made, and before it is committed, is not lost.
    let step = journal.next_step();
    journal.ledger.enter_lost(&model, 3);
    journal.commit(step).await.unwrap();
    let step = journal.next_step();
    journal.commit(step).await.unwrap();
    journal.ledger.enter_lost(&model, 4);
    let step = journal.next_step();
    journal.commit(step).await.unwrap();
    let steps = process.storage.committed();
    let counted = steps.iter().map(|step| {
        assert!(step.call.is_none(), "an estimate is no answer");
        step.more_calls.iter().map(|(_, call)| call.usage.input_tokens).collect::<Vec<_>>()
    });
    assert_eq!(counted.collect::<Vec<_>>(), [vec![1, 2, 3], vec![], vec![4]]);
    let used: Vec<u64> = steps.iter().map(|step| step.usage.input_tokens).collect();
    assert_eq!((used, journal.total_usage().input_tokens), (vec![6, 0, 4], 10));
}

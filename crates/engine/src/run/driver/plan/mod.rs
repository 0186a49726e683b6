//! Runs of plans: the graph of steps says what is next, in place of a model.
//!
//! # Invariants
//! - What a step of the plan does is committed as running before it begins; what it returned is committed with everything
//!   that becomes ready by it.
//! - While nothing runs here, the run waits: it holds neither a lock nor a place. The end of an executor, an answer, a change
//!   from outside or its time wakes it.

mod ending;
mod graph;
mod replan;
mod start;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::{AbortHandle, Aborted, BoxFuture, Fuse, FutureExt as _, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use houston_domain::ensure;
use houston_domain::event::Live;
use houston_domain::id::AgentableId;
use houston_domain::plan::{Advance, End, Failure};
use houston_domain::run::RunStatus;
use houston_domain::step::Step;
use houston_queue::Hint;
use houston_store::step::CommittedStep;

use self::ending::Finished;
use self::graph::Graph;
use super::{Flow, RunDriver};
use crate::error::{Interrupted, Result};
use crate::run::signals::Stop;
use crate::run::storage::RunStorage;
use crate::run::tool_runner::commit_with;

/// How often a plan that works here looks whether something else has changed it: an executor that ended, a pause.
const LOOK: Duration = Duration::from_millis(250);

impl<S: RunStorage> RunDriver<'_, S> {
    /// Drives a plan until it waits, ends, or is released.
    pub(super) async fn plan_step(&mut self) -> Flow {
        let mut graph = match self.load_held_up().await? {
            Ok(graph) => graph,
            Err((code, text)) => return self.stop_with(code, text).await,
        };
        let mut works = Works::default();
        let abandoned = self.journal.signals.abandoned(true);
        unless(abandoned, self.take_over(&mut graph, works.here())).await?;
        let mut drained = pin!(self.journal.signals.drained().fuse());
        loop {
            match self.plan_round(&mut graph, &mut works, drained.as_mut()).await {
                Ok(ControlFlow::Continue(())) => {}
                Err(Interrupted::PlanChanged) => {
                    let abandoned = self.journal.signals.abandoned(works.may_all_repeat());
                    let reload = self.reload_graph(&mut graph, works.here());
                    if let Err((code, text)) = unless(abandoned, reload).await? {
                        return self.stop_with(code, text).await;
                    }
                }
                ended => return ended,
            }
        }
    }

    /// Lets the plan go on, commits that, and waits until something happens. Has at most one commit, which comes before any
    /// work starts.
    ///
    /// # Errors
    /// [`Interrupted::PlanChanged`] when the plan is to be read again: what was decided since is void.
    async fn plan_round(
        &mut self,
        graph: &mut Graph,
        works: &mut Works,
        drained: Pin<&mut Fuse<impl Future<Output = ()>>>,
    ) -> Flow {
        ensure!(!self.journal.signals.is_lost(), Interrupted::Lost);
        if self.journal.signals.is_cancelled() {
            return self.stop_plan(graph, works, RunStatus::Cancelled).await;
        }
        let cancelled = self.journal.signals.cancel().clone().cancelled_owned();
        let abandoned = self.journal.signals.abandoned(works.may_all_repeat());
        let settled = tokio::select! {
            biased;
            settled = unless(abandoned, self.settle(graph, works)) => settled?,
            // The graph is read again: it may have been in the middle of a change.
            () = cancelled => return Err(Interrupted::PlanChanged),
        };
        let until = match settled {
            ControlFlow::Continue(until) => until,
            ControlFlow::Break(end) => {
                return match self.end_plan(graph, works, end).await? {
                    // A changed plan is committed with what begins by it.
                    ControlFlow::Continue(()) if !graph.has_changed() => Err(Interrupted::PlanChanged),
                    flow => Ok(flow),
                };
            }
        };
        let waits = works.is_empty() && !graph.begun.has_work();
        if waits && self.journal.signals.is_draining() && !graph.has_changed() {
            return self.hand_over().await;
        }
        let done = self.commit_graph(graph, waits.then_some(until)).await?;
        if works.is_empty() && graph.begun.works.is_empty() {
            // What calls have named may have changed as long as one of them runs.
            self.void_written().await?;
        }
        works.start(self, graph).await?;
        if waits {
            let waiting = done.map(|done| self.waits(&done, until)).filter(ControlFlow::is_break);
            return waiting.ok_or(Interrupted::PlanChanged);
        }
        if !works.is_empty() {
            return self.await_works(graph, works, until, drained).await;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lets begin and settle what can, without a commit. May evaluate expressions for long, so it may be abandoned. Breaks with
    /// how the plan ends, or returns when something is due.
    async fn settle(
        &mut self,
        graph: &mut Graph,
        works: &mut Works,
    ) -> Result<ControlFlow<End, Option<DateTime<Utc>>>> {
        loop {
            self.spare_waiting(graph).await?;
            let advance = graph.advance(self.journal.owner.tenant, self.journal.now()).await?;
            self.drop_cancelled(graph, &advance, works).await?;
            if let Some(end) = advance.end {
                return Ok(ControlFlow::Break(end));
            }
            if !self.begin_steps(graph, advance.start).await? {
                return Ok(ControlFlow::Continue(graph.next_due()));
            }
        }
    }

    /// The plan, with the time in which nobody took it: that is committed first.
    async fn load_held_up(&mut self) -> Result<Result<Graph, (&'static str, String)>> {
        let claimed = self.journal.claimed_time;
        loop {
            let mut graph = match self.load_graph().await? {
                Ok(graph) => graph,
                unreadable => return Ok(unreadable),
            };
            if self.journal.signals.is_cancelled() || !graph.make_up(claimed) {
                return Ok(Ok(graph));
            }
            match self.commit_graph(&mut graph, None).await {
                Ok(_) => return Ok(Ok(graph)),
                Err(Interrupted::PlanChanged) => {}
                Err(interrupted) => return Err(interrupted),
            }
        }
    }

    /// Executors that wait for a person or for a worker do not work: their steps do not run out of time meanwhile.
    async fn spare_waiting(&mut self, graph: &mut Graph) -> Result<()> {
        let overdue = graph.overdue_executors(self.journal.now());
        if overdue.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = overdue.iter().map(|(_, executor)| *executor).collect();
        let idle = self.journal.of_postgres(|store| store.idle_executors(&ids)).await?;
        for (path, _) in overdue.iter().filter(|(_, executor)| idle.contains(executor)) {
            graph.spare(path);
        }
        Ok(())
    }

    /// Waits for the works, and takes over what they return.
    ///
    /// # Errors
    /// As [`Self::plan_round`].
    async fn await_works(
        &mut self,
        graph: &mut Graph,
        works: &mut Works,
        until: Option<DateTime<Utc>>,
        drained: Pin<&mut Fuse<impl Future<Output = ()>>>,
    ) -> Flow {
        let due =
            until.map_or(Duration::MAX, |until| (until - self.journal.now()).to_std().unwrap_or_default());
        let look = if graph.waits_for_others() { LOOK } else { Duration::from_secs(2) };
        let may_all_repeat = works.may_all_repeat();
        let finished = tokio::time::timeout(due.min(look), works.next());
        match self.journal.signals.until_returned(finished, may_all_repeat, drained).await? {
            Ok(Ok(finished)) => {
                for one in finished {
                    self.record_finished(graph, one);
                }
            }
            // Something is due, or may have changed.
            Ok(Err(_elapsed)) => {
                let agentable = self.journal.agentable();
                let changes = self.journal.of_postgres(|store| store.plan_changes(agentable)).await?;
                ensure!(changes == graph.stored.changes, Interrupted::PlanChanged);
            }
            Err(Stop::Cancelled) => {}
            Err(Stop::Drained) => {
                works.abort_all();
                return self.hand_over().await;
            }
            Err(Stop::OutOfTime) => return self.stop_plan(graph, works, RunStatus::MaxDuration).await,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Gives up work that is not wanted any more: here, and that of executors.
    async fn drop_cancelled(
        &mut self,
        graph: &mut Graph,
        advance: &Advance,
        works: &mut Works,
    ) -> Result<()> {
        let mut executors = Vec::new();
        for path in &advance.cancel {
            works.abort(path);
            graph.begun.forget(path);
            executors.extend(graph.executor(path));
            let question = graph.question(path);
            graph.begun.superseded.extend(question);
        }
        self.cancel_executors(&executors).await
    }

    pub(super) async fn cancel_executors(&self, executors: &[AgentableId]) -> Result<()> {
        if executors.is_empty() {
            return Ok(());
        }
        let tenant = self.journal.owner.tenant;
        self.journal.of_postgres(|store| store.cancel_executors(tenant, executors)).await
    }

    /// Commits what has changed, and what begins. `waits`: nothing runs here, so the run waits until that time. `None`: there
    /// was nothing to commit.
    async fn commit_graph(
        &mut self,
        graph: &mut Graph,
        waits: Option<Option<DateTime<Utc>>>,
    ) -> Result<Option<CommittedStep>> {
        let records = std::mem::take(&mut graph.begun.records);
        let written = if records.is_empty() {
            None
        } else {
            let (paths, records): (Vec<_>, Vec<_>) = records.into_iter().unzip();
            let (written, responses) = self.tools.write_records(&self.journal, records).await?;
            for (path, (_, response)) in paths.into_iter().zip(responses) {
                self.record_response(graph, &path, response);
            }
            Some(written)
        };
        if waits.is_none() && !graph.has_changed() && self.journal.owed() == 0 {
            return Ok(None);
        }
        let mut step = self.plan_commit(graph);
        if let Some(until) = waits {
            step.transition = self.journal.waiting(until, graph.open_questions(), None);
        }
        let done = commit_with(&mut self.journal, step, written).await?;
        houston_faults::fault!("C29")?;
        self.read(&done);
        graph.commit();
        self.after_commit(graph);
        graph.begun.committed();
        Ok(Some(done))
    }

    /// A step with what has changed in the plan.
    fn plan_commit(&mut self, graph: &mut Graph) -> Step {
        let (changes, events) = graph.changes_with();
        self.journal.plan = Some(Box::new(changes));
        let mut step = self.journal.next_step();
        step.events.extend(events);
        if !graph.begun.questions.is_empty() || !graph.begun.superseded.is_empty() {
            let of_step = step.questions.get_or_insert_default();
            of_step.asked.extend(graph.begun.questions.iter().map(|(_, question)| question.clone()));
            of_step.superseded.extend(&graph.begun.superseded);
        }
        step.untrusted = self.tools.taint.untrusted;
        step
    }

    /// What follows from a commit: executors begin, and streams of the parent read what is new.
    fn after_commit(&self, graph: &mut Graph) {
        let services = self.journal.services;
        for executor in std::mem::take(&mut graph.begun.executors).into_values() {
            services.hints.send(services.lane(&executor.kind), Hint::run(executor.id));
        }
        services.bus.publish(graph.stored.parent, Live::Nudge);
    }

    /// Ends the run before its next step, because it kills its workers. The same commit says that the plan has failed.
    pub(super) async fn give_up_plan(&mut self) -> Flow {
        loop {
            if let Ok(mut graph) = self.load_graph().await? {
                graph.give_up(self.journal.now());
                let message = "its workers died too often while they drove it";
                self.close_graph(&mut graph, &End::Failed(Failure::new("DEAD_LETTERED", message)));
            }
            match self.dead_letter().await {
                Err(Interrupted::PlanChanged) => {}
                ended => return ended,
            }
        }
    }
}

/// `work`, which may evaluate expressions for long, unless it is `abandoned`.
///
/// # Errors
/// [`Interrupted::Lost`] then, and those of `work`.
async fn unless<T>(abandoned: impl Future<Output = ()>, work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::select! {
        biased;
        done = work => done,
        () = abandoned => Err(Interrupted::Lost),
    }
}

/// Attempts by the path of their step.
type Here = BTreeMap<String, u32>;

/// Calls that run in this process, by the path of their step.
#[derive(Default)]
struct Works {
    running: FuturesUnordered<BoxFuture<'static, Result<Finished, Aborted>>>,
    handles: BTreeMap<String, Handle>,
    /// Calls that have finished, until they are taken.
    finished: Vec<Finished>,
}

struct Handle {
    attempt: u32,
    abort: AbortHandle,
    may_repeat: bool,
}

impl Works {
    fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Whether another worker may execute all of them again.
    fn may_all_repeat(&self) -> bool {
        self.handles.values().all(|handle| handle.may_repeat)
    }

    /// The attempts at steps that run here.
    fn here(&self) -> Here {
        self.handles.iter().map(|(path, handle)| (path.clone(), handle.attempt)).collect()
    }

    /// Starts what begins, after it was committed.
    async fn start<S: RunStorage>(&mut self, driver: &mut RunDriver<'_, S>, graph: &mut Graph) -> Result<()> {
        for (path, attempt, work) in std::mem::take(&mut graph.begun.works) {
            let may_repeat = driver.may_repeat(&work);
            let work = driver.work(path.clone(), attempt, work).await?;
            let (work, abort) = abortable(work);
            self.handles.insert(path, Handle { attempt, abort, may_repeat });
            self.running.push(work.boxed());
        }
        Ok(())
    }

    /// Gives up what runs for a step.
    fn abort(&mut self, path: &str) {
        if let Some(handle) = self.handles.remove(path) {
            handle.abort.abort();
        }
    }

    /// Gives up everything, at once: what models have been asked has ended then.
    fn abort_all(&mut self) {
        *self = Self::default();
    }

    /// Lets what was given up end, so that what models have been asked is in the ledger.
    fn settle(&mut self) {
        while let Some(Some(more)) = self.running.next().now_or_never() {
            self.finished.extend(more.ok());
        }
    }

    /// The next calls that have finished.
    async fn next(&mut self) -> Vec<Finished> {
        while self.finished.is_empty() {
            match self.running.next().await {
                Some(Ok(finished)) => self.finished.push(finished),
                Some(Err(Aborted)) => {}
                None => return std::future::pending().await,
            }
        }
        self.settle();
        let finished = std::mem::take(&mut self.finished);
        for Finished { path, attempt, .. } in &finished {
            if self.handles.get(path).is_some_and(|handle| handle.attempt == *attempt) {
                self.handles.remove(path);
            }
        }
        finished
    }
}

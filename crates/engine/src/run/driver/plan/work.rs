//! [`Works`]: calls of tools and models that run in this process.

use std::collections::{BTreeMap, VecDeque};

use futures_util::future::{AbortHandle, Aborted, BoxFuture, FutureExt as _, abortable};
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::begun::Begun;
use super::finished::Finished;
use crate::error::Interrupted;
use crate::run::driver::RunDriver;
use crate::run::storage::RunStorage;

/// Attempts by the path of their step.
pub(super) type Here = BTreeMap<String, u32>;

/// Calls that run in this process, by the path of their step.
#[derive(Default)]
pub(super) struct Works {
    running: FuturesUnordered<BoxFuture<'static, Result<Finished, Aborted>>>,
    handles: BTreeMap<String, Handle>,
    /// Calls that have finished together with others.
    finished: VecDeque<Finished>,
}

struct Handle {
    attempt: u32,
    abort: AbortHandle,
    may_repeat: bool,
}

impl Works {
    pub(super) fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Whether another worker may execute all of them again.
    pub(super) fn may_all_repeat(&self) -> bool {
        self.handles.values().all(|handle| handle.may_repeat)
    }

    /// The attempts at steps that run here.
    pub(super) fn here(&self) -> Here {
        self.handles.iter().map(|(path, handle)| (path.clone(), handle.attempt)).collect()
    }

    /// Whether this attempt at a step runs here.
    pub(super) fn has(&self, path: &str, attempt: u32) -> bool {
        self.handles.get(path).is_some_and(|handle| handle.attempt == attempt)
    }

    /// Starts what begins, after it was committed.
    pub(super) async fn start<S: RunStorage>(
        &mut self,
        driver: &mut RunDriver<'_, S>,
        begun: &mut Begun,
    ) -> Result<(), Interrupted> {
        for (path, attempt, work) in std::mem::take(&mut begun.works) {
            let may_repeat = driver.may_repeat(&work);
            let work = driver.work(path.clone(), attempt, work).await?;
            let (work, abort) = abortable(work);
            self.handles.insert(path, Handle { attempt, abort, may_repeat });
            self.running.push(work.boxed());
        }
        Ok(())
    }

    /// Gives up what runs for a step.
    pub(super) fn abort(&mut self, path: &str) {
        if let Some(handle) = self.handles.remove(path) {
            handle.abort.abort();
        }
    }

    /// Gives up everything, at once: what models have been asked has ended then.
    pub(super) fn abort_all(&mut self) {
        *self = Self::default();
    }

    /// Lets what was given up end, so that what models have been asked is in the ledger.
    pub(super) fn settle(&mut self) {
        while let Some(Some(more)) = self.running.next().now_or_never() {
            self.finished.extend(more.ok());
        }
    }

    /// The next calls that have finished.
    pub(super) async fn next(&mut self) -> Vec<Finished> {
        loop {
            if self.finished.is_empty() {
                match self.running.next().await {
                    Some(Ok(finished)) => self.finished.push_back(finished),
                    Some(Err(Aborted)) => continue,
                    None => return std::future::pending().await,
                }
            }
            self.settle();
            let mut taken = Vec::new();
            while let Some(finished) = self.finished.pop_front() {
                if self.has(&finished.path, finished.attempt) {
                    self.handles.remove(&finished.path);
                }
                taken.push(finished);
            }
            if !taken.is_empty() {
                return taken;
            }
        }
    }
}

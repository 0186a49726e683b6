//! [`Signals`]: what interrupts the waits of a run.

use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture as _};
use houston_faults::mutation::{self, Mutation};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::error::{Interrupted, Result};
use crate::holder::Holder;

/// What interrupts the waits of a run: a lost lease, a cancel request, the end of the process, the watchdog.
pub(crate) struct Signals<'e> {
    holder: &'e Holder,
    cancel: CancellationToken,
    /// How long a call that may be repeated may continue after the process was asked to stop.
    hand_over: Duration,
    /// The time at which the attempt is cut off, whatever it does.
    pub(crate) watchdog: Instant,
}

/// Why a wait ended early. A lost lease is [`Interrupted::Lost`] instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The run has a cancel request.
    Cancelled,
    /// The process stops, and what may be repeated is abandoned.
    Drained,
    /// The attempt has reached its watchdog.
    OutOfTime,
}

impl<'e> Signals<'e> {
    /// `cancel` is cancelled by a cancel request for the run. The watchdog is that of a run with the limits of `config`.
    pub(crate) fn new(holder: &'e Holder, cancel: CancellationToken, config: &Config) -> Self {
        let hand_over = Duration::from_millis(config.hand_over_ms);
        let most = Duration::from_secs(config.limits.max_duration_s + config.watchdog.grace_s);
        Self { holder, cancel, hand_over, watchdog: Instant::now() + most }
    }

    /// Whether the lease is too old to start anything. Checked by the clock as well: after a suspend this thread may wake up
    /// before the one that renews the lease.
    pub(crate) fn is_lost(&self) -> bool {
        let is_weakened = mutation::is(Mutation::BatchFence) || mutation::is(Mutation::Takeover);
        let is_trusted = is_weakened || (self.holder.trusted)();
        self.holder.lost.is_cancelled() || !is_trusted
    }

    /// Completes when the lease is lost.
    pub(crate) async fn lost(&self) {
        self.holder.lost.cancelled().await;
    }

    /// Whether the run has a cancel request.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The token of cancel requests.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Whether the process was asked to stop: no call that may be repeated is started any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.holder.drain.is_cancelled()
    }

    /// Completes when the process was asked to stop.
    pub(crate) async fn draining(&self) {
        self.holder.drain.cancelled().await;
    }

    /// Completes `hand_over_ms` after the process was asked to stop: calls that may be repeated are abandoned then.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + use<> {
        let (drain, hand_over) = (self.holder.drain.clone(), self.hand_over);
        async move {
            drain.cancelled().await;
            tokio::time::sleep(hand_over).await;
        }
    }

    /// Completes when a computation is not waited for any more: the lease is lost, or the run is handed over, if it
    /// `may_be_handed_over`. Nothing was written; who takes the run next computes it again.
    pub(crate) fn abandoned(&self, may_be_handed_over: bool) -> impl Future<Output = ()> + use<> {
        let (lost, drained) = (self.holder.lost.clone(), self.drained());
        async move {
            tokio::select! {
                () = lost.cancelled() => {}
                () = drained, if may_be_handed_over => {}
            }
        }
    }

    /// Waits for `work`, until something else is to be done.
    ///
    /// # Errors
    /// [`Interrupted::Lost`] when the lease is lost: write nothing.
    pub(crate) async fn until_stopped<T>(
        &self,
        work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> Result<Result<T, Stop>> {
        tokio::select! {
            biased;
            () = self.lost() => Err(Interrupted::Lost),
            () = self.cancel.cancelled() => Ok(Err(Stop::Cancelled)),
            () = self.drained() => Ok(Err(Stop::Drained)),
            () = tokio::time::sleep_until(self.watchdog) => Ok(Err(Stop::OutOfTime)),
            done = work => Ok(Ok(done)),
        }
    }

    /// Waits for what `calls` return, until something else is to be done: [`Stop::Drained`] only if another worker may execute all of
    /// them again. `drained` is [`Self::drained`], of all waits for these calls.
    ///
    /// # Errors
    /// [`Interrupted::Lost`] when the lease is lost: write nothing.
    pub(crate) async fn until_returned<T>(
        &self,
        calls: impl Future<Output = T>,
        may_all_repeat: bool,
        mut drained: Pin<&mut Fuse<impl Future<Output = ()>>>,
    ) -> Result<Result<T, Stop>> {
        let mut calls = pin!(calls);
        loop {
            if drained.is_terminated() && may_all_repeat {
                return Ok(Err(Stop::Drained));
            }
            return tokio::select! {
                biased;
                () = self.lost() => Err(Interrupted::Lost),
                () = self.cancel.cancelled() => Ok(Err(Stop::Cancelled)),
                () = tokio::time::sleep_until(self.watchdog) => Ok(Err(Stop::OutOfTime)),
                returned = &mut calls => Ok(Ok(returned)),
                () = &mut drained => continue,
            };
        }
    }
}

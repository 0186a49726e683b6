//! [`Keeper`]: the task that keeps a connection while it is needed, and sees that nothing of its process is left.

use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::service::{RoleClient, RunningService};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use crate::owner::Place;
use crate::process::Process;

/// How long the transport may take to close the input of the process, and the process to exit after its output has ended.
const CLOSE: Duration = Duration::from_secs(1);

/// Who uses a connection.
#[derive(Debug, Default)]
pub(super) struct Use {
    /// Calls in progress.
    pub(super) calls: usize,
    /// Why it has ended, if it has.
    pub(super) ended: Option<Ended>,
}

/// Why a connection has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was not used for a while, or its process exited without an error between calls: the next call starts another.
    Idle,
    /// The process failed, or broke the protocol.
    Failed {
        /// For operators.
        reason: String,
        /// The pause after the failure begins here, not when the next call finds out.
        at: Instant,
    },
}

impl Ended {
    pub(super) fn failed(reason: String) -> Self {
        Self::Failed { reason, at: Instant::now() }
    }
}

/// Keeps a connection, and its process if it has one.
pub(super) struct Keeper {
    pub(super) process: Option<Process>,
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) idle: Duration,
    pub(super) stop: CancellationToken,
    /// Whether a call was sent and not answered.
    pub(super) cut: Arc<AtomicBool>,
    pub(super) used: watch::Sender<Use>,
    /// Given back when the connection is closed.
    pub(super) _place: Option<Place>,
}

/// What ended a connection.
enum Cause {
    Closed,
    Exited(std::io::Result<ExitStatus>),
    /// Or why it has ended is stored already.
    NotNeeded,
}

impl Keeper {
    pub(super) async fn keep(self) {
        let Self { mut process, service, idle, stop, cut, used, _place } = self;
        let close = service.cancellation_token();
        let mut closed = pin!(service.waiting());
        let mut cause = tokio::select! {
            _ = &mut closed => Cause::Closed,
            status = exited(process.as_mut()) => Cause::Exited(status),
            () = stop.cancelled() => Cause::NotNeeded,
            () = unused(&used, idle) => Cause::NotNeeded,
            () = ended(&used) => Cause::NotNeeded,
        };
        let is_closed = matches!(cause, Cause::Closed);
        // A process that exits closes its output first; how it exits says whether it failed.
        if is_closed && let Ok(status) = timeout(CLOSE, exited(process.as_mut())).await {
            cause = Cause::Exited(status);
        }
        if is_clean(&cause) {
            // Calls in progress end now: with the answer that was sent before, or without one.
            let _ = timeout(CLOSE, used.subscribe().wait_for(|used| used.calls == 0)).await;
        }
        used.send_modify(|used| {
            let has_failed = used.calls > 0 || cut.load(Ordering::Relaxed);
            used.ended = Some(used.ended.take().unwrap_or_else(|| why(cause, has_failed)));
        });
        // The input of the process is closed, so that it can exit by itself.
        close.cancel();
        if !is_closed {
            let _ = timeout(CLOSE, closed).await;
        }
        if let Some(process) = process {
            process.stop().await;
        }
    }
}

async fn exited(process: Option<&mut Process>) -> std::io::Result<ExitStatus> {
    match process {
        Some(process) => process.exited().await,
        None => std::future::pending().await,
    }
}

/// Whether the process left by itself, and without an error.
fn is_clean(cause: &Cause) -> bool {
    matches!(cause, Cause::Exited(Ok(status)) if status.success())
}

/// Why a connection has ended; a process that leaves without an error `has_failed` if a call was not answered.
fn why(cause: Cause, has_failed: bool) -> Ended {
    if is_clean(&cause) && !has_failed {
        return Ended::Idle;
    }
    let reason = match cause {
        Cause::NotNeeded => return Ended::Idle,
        Cause::Exited(Ok(status)) => format!("it ended ({status})"),
        Cause::Exited(Err(error)) => format!("it cannot be waited for: {error}"),
        Cause::Closed => "it closed its output, or sent a message that was too large".to_owned(),
    };
    Ended::failed(reason)
}

/// Waits until a connection has ended.
pub(super) async fn ended(used: &watch::Sender<Use>) {
    // The sender is here, so `wait_for` does not fail.
    let _ = used.subscribe().wait_for(|used| used.ended.is_some()).await;
}

/// Waits until the connection has not been used for `idle`; from then on no call begins.
async fn unused(used: &watch::Sender<Use>, idle: Duration) {
    let mut seen = used.subscribe();
    loop {
        let is_used = seen.borrow_and_update().calls > 0;
        // The sender is here, so `changed` does not fail.
        if is_used {
            let _ = seen.changed().await;
        } else if timeout(idle, seen.changed()).await.is_err()
            && used.send_if_modified(|used| {
                let is_unused = used.calls == 0;
                if is_unused {
                    used.ended = Some(Ended::Idle);
                }
                is_unused
            })
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_in_use_is_not_idle() {
        let used = watch::Sender::new(Use { calls: 1, ended: None });
        let idle = Duration::from_secs(10);
        assert!(timeout(Duration::from_secs(60), unused(&used, idle)).await.is_err());
        assert_eq!(used.borrow().ended, None);
        used.send_modify(|used| used.calls = 0);
        unused(&used, idle).await;
        assert_eq!(used.borrow().ended, Some(Ended::Idle));
    }
}

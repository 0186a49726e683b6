//! Heartbeats of a quiet stream.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use houston_protocol::sse::HEARTBEAT;
use tokio::time::{Instant, Sleep};

/// Yields a heartbeat after each period in which nothing was sent.
pub(crate) struct Heartbeat {
    period: Duration,
    sent_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Heartbeat {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, sent_at: Instant::now(), timer: Box::pin(tokio::time::sleep(period)) }
    }

    /// Something was sent.
    pub(crate) fn sent(&mut self) {
        self.sent_at = Instant::now();
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            // The timer is not reset at every frame: that would cost more than the frame.
            let (now, due) = (Instant::now(), self.sent_at + self.period);
            if now >= due {
                self.sent_at = now;
                self.timer.as_mut().reset(now + self.period);
                return Poll::Ready(Bytes::from_static(HEARTBEAT));
            }
            self.timer.as_mut().reset(due);
        }
    }
}

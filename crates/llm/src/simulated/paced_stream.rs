//! Sends events one after the other, with a pause before each.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use houston_domain::model::ModelError;
use tokio::time::Sleep;

use crate::model::Event;

/// The stream of the simulated model.
pub(super) struct PacedStream {
    events: VecDeque<Result<Event, ModelError>>,
    delay: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl PacedStream {
    pub(super) fn new(events: VecDeque<Result<Event, ModelError>>, delay: Duration) -> Self {
        let pause = (!delay.is_zero()).then(|| Box::pin(tokio::time::sleep(delay)));
        Self { events, delay, pause }
    }
}

impl Stream for PacedStream {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        // `Done` and the end of the stream are sent without a pause.
        if let (Some(pause), Some(Ok(event))) = (&mut this.pause, this.events.front())
            && !matches!(event, Event::Done(_))
        {
            ready!(pause.as_mut().poll(cx));
            pause.as_mut().reset(tokio::time::Instant::now() + this.delay);
        }
        Poll::Ready(this.events.pop_front())
    }
}

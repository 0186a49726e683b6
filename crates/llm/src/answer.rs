//! The stream of one answer: bytes from the socket in, events out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use houston_domain::model::ModelError;
use http_body::Body as _;
use reqwest::{Body, Response};
use tokio::time::{Instant, Sleep};

use crate::client::{Caller, silent, too_long};
use crate::error;
use crate::http::Timeouts;
use crate::model::Event;
use crate::sse::SseDecoder;
use crate::wire::Decoder;

/// How long a complete answer is held back for its connection's sake. A new connection costs several times that.
const LINGER: Duration = Duration::from_millis(20);

/// Reads one answer. Thousands may wait at a time, so it holds little: a buffer for a cut event, and the answer
/// so far.
pub(crate) struct AnswerStream {
    /// `None` once the answer is complete or has failed; dropping it closes the connection or gives it back.
    body: Option<Body>,
    sse: SseDecoder,
    decoder: Box<dyn Decoder>,
    /// Decoded and not yet taken.
    events: VecDeque<Event>,
    /// What comes after them.
    failure: Option<ModelError>,
    caller: Arc<Caller>,
    request_id: Option<String>,
    timeouts: Timeouts,
    last_byte: Instant,
    deadline: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl AnswerStream {
    pub(crate) fn new(
        response: Response,
        decoder: Box<dyn Decoder>,
        caller: Arc<Caller>,
        timeouts: Timeouts,
        deadline: Instant,
    ) -> Self {
        let request_id = error::request_id(response.headers());
        let last_byte = Instant::now();
        Self {
            body: Some(reqwest::Body::from(response)),
            sse: SseDecoder::default(),
            decoder,
            events: VecDeque::new(),
            failure: None,
            caller,
            request_id,
            timeouts,
            last_byte,
            deadline,
            alarm: Box::pin(tokio::time::sleep_until(deadline.min(last_byte + timeouts.idle))),
        }
    }

    /// Waits for bytes and decodes them.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.last_byte = Instant::now();
                if let Ok(bytes) = frame.into_data() {
                    self.sse.push(&bytes);
                    self.decode()?;
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error::transport(error))),
            Poll::Ready(None) => {
                self.body = None;
                Poll::Ready(self.finish())
            }
            Poll::Pending => {
                ready!(self.poll_alarm(cx));
                Poll::Ready(Err(if self.deadline <= Instant::now() {
                    too_long(self.timeouts.total)
                } else {
                    silent("silence in mid-answer", self.timeouts.idle)
                }))
            }
        }
    }

    /// Rings after `idle` without a byte, and at the deadline. It is set anew only when it rings: once in that time,
    /// and not once a token.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.alarm.as_mut().poll(cx));
            let due = self.deadline.min(self.last_byte + self.timeouts.idle);
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(due);
        }
    }

    fn decode(&mut self) -> Result<(), ModelError> {
        while self.sse.advance().map_err(|fault| error::invalid(fault.to_string()))? {
            let event = self.sse.event().map_err(|fault| error::invalid(fault.to_string()))?;
            self.decoder.event(event.name, event.data, &mut self.events)?;
            if let Some(Event::Done(_)) = self.events.back() {
                self.alarm.as_mut().reset(Instant::now() + LINGER);
                break;
            }
        }
        Ok(())
    }

    /// Waits for the end of the body, which comes with the end of the answer or just after it: once seen, the
    /// connection can serve the next call.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else { return Poll::Ready(()) };
        while let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            if !matches!(frame, Some(Ok(_))) || self.alarm.deadline() <= Instant::now() {
                return Poll::Ready(());
            }
        }
        self.alarm.as_mut().poll(cx)
    }

    /// The bytes ended. An event cut off in the middle counts for nothing: whether the answer is complete is
    /// the decoder's to say.
    fn finish(&mut self) -> Result<(), ModelError> {
        let mut rest = Ok(());
        if let Ok(true) = self.sse.end()
            && let Ok(event) = self.sse.event()
        {
            rest = self.decoder.event(event.name, event.data, &mut self.events);
        }
        if matches!(self.events.back(), Some(Event::Done(_))) {
            return Ok(());
        }
        self.decoder.end(&mut self.events).map_err(|cut_off| rest.err().unwrap_or(cut_off))
    }

    /// The last word on an error of this answer.
    fn own(&self, mut error: ModelError) -> ModelError {
        error.request_id = error.request_id.or_else(|| self.request_id.clone());
        self.caller.own(error)
    }
}

impl Stream for AnswerStream {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let (Some(Event::Done(_)), Some(_)) = (this.events.front(), &this.body) {
                ready!(this.poll_end(cx));
                this.body = None;
            }
            if let Some(event) = this.events.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(failure) = this.failure.take() {
                return Poll::Ready(Some(Err(this.own(failure))));
            }
            if this.body.is_none() {
                return Poll::Ready(None);
            }
            if let Err(error) = ready!(this.poll_body(cx)) {
                this.failure = Some(error);
                this.body = None;
            }
        }
    }
}

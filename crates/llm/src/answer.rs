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
use crate::framing::Reader;
use crate::http::Timeouts;
use crate::model::Event;

/// How long a complete answer is held back for its connection's sake. A new connection costs several times that.
const LINGER: Duration = Duration::from_millis(20);

/// Longest stream accepted, in bytes: some providers spend 350 bytes on a token, and the longest answers have some
/// hundred thousand.
const LONGEST_STREAM: u64 = 256 << 20;

/// Most that a model may write in one answer, in bytes: far more than any limit of output tokens, and what a
/// process with thousands of runs can still hold for a few that went wrong.
const LONGEST_ANSWER: usize = 8 << 20;

/// Reads one answer. Thousands may wait at a time, so it holds little: a buffer for a cut event, and the answer
/// so far.
pub(crate) struct AnswerStream {
    /// `None` once the answer is complete or has failed; dropping it closes the connection or gives it back.
    body: Option<Body>,
    reader: Reader,
    read: Measure,
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

/// How much came. No single event is long: the framing sees to that.
#[derive(Debug, Default)]
struct Measure {
    bytes: u64,
    written: usize,
}

impl Measure {
    /// Takes note of bytes from the socket.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` when they begin like a web page, or are more than [`LONGEST_STREAM`].
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        if self.bytes == 0 && error::looks_like_html(bytes) {
            return Err(error::invalid("a web page instead of an answer: is the base URL right?"));
        }
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > LONGEST_STREAM {
            return Err(error::invalid("a stream longer than 256 MiB"));
        }
        Ok(())
    }

    /// Takes note of what the model wrote.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` when it is more than [`LONGEST_ANSWER`].
    fn events<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> Result<(), ModelError> {
        for event in events {
            self.written += match event {
                Event::Text(text) | Event::Thinking(text) | Event::ToolArguments { json: text, .. } => {
                    text.len()
                }
                Event::ToolStart { id, name, .. } => id.len() + name.len(),
                Event::Fallback(_) | Event::Answering(_) | Event::Done(_) => 0,
            };
        }
        if self.written > LONGEST_ANSWER {
            return Err(error::invalid("an answer longer than 8 MiB"));
        }
        Ok(())
    }
}

impl AnswerStream {
    pub(crate) fn new(
        response: Response,
        reader: Reader,
        caller: Arc<Caller>,
        timeouts: Timeouts,
        deadline: Instant,
    ) -> Self {
        let request_id = error::request_id(response.headers());
        let last_byte = Instant::now();
        Self {
            body: Some(reqwest::Body::from(response)),
            reader,
            read: Measure::default(),
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
                    self.read.bytes(&bytes)?;
                    self.decode(&bytes)?;
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error::transport(error))),
            Poll::Ready(None) => {
                self.body = None;
                Poll::Ready(self.reader.end(&mut self.events))
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

    fn decode(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let known = self.events.len();
        self.reader.push(bytes, &mut self.events)?;
        self.read.events(self.events.iter().skip(known))?;
        if let Some(Event::Done(_)) = self.events.back() {
            self.alarm.as_mut().reset(Instant::now() + LINGER);
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
                return Poll::Ready(Some(Ok(event.into_storable())));
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

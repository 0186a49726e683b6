//! Streams one answer: reads bytes from the socket and yields [`Event`]s.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use houston_domain::ensure;
use houston_domain::model::ModelError;
use http_body::Body as _;
use reqwest::header::HeaderMap;
use reqwest::{Body, Response};
use tokio::time::{Instant, Sleep};

use super::{CallContext, idle_timeout, total_timeout};
use crate::error;
use crate::http::Timeouts;
use crate::model::Event;
use crate::reader::Reader;

/// How long a complete answer waits for the end of its HTTP body, so that the connection returns to the pool. Opening
/// a new connection costs several times that.
const LINGER: Duration = Duration::from_millis(20);

/// Longest stream accepted, in bytes: some providers spend 350 bytes on a token, and the longest answers have a few
/// hundred thousand tokens.
const LONGEST_STREAM: u64 = 256 << 20;

/// Most a model may write in one answer, in bytes: far more than any limit of output tokens allows, and little enough
/// that a process with thousands of runs can hold several runaway answers.
const LONGEST_ANSWER: usize = 8 << 20;

/// The stream of one answer. Thousands may be open at a time, so each holds little: a buffer for an incomplete event
/// and the answer so far.
pub(crate) struct AnswerStream {
    /// `None` once the answer is complete or has failed. Dropping it closes the connection or returns it to the pool.
    body: Option<Body>,
    reader: Reader,
    totals: ReadTotals,
    /// Decoded events that were not polled yet.
    events: VecDeque<Event>,
    /// The error to yield after `events`.
    failure: Option<ModelError>,
    context: Arc<CallContext>,
    request_id: Option<String>,
    /// Input and output tokens that the provider has counted; `None`: it has not begun.
    counts: Option<(u64, u64)>,
    timeouts: Timeouts,
    last_byte: Instant,
    deadline: Instant,
    timer: Pin<Box<Sleep>>,
}

/// Counts what was read and enforces the size limits. The length of a single event is limited by the framing.
#[derive(Debug, Default)]
struct ReadTotals {
    bytes: u64,
    written: usize,
}

impl ReadTotals {
    /// Counts bytes from the socket.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` when the body begins like a web page, or is longer than [`LONGEST_STREAM`].
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        if self.bytes == 0 && error::is_compressed(&HeaderMap::new(), bytes) {
            return Err(error::compressed());
        }
        if self.bytes == 0 && error::looks_like_html(bytes) {
            return Err(error::invalid(
                "the server returned a web page instead of an answer; check the base URL",
            ));
        }
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        ensure!(self.bytes <= LONGEST_STREAM, error::invalid("the stream is longer than 256 MiB"));
        Ok(())
    }

    /// Counts the bytes the model wrote.
    ///
    /// # Errors
    /// `INVALID_RESPONSE` when the answer is longer than [`LONGEST_ANSWER`].
    fn events<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> Result<(), ModelError> {
        for event in events {
            self.written += match event {
                Event::Text(text) | Event::Thinking(text) | Event::ToolArguments { json: text, .. } => {
                    text.len()
                }
                Event::ToolStart { id, name, .. } => id.len() + name.len(),
                Event::Usage(_)
                | Event::Fallback(_)
                | Event::Answering(_)
                | Event::Submitted(_)
                | Event::Gone
                | Event::Done(_) => 0,
            };
        }
        ensure!(self.written <= LONGEST_ANSWER, error::invalid("the answer is longer than 8 MiB"));
        Ok(())
    }
}

impl AnswerStream {
    pub(crate) fn new(
        response: Response,
        reader: Reader,
        context: Arc<CallContext>,
        timeouts: Timeouts,
        deadline: Instant,
    ) -> Self {
        let request_id = error::request_id(response.headers());
        let last_byte = Instant::now();
        Self {
            body: Some(reqwest::Body::from(response)),
            reader,
            totals: ReadTotals::default(),
            events: VecDeque::new(),
            failure: None,
            context,
            request_id,
            counts: None,
            timeouts,
            last_byte,
            deadline,
            timer: Box::pin(tokio::time::sleep_until(deadline.min(last_byte + timeouts.idle))),
        }
    }

    /// Waits for bytes and decodes them.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ModelError>> {
        let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.last_byte = Instant::now();
                if let Ok(bytes) = frame.into_data() {
                    self.totals.bytes(&bytes)?;
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
                ready!(self.poll_timer(cx));
                Poll::Ready(Err(if self.deadline <= Instant::now() {
                    total_timeout(self.timeouts.total)
                } else {
                    idle_timeout("no data in the middle of the answer", self.timeouts.idle)
                }))
            }
        }
    }

    /// Completes after `idle` without a byte, and at the deadline. The timer is reset only when it fires, not with
    /// every token.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let due = self.deadline.min(self.last_byte + self.timeouts.idle);
            if due <= Instant::now() {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(due);
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let decoded = self.events.len();
        let pushed = self.reader.push(bytes, &mut self.events);
        if self.reader.has_begun() {
            let counted = self.reader.counted();
            let counts = Some((counted.input_tokens, counted.output_tokens));
            if std::mem::replace(&mut self.counts, counts) != counts {
                self.events.insert(decoded, Event::Usage(Box::new(counted)));
            }
        }
        pushed?;
        self.totals.events(self.events.iter().skip(decoded))?;
        if let Some(Event::Done(_)) = self.events.back() {
            self.timer.as_mut().reset(Instant::now() + LINGER);
        }
        Ok(())
    }

    /// Waits at most [`LINGER`] for the end of the body, which comes with the end of the answer or just after it.
    /// Once the end was read, the connection can serve the next call.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else { return Poll::Ready(()) };
        while let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            if !matches!(frame, Some(Ok(_))) || self.timer.deadline() <= Instant::now() {
                return Poll::Ready(());
            }
        }
        self.timer.as_mut().poll(cx)
    }

    /// Completes an error of this answer: adds the request id, the provider's name and hints, and removes secrets.
    fn complete(&self, mut error: ModelError) -> ModelError {
        error.request_id = error.request_id.or_else(|| self.request_id.clone());
        self.context.complete(error)
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
                return Poll::Ready(Some(Err(this.complete(failure))));
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

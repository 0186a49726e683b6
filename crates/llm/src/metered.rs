//! [`metered`]: models whose calls enter what they have used into the [`Ledger`] of their request, however they ended.
//!
//! A provider is paid for each answer that it began, also for one that was cut off, that timed out, or that nobody waited for.
//! [`metered`] enters each such answer once, when it ends: with the usage that its provider reported, else with an estimate from
//! the request and from what was received. Dropping the stream of an answer, or the future that reads it, ends it.
//!
//! | how it ends | entered |
//! |---|---|
//! | complete | what the provider reported |
//! | broken off, after anything of it was received | what was reported so far, else an estimate |
//! | by a time-out, after the provider had accepted the request | the same |
//! | because nobody waits any more, after the request was sent | the same |
//! | refused, or broken off before anything of it was received | nothing |
//! | submitted, to be answered later | nothing yet: see [`Submitting`](crate::model::Submitting) |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;
use futures_util::future::{self, BoxFuture};
use houston_domain::model::{ModelError, ModelErrorCode, Usage};
use houston_domain::step::CallTiming;
use tokio::time::Instant;

use crate::ledger::{Ledger, Used};
use crate::model::{Description, Event, EventStream, Model, Request};
use crate::price::Price;
use crate::secret::Fingerprint;
use crate::tokens;

/// Lets calls of `model` enter what they use into the ledger of their request. A model that does so already stays as it is, so that
/// each call is entered once: of several models behind one, each enters its own calls.
pub fn metered(model: Arc<dyn Model>) -> Arc<dyn Model> {
    if model.is_metered() {
        return model;
    }
    let Description { provider, model: name, .. } = model.description();
    let price = Price::find(provider, name);
    Arc::new(Metered { inner: model, price })
}

struct Metered {
    inner: Arc<dyn Model>,
    price: Option<Price>,
}

impl Metered {
    async fn ask(&self, request: &Request<'_>) -> Result<EventStream, ModelError> {
        let started = Instant::now();
        let is_sent = AtomicBool::new(false);
        let entry = request.ledger.map(|ledger| {
            let model = self.inner.description().clone();
            let input_tokens =
                request.input_tokens.unwrap_or_else(|| tokens::of_request(request, &model.provider));
            Entry {
                ledger: ledger.clone(),
                model,
                price: self.price.clone(),
                started,
                first: None,
                begun: false,
                input_tokens,
                counted: Usage::default(),
                received: Received::default(),
            }
        });
        let mut asking = Asking { entry, is_sent: &is_sent };
        // Entered here, and not once more by what it may consist of.
        let stream =
            self.inner.stream(&Request { ledger: None, is_sent: Some(&is_sent), ..*request }).await?;
        let mut open = OpenEntry(asking.entry.take());
        Ok(Box::pin(stream.filter_map(move |item| future::ready(open.passed(item)))))
    }
}

impl Model for Metered {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    fn key(&self) -> Option<Fingerprint> {
        self.inner.key()
    }

    fn candidates(&self) -> Vec<&Description> {
        self.inner.candidates()
    }

    fn is_metered(&self) -> bool {
        true
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<EventStream, ModelError>> {
        Box::pin(self.ask(request))
    }
}

/// A request that a provider may have. Many send the headers of their answer with its first token, long after they began it.
struct Asking<'a> {
    entry: Option<Entry>,
    is_sent: &'a AtomicBool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let is_sent = self.is_sent.load(Ordering::Relaxed);
        if let Some(entry) = self.entry.take().filter(|_| is_sent) {
            entry.cut_off();
        }
    }
}

/// An answer that has not ended.
struct Entry {
    ledger: Ledger,
    model: Description,
    price: Option<Price>,
    started: Instant,
    /// When the first piece came.
    first: Option<Instant>,
    /// Whether anything of the answer was received.
    begun: bool,
    /// Estimated tokens of the request.
    input_tokens: u64,
    /// What the provider has counted so far.
    counted: Usage,
    received: Received,
}

impl Entry {
    fn record(&mut self, event: &Event) {
        self.begun = true;
        match event {
            Event::Usage(usage) => {
                // A report without counts replaces none.
                if **usage != Usage::default() {
                    self.counted = **usage;
                }
                return;
            }
            Event::Text(text) | Event::Thinking(text) | Event::ToolArguments { json: text, .. } => {
                self.received.add(text);
            }
            Event::ToolStart { name, .. } => self.received.add(name),
            Event::Fallback(_) | Event::Answering(_) | Event::Submitted(_) | Event::Gone | Event::Done(_) => {
            }
        }
        self.first.get_or_insert_with(Instant::now);
    }

    /// The answer is complete.
    fn complete(self, usage: Usage) {
        let millis = |until: Instant| {
            u32::try_from(until.duration_since(self.started).as_millis()).unwrap_or(u32::MAX)
        };
        let timing = self
            .first
            .map(|first| CallTiming { first_event_ms: millis(first), took_ms: millis(Instant::now()) });
        let Self { ledger, model, price, .. } = self;
        ledger.enter(Used { model, usage, estimated: false, timing, price });
    }

    /// The answer is cut off.
    fn cut_off(self) {
        let Self { ledger, model, price, input_tokens, mut counted, received, .. } = self;
        let mut estimated = false;
        if counted.input_tokens == 0 {
            (counted.input_tokens, estimated) = (input_tokens, true);
        }
        let output = received.tokens();
        if output > counted.output_tokens {
            (counted.output_tokens, estimated) = (output, true);
        }
        ledger.enter(Used { model, usage: counted, estimated, timing: None, price });
    }
}

/// The entry of an answer that is being received; `None`: nothing is to be entered, or it was.
struct OpenEntry(Option<Entry>);

impl OpenEntry {
    /// What is passed on of an item of the answer.
    fn passed(&mut self, item: Result<Event, ModelError>) -> Option<Result<Event, ModelError>> {
        match &item {
            Ok(event) => {
                if let Some(entry) = &mut self.0 {
                    entry.record(event);
                }
                match event {
                    Event::Usage(_) => return None,
                    // It is entered with its answer.
                    Event::Submitted(_) | Event::Gone => self.0 = None,
                    Event::Done(answer) => {
                        if let Some(entry) = self.0.take() {
                            entry.complete(answer.usage);
                        }
                    }
                    _ => {}
                }
            }
            Err(error) => {
                // What the provider itself has ended before it sent anything was refused.
                let is_used = |entry: &Entry| entry.begun || error.code == ModelErrorCode::Timeout;
                if let Some(entry) = self.0.take().filter(is_used) {
                    entry.cut_off();
                }
            }
        }
        Some(item)
    }
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            entry.cut_off();
        }
    }
}

/// Counts what was received, so that its tokens can be estimated without the text.
#[derive(Debug, Clone, Copy, Default)]
struct Received {
    ascii: u64,
    /// Characters of other scripts that are written with letters, and those of which each is about a token.
    letters: u64,
    ideographs: u64,
}

/// Characters a token has on average: see the table of [`tokens::estimate`].
const ASCII_PER_TOKEN: u64 = 4;
const LETTERS_PER_TOKEN: u64 = 2;

impl Received {
    fn add(&mut self, text: &str) {
        let (mut ascii, mut letters, mut ideographs) = (0, 0, 0);
        // The first byte of a character says how long it is.
        for byte in text.bytes() {
            match byte {
                0..=0x7f => ascii += 1,
                0xc0..=0xdf => letters += 1,
                0xe0.. => ideographs += 1,
                0x80..=0xbf => {}
            }
        }
        self.ascii += ascii;
        self.letters += letters;
        self.ideographs += ideographs;
    }

    fn tokens(self) -> u64 {
        self.ascii.div_ceil(ASCII_PER_TOKEN) + self.letters.div_ceil(LETTERS_PER_TOKEN) + self.ideographs
    }
}

#[cfg(test)]
mod tests;

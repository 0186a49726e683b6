//! [`Reader`]: passes the events of a byte stream, whose boundaries a [`Framing`] finds, to a [`Decoder`].

use std::collections::VecDeque;

use houston_domain::ensure;
use houston_domain::model::{ModelError, Usage};
use serde::de::IgnoredAny;

use crate::error;
use crate::framing::Framing;
use crate::model::Event;
use crate::wire::repair::repaired;
use crate::wire::{Decoder, is_done};

/// The framing and the decoder of one answer.
pub(crate) struct Reader {
    framing: Framing,
    decoder: Box<dyn Decoder>,
    /// Whether any event was decoded.
    started: bool,
    /// Whether one was decoded that is no error.
    begun: bool,
    /// The first JSON outside of events that is not an error: possibly the whole answer.
    bare: Option<String>,
}

impl Reader {
    pub(crate) fn new(framing: Framing, decoder: Box<dyn Decoder>) -> Self {
        Self { framing, decoder, started: false, begun: false, bare: None }
    }

    /// Decodes the next bytes. Nothing is read after [`Event::Done`].
    ///
    /// # Errors
    /// The error reported by the provider; `INVALID_RESPONSE` for data that cannot be decoded.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        self.framing.push(bytes);
        while self.framing.advance()? {
            self.event(out)?;
            if is_done(out) {
                break;
            }
        }
        Ok(())
    }

    /// Whether anything of an answer was received, even if no [`Event`] followed from it.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// What the provider has counted so far.
    pub(crate) fn counted(&self) -> Usage {
        self.decoder.counted()
    }

    /// Handles the end of the connection. If the last event was cut off, so was the answer.
    ///
    /// # Errors
    /// `NETWORK_ERROR` if the answer is incomplete; the provider's error if that was received last.
    pub(crate) fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        if is_done(out) {
            return Ok(());
        }
        while self.framing.end().map_err(|_| error::cut_off())? {
            ensure!(is_whole(&self.framing.event().data), error::cut_off());
            self.event(out)?;
            if is_done(out) {
                return Ok(());
            }
        }
        ensure!(!self.framing.is_inside_bare_json(), error::cut_off());
        match self.bare.take().filter(|_| !self.started) {
            Some(body) => self.decoder.whole_answer(repaired(&body).as_deref().unwrap_or(&body), out),
            None => self.decoder.end(out),
        }
    }

    fn event(&mut self, out: &mut VecDeque<Event>) -> Result<(), ModelError> {
        let event = self.framing.event();
        let repaired = repaired(&event.data);
        let data = repaired.as_deref().unwrap_or(&event.data);
        if event.framed {
            let is_blank = data.trim().is_empty();
            self.started |= !is_blank;
            self.decoder.event(&event.name, data, out)?;
            self.begun |= !is_blank;
            return Ok(());
        }
        if let Some(error) = error::reported(data) {
            return Err(error);
        }
        if !self.started && self.bare.is_none() {
            self.bare = Some(data.to_owned());
        }
        Ok(())
    }
}

/// Whether the last event before the connection closed is complete: JSON that was cut off does not parse.
fn is_whole(data: &str) -> bool {
    let data = data.trim();
    let is_cut_json =
        || data.starts_with(['{', '[', '"']) && serde_json::from_str::<IgnoredAny>(data).is_err();
    data == "[DONE]" || !is_cut_json()
}

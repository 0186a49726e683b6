//! What a stream writes: the frames of a client's protocol, made from AG-UI events.
//!
//! All endpoints that stream read the same events, in the same order, with the same positions; a dialect only translates.
//! To add a protocol: implement [`Dialect`] and open its streams with [`open_as`](super::open::open_as).

use std::borrow::Cow;

use houston_domain::event::Committed;
use houston_protocol::agui::{Event, Interrupt, Outcome};
use houston_protocol::sse::{HEARTBEAT, SseEncoder};

use crate::events::position::Position;

/// The translation of one stream.
///
/// A dialect may keep state, but a client that resumes gets a new one: what a frame says must follow from `event`, the
/// position, and what the dialect was made with.
pub(crate) trait Dialect: Send + Unpin + 'static {
    /// Appends the frames of `event`; there may be none. A client that has them resumes at `at`.
    ///
    /// The last event of a stream that ends is [`Event::RunFinished`] or [`Event::RunError`].
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder);

    /// Called with each durable event before its frames: for a protocol that repeats whole texts at their end, of which a
    /// client that resumes has been sent the beginning.
    fn committed(&mut self, _event: &Committed) {}

    /// Called after a time without frames. Returns what keeps the connection open.
    fn idle(&mut self, _frames: &mut SseEncoder) -> &'static [u8] {
        HEARTBEAT
    }

    /// Whether the stream ends here, although its run goes on.
    fn is_done(&self) -> bool {
        false
    }

    /// Appends what follows the last event of a stream that ends. Default: nothing.
    fn end(&mut self, _frames: &mut SseEncoder) {}
}

/// AG-UI as it is: the events with their positions as ids.
///
/// Calls of the client's own tools are no interrupts there: a client carries out the calls that have no result when a run has ended
/// with success, and sends the results as messages with the next one. It would refuse to send them while they are interrupts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AgUi;

impl Dialect for AgUi {
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        let calls_client = |outcome: &Outcome<'_>| match outcome {
            Outcome::Interrupt { interrupts } => interrupts.iter().any(Interrupt::is_client_call),
            Outcome::Success | Outcome::Cancelled => false,
        };
        let mut event = Cow::Borrowed(event);
        if matches!(&*event, Event::RunFinished { outcome, .. } if calls_client(outcome))
            && let Event::RunFinished { outcome, .. } = event.to_mut()
        {
            outcome.leave_out_client_calls();
        }
        frames.push(at, &*event);
    }
}

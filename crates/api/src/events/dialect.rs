//! What a stream writes: the frames of a client's protocol, made from AG-UI events.
//!
//! All endpoints that stream read the same events, in the same order, with the same positions; a dialect only translates.
//! To add a protocol: implement [`Dialect`] and open its streams with [`open_as`](super::open::open_as).

use houston_protocol::agui::Event;
use houston_protocol::sse::SseEncoder;

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

    /// Appends what follows the last event of a stream that ends. Default: nothing.
    fn end(&mut self, _frames: &mut SseEncoder) {}
}

/// AG-UI as it is: the events with their positions as ids.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AgUi;

impl Dialect for AgUi {
    fn push(&mut self, at: Position, event: &Event<'_>, frames: &mut SseEncoder) {
        frames.push(at, event);
    }
}

//! Server-sent events (`text/event-stream`): the encoder of the API and the decoder of its clients.
//!
//! One event has an `id` (the position to resume from), once per connection a `retry` (ms), and one line of JSON:
//!
//! ```text
//! id: 7:12
//! retry: 2000
//! data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_0190…","delta":"Hello"}
//!
//! ```

mod decoder;
mod encoder;

pub use self::decoder::{SseDecoder, SseEvent, TooLong};
pub use self::encoder::{HEARTBEAT, SseEncoder};

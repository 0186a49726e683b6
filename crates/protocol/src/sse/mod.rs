//! Server-sent events (`text/event-stream`): the encoder the API writes with, the decoder clients read with.
//!
//! One event on the wire, with `id` (where to resume), once per connection `retry` (ms), and one line of JSON:
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

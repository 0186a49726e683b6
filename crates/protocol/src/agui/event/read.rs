//! What readers of a stream ask of an event.

use super::Event;

impl Event<'static> {
    /// Reads the data of a server-sent event. Data that cannot be read is [`Event::Unknown`]: it is of a
    /// newer server.
    #[must_use]
    pub fn read(data: &str) -> Self {
        serde_json::from_str(data).unwrap_or(Self::Unknown)
    }
}

impl Event<'_> {
    /// Whether the event ends a run.
    #[must_use]
    pub fn ends_run(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}

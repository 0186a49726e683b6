//! [`Queue`]: the value of the label `queue`.

/// The lane in which a run waits: how urgent its kind is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// A user is waiting.
    Interactive,
    /// No user is waiting.
    Background,
    /// Houston's own work.
    Maintenance,
}

impl Queue {
    /// All queues, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Interactive, Self::Background, Self::Maintenance];

    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Background => "background",
            Self::Maintenance => "maintenance",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

//! What the overseer looks for.

/// A sign that a run gets nowhere. A turn is an answer of the model with the tool calls it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Turns in which a guard refused a call, in a row or not: a text that the run has read may be steering it.
    Refusals,
    /// Calls of the user's agents within a minute that reach outside, counted by the process.
    ExternalCalls,
    /// Turns in a row with the same calls and the same results.
    Repeats,
    /// Turns in a row with the same failing call. Its error text may differ: it may contain a time.
    RepeatedErrors,
    /// Turns in a row that alternate between two, with the same calls and results each time.
    Alternation,
    /// Turns in a row that brought nothing which an earlier turn has not brought: each call was made before, with the same
    /// result.
    NothingNew,
    /// Turns in a row in which every call failed.
    Failures,
    /// Tokens of all model calls of the run.
    Tokens,
}

impl Signal {
    /// All signals, the gravest first.
    pub const ALL: [Self; 8] = [
        Self::Refusals,
        Self::ExternalCalls,
        Self::Repeats,
        Self::RepeatedErrors,
        Self::Alternation,
        Self::NothingNew,
        Self::Failures,
        Self::Tokens,
    ];

    /// The name in settings and questions.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refusals => "refusals",
            Self::ExternalCalls => "external_calls",
            Self::Repeats => "repeats",
            Self::RepeatedErrors => "repeated_errors",
            Self::Alternation => "alternation",
            Self::NothingNew => "nothing_new",
            Self::Failures => "failures",
            Self::Tokens => "tokens",
        }
    }

    /// Parses the name; `None` if there is no such signal.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == name)
    }

    /// Whether the signal is seen in the turns of the run.
    #[must_use]
    pub fn is_of_turns(self) -> bool {
        !matches!(self, Self::ExternalCalls | Self::Tokens)
    }

    /// The smallest count that means anything.
    pub(super) fn least(self) -> u64 {
        match self {
            Self::Refusals | Self::ExternalCalls | Self::NothingNew | Self::Tokens => 1,
            Self::Repeats | Self::RepeatedErrors | Self::Failures => 2,
            Self::Alternation => 3,
        }
    }
}

//! Risks: what may go wrong when a tool is called.

use serde::{Deserialize, Serialize};

use crate::autonomy::Autonomy;

/// What may go wrong when a tool is called, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// It only reads.
    Read,
    /// It changes data of the user that can be changed back.
    #[default]
    Write,
    /// It sends something out of the installation: a mail, a comment, a payment.
    External,
    /// It executes a program.
    Exec,
    /// It destroys something that cannot be brought back.
    Destructive,
}

impl Risk {
    /// All risks, in ascending order.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::External, Self::Exec, Self::Destructive];

    /// The name in settings, in events, and in the attribute `risk` of an intent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::External => "external",
            Self::Exec => "exec",
            Self::Destructive => "destructive",
        }
    }

    /// What a call of this risk does, for people and models: `running code needs a yes`.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Read => "reading",
            Self::Write => "changing data",
            Self::External => "sending something out",
            Self::Exec => "running code",
            Self::Destructive => "destroying something for good",
        }
    }

    /// Parses the name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.as_str() == name)
    }

    /// The highest risk that an agent with this autonomy takes without asking; `None` when it asks always.
    #[must_use]
    pub fn without_asking(autonomy: Autonomy) -> Option<Self> {
        match autonomy {
            Autonomy::None => None,
            Autonomy::Low => Some(Self::Read),
            Autonomy::Medium => Some(Self::Write),
            Autonomy::High => Some(Self::Exec),
            Autonomy::Full => Some(Self::Destructive),
        }
    }
}

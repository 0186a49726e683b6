//! What is wrong with the settings of a layer.

use std::fmt;

use super::LayerKind;

/// The settings of a layer are wrong.
///
/// ```text
/// guards of the tenant, rule 3 (github__create_issue), `/repo`: the pattern `acme/[` is not closed: …
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("guards of the {layer}{spot}: {problem}")]
pub struct GuardError {
    /// The layer whose settings are wrong.
    pub layer: LayerKind,
    /// Where.
    pub spot: Spot,
    /// What is wrong, and what is allowed.
    pub problem: Problem,
}

impl GuardError {
    pub(super) fn unreadable(layer: LayerKind, error: &dyn fmt::Display) -> Self {
        Self { layer, spot: Spot::Settings, problem: Problem::Unreadable(error.to_string()) }
    }
}

/// Where in the settings something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spot {
    /// The whole.
    Settings,
    /// A key: `paths`.
    Key(&'static str),
    /// A rule.
    Rule {
        /// Its number, from 1, in the order of the file.
        number: usize,
        /// Its pattern of tools.
        tool: String,
        /// The pointer of `when`, if that is wrong.
        pointer: Option<String>,
    },
    /// The facts of a tool.
    Tool {
        /// Its name.
        name: String,
        /// The key that is wrong.
        key: &'static str,
    },
    /// The lasting yes for a tool.
    Grant {
        /// Its pattern of tools.
        tool: String,
        /// The pointer of `when`, if that is wrong.
        pointer: Option<String>,
    },
}

impl fmt::Display for Spot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = match self {
            Self::Settings => return Ok(()),
            Self::Key(key) => return write!(formatter, ", `{key}`"),
            Self::Tool { name, key } => return write!(formatter, ", [tools.{name}] `{key}`"),
            Self::Rule { number, tool, pointer } => {
                write!(formatter, ", rule {number} ({tool})")?;
                pointer
            }
            Self::Grant { tool, pointer } => {
                write!(formatter, ", the grant of {tool}")?;
                pointer
            }
        };
        pointer.as_ref().map_or(Ok(()), |pointer| write!(formatter, ", `{pointer}`"))
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Neither TOML nor JSON, or a key or value that does not exist. The text names what is allowed.
    #[error("{0}")]
    Unreadable(String),
    /// The installation's settings leave out a key.
    #[error("it is missing; the installation's settings have every key, see jobs/guards.toml")]
    Missing,
    /// A pattern cannot be parsed.
    #[error(
        "the pattern `{pattern}` is wrong: {reason}; allowed are text, `*`, `**`, `?`, `[a-z]` and `{{one,other}}`"
    )]
    Pattern {
        /// The pattern, shortened.
        pattern: String,
        /// Why.
        reason: String,
    },
    /// A list has too many entries.
    #[error("it has {given} entries; at most {max} are allowed")]
    TooMany {
        /// The number of entries.
        given: usize,
        /// Maximum number.
        max: usize,
    },
    /// The settings of a lower layer are too long.
    #[error("they have {given} bytes as JSON; at most {max} are allowed")]
    TooLong {
        /// Their length.
        given: usize,
        /// Maximum length.
        max: usize,
    },
    /// A JSON pointer is wrong.
    #[error("`{0}` is not a JSON pointer: it begins with `/`, as `/to` or `/to/0`")]
    Pointer(String),
    /// An example of a rule does not behave as it should.
    #[error("the rule must match its `match` example {0}, and does not")]
    MustMatch(String),
    /// A counterexample of a rule does not behave as it should.
    #[error("the rule must not match its `not_match` example {0}, and does")]
    MustNotMatch(String),
    /// `always` in a rule that does not ask.
    #[error("`always` says that a question has no lasting yes: it is for rules with `decide = \"ask\"`")]
    AlwaysWithoutAsk,
    /// A key that only the installation may set.
    #[error("only the installation's settings may set it")]
    OnlyInstallation,
    /// Facts about a pattern.
    #[error("facts are about one tool: give its name; for patterns there are rules")]
    NotOneTool,
}

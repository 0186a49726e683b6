//! Weakened protocols: what goes wrong when a part of the protocol is missing shows that the part is needed, and
//! that a test notices.

use std::fmt;
use std::str::FromStr;

mod chosen;
mod sql;

pub use self::chosen::choose;
use self::chosen::chosen;

/// The environment variable that names the mutation of a process, without `HOUSTON_`; none where it has no effect.
pub const SETTING: Option<&str> = if crate::ARMED { Some("mutation") } else { None };

/// What is taken out of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A step is committed whatever its epoch and token: a zombie may write.
    Fence,
    /// Epoch and token are looked at before the row is locked: a takeover fits in between.
    RowLock,
    /// Nobody looks for what a lost hint forgot: no sweep, no `LISTEN`, no polling.
    Sweep,
    /// Calls of tools are not written down before they execute, and are made again after a crash.
    Intent,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Fence, Self::RowLock, Self::Sweep, Self::Intent];

    /// As `HOUSTON_MUTATION` names it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::RowLock => "row_lock",
            Self::Sweep => "sweep",
            Self::Intent => "intent",
        }
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is none of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no mutation is called `{0}`; there are fence, row_lock, sweep and intent")]
pub struct UnknownMutation(String);

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(name: &str) -> std::result::Result<Self, UnknownMutation> {
        Self::ALL.into_iter().find(|one| one.as_str() == name).ok_or_else(|| UnknownMutation(name.to_owned()))
    }
}

/// Whether this process leaves `mutation` out. In a build without crash points: `false`, known when it is compiled.
#[must_use]
#[inline(always)]
pub fn is(mutation: Mutation) -> bool {
    chosen() == Some(mutation)
}

/// The SQL that lets the mutation of this process take effect, if it needs any: the latest statement of `migrations`
/// (their texts, oldest first) that creates `commit_step`, weakened.
///
/// # Errors
/// [`Outdated`], if `commit_step` is not the function this was written for.
#[inline(always)]
pub fn weakened<'m>(migrations: impl Iterator<Item = &'m str>) -> Result<Option<String>, Outdated> {
    match chosen() {
        Some(mutation @ (Mutation::Fence | Mutation::RowLock)) => weakened_by(mutation, migrations).map(Some),
        _ => Ok(None),
    }
}

/// The same for any mutation, for tests of the texts.
///
/// # Errors
/// [`Outdated`], if `commit_step` is not the function this was written for, or `mutation` changes no function.
pub fn weakened_by<'m>(
    mutation: Mutation,
    migrations: impl Iterator<Item = &'m str>,
) -> Result<String, Outdated> {
    sql::weakened(mutation, migrations).ok_or(Outdated(mutation))
}

/// `commit_step` has changed, and the texts that weaken it have not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("commit_step has changed: change the mutation `{0}` in crates/faults/src/mutation/sql.rs, too")]
pub struct Outdated(Mutation);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_others_refused() {
        for mutation in Mutation::ALL {
            assert_eq!(mutation.as_str().parse(), Ok(mutation));
        }
        assert!("fences".parse::<Mutation>().unwrap_err().to_string().contains("row_lock"));
    }
}

//! Mutations: weakened versions of the run protocol. What goes wrong without a part of the protocol proves that the
//! part is needed, and that a test notices its absence.

use std::str::FromStr;
use std::sync::OnceLock;

/// The environment variable that names the mutation of a process, without `HOUSTON_`; `None` in a build
/// without crash points.
pub const SETTING: Option<&str> = if crate::ARMED { Some("mutation") } else { None };

macro_rules! mutations {
    ($($(#[$of:meta])* $variant:ident = $text:literal,)+) => {
        /// The part of the protocol that is missing.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutation {
            $($(#[$of])* $variant,)+
        }

        impl Mutation {
            /// All mutations.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in `HOUSTON_MUTATION`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }
    };
}

mutations! {
    /// A step is committed whatever its epoch and token: a zombie can write.
    Fence = "fence",
    /// Of the steps of a batch, the first is committed whatever its epoch and token, and a worker that lost its lease goes
    /// on: otherwise hardly any stale step reaches a batch.
    BatchFence = "batch_fence",
    /// Epoch and token are checked before the row is locked: a takeover can happen in between.
    RowLock = "row_lock",
    /// A worker whose lock is free for a moment is taken for dead at once, its runs go on elsewhere under the epoch and token
    /// that they had, and a worker that lost its lease goes on: two workers write for one agentable.
    Takeover = "takeover",
    /// Agentables whose hint was lost are not found: no sweep, no `LISTEN`, no polling.
    Sweep = "sweep",
    /// Intents of tool calls are not committed before execution, so calls are repeated after a crash.
    Intent = "intent",
    /// Calls that need a person's yes are carried out at once.
    Approval = "approval",
}

/// A name that is not a mutation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mutation `{0}`; allowed are {names}", names = Mutation::ALL.map(Mutation::as_str).join(", "))]
pub struct UnknownMutation(String);

impl FromStr for Mutation {
    type Err = UnknownMutation;

    fn from_str(name: &str) -> std::result::Result<Self, UnknownMutation> {
        Self::ALL.into_iter().find(|one| one.as_str() == name).ok_or_else(|| UnknownMutation(name.to_owned()))
    }
}

static CHOSEN: OnceLock<Mutation> = OnceLock::new();

/// Sets the mutation of this process. Returns whether it was set: only the first call sets it, and none does in a build
/// without crash points.
pub fn choose(mutation: Mutation) -> bool {
    crate::ARMED && CHOSEN.set(mutation).is_ok()
}

/// Whether this process runs with `mutation`. In a build without crash points: `false`, at compile time.
#[inline(always)]
pub fn is(mutation: Mutation) -> bool {
    crate::ARMED && CHOSEN.get() == Some(&mutation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_unknown_ones_refused() {
        for mutation in Mutation::ALL {
            assert_eq!(mutation.as_str().parse(), Ok(mutation));
        }
        assert!("fences".parse::<Mutation>().unwrap_err().to_string().contains("row_lock"));
    }
}

//! The limits of one run, as `jobs/orchestrator.toml`, the agent types, agents and messages set them.
//!
//! # Add a limit
//! Add a line to `limits!` below, the key to `[limits]` of `jobs/orchestrator.toml`, and the rule to
//! [`AgentRun::next`](super::AgentRun::next). API, its document and console take it from the list.

use serde::{Deserialize, Serialize};

use crate::setting::{WrongSetting, positive};

/// What is known of a limit, besides its value.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Its key.
    pub name: &'static str,
    /// What pages call it.
    pub label: &'static str,
    /// What it limits, in a sentence.
    pub what: &'static str,
    /// The bits of its number.
    pub bits: u32,
    /// Whether 0 means no limit.
    pub is_optional: bool,
}

/// Declares the limits: type, value in the shipped file, name on pages, description; `optional`: 0 means no limit.
macro_rules! limits {
    ($($(#[$attribute:meta])* $name:ident: $number:ty = $usual:literal, $label:literal, $what:literal $(, $optional:ident)?;)+) => {
        /// When a run stops although the model would continue. `[limits]` of `jobs/orchestrator.toml`:
        ///
        /// ```toml
        /// [limits]
        /// max_iterations = 20
        /// max_same_tool = 5
        /// max_duration_s = 600
        /// max_output_tokens = 4096
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Limits {
            $(#[doc = $what] $(#[$attribute])* pub $name: $number,)+
        }

        /// Limits that an agent type overrides; `None` keeps the value of `orchestrator.toml`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct LimitChanges {
            $(#[doc = $what] pub $name: Option<$number>,)+
        }

        /// What a run of a kind may use at most; an agent may have lower limits.
        ///
        /// ```json
        /// {"max_iterations": 20, "max_same_tool": 5, "max_duration_s": 300, "max_history_entries": 0, "max_output_tokens": 4000}
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct KindLimits {
            $(#[doc = $what] pub $name: $number,)+
        }

        impl Limits {
            /// The limits of the shipped file.
            pub const USUAL: Self = Self { $($name: $usual,)+ };

            /// All limits.
            pub const ALL: [Limit; [$($label),+].len()] = [$(Limit {
                name: stringify!($name),
                label: $label,
                what: $what,
                bits: <$number>::BITS,
                is_optional: !stringify!($($optional)?).is_empty(),
            }),+];

            /// These limits with `changes` applied.
            #[must_use]
            pub fn with(self, changes: LimitChanges) -> Self {
                Self { $($name: changes.$name.unwrap_or(self.$name),)+ }
            }

            /// The values of [`Self::ALL`].
            pub fn values(&self) -> [u64; Self::ALL.len()] {
                [$(u64::from(self.$name)),+]
            }
        }

        impl Default for Limits {
            fn default() -> Self {
                Self::USUAL
            }
        }

        impl LimitChanges {
            fn values(&self) -> [Option<u64>; Limits::ALL.len()] {
                [$(self.$name.map(u64::from)),+]
            }

            /// These changes, each reduced to at most the limit in `bounds`.
            #[must_use]
            pub fn within(self, bounds: Limits) -> Self {
                Self { $($name: Some(match (self.$name, bounds.$name) {
                    $((Some(0), $optional) => $optional, (Some($optional), 0) => $optional,)?
                    (own, most) => own.map_or(most, |own| own.min(most)),
                }),)+ }
            }
        }

        impl From<Limits> for KindLimits {
            fn from(limits: Limits) -> Self {
                Self { $($name: limits.$name,)+ }
            }
        }

        impl KindLimits {
            /// The values of [`Limits::ALL`].
            pub fn values(self) -> [u64; Limits::ALL.len()] {
                Limits { $($name: self.$name,)+ }.values()
            }
        }
    };
}

limits! {
    #[serde(deserialize_with = "positive")]
    max_iterations: u32 = 20, "Model calls of a run", "Model calls of one run since it last read a message.";
    #[serde(deserialize_with = "positive")]
    max_same_tool: u32 = 5, "Same tool in a row", "Turns in a row that ask for the same single tool.";
    max_duration_s: u64 = 600, "Time of an attempt", "Duration of one attempt, in seconds.";
    // Tasks set one, because they are short.
    max_history_entries: u64 = 0, "Entries of a session", "Entries of the open session's history.", optional;
    max_output_tokens: u32 = 4096, "Tokens of an answer", "Tokens the model may write in one answer.";
}

impl LimitChanges {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Checks that none is 0, of which nothing could be done, and none above those of `bounds`. Pointers are from these
    /// limits.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that is.
    pub fn check(&self, bounds: Option<&Limits>) -> Result<(), WrongSetting> {
        for (nth, (limit, own)) in Limits::ALL.iter().zip(self.values()).enumerate() {
            let most =
                bounds.map(|bounds| bounds.values()[nth]).filter(|most| *most > 0 || !limit.is_optional);
            if own.is_some_and(|own| own == 0 || most.is_some_and(|most| own > most)) {
                let allowed = most.map_or_else(|| "1 or more".to_owned(), |most| format!("from 1 to {most}"));
                return Err(WrongSetting::new(format!("/{}", limit.name), format!("must be {allowed}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_entries_are_no_limit_of_entries() {
        let bounds = |max_history_entries| Limits { max_history_entries, ..Limits::USUAL };
        let within = |own, most| {
            let own = LimitChanges { max_history_entries: own, ..LimitChanges::default() };
            own.within(bounds(most)).max_history_entries.unwrap()
        };
        assert_eq!([within(Some(9), 5), within(Some(0), 5), within(None, 5)], [5, 5, 5]);
        assert_eq!([within(Some(9), 0), within(Some(0), 0), within(None, 0)], [9, 0, 0]);
        let own = LimitChanges { max_history_entries: Some(9), ..LimitChanges::default() };
        assert_eq!(own.check(Some(&bounds(0))), Ok(()));
        assert_eq!(own.check(Some(&bounds(5))).unwrap_err().reason, "must be from 1 to 5");
    }
}

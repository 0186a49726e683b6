//! Settings say at their fields which numbers they allow: `#[serde(deserialize_with = "positive")]`. Who reads them adds the
//! key and its origin to the error. A rule between two settings is a `check` of the struct that has both.

use std::fmt::Display;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A setting that cannot be used, and where: a JSON Pointer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", self.key())]
pub struct WrongSetting {
    /// Where, such as `/temperature`.
    pub pointer: String,
    /// Why, and what is allowed.
    pub reason: String,
}

impl WrongSetting {
    /// The one at `pointer`.
    pub fn new(pointer: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), reason: reason.into() }
    }

    /// The same, seen from outside: its place begins with `outer`.
    #[must_use]
    pub fn below(self, outer: &str) -> Self {
        Self { pointer: format!("{outer}{}", self.pointer), ..self }
    }

    /// Where, as files of settings name it: `sampling.temperature`.
    pub fn key(&self) -> String {
        self.pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/")
    }
}

/// Nothing if it `holds`.
///
/// # Errors
/// [`WrongSetting`] at `pointer`, with the `reason`.
pub fn require(holds: bool, pointer: impl Into<String>, reason: impl Display) -> Result<(), WrongSetting> {
    if holds { Ok(()) } else { Err(WrongSetting::new(pointer, reason.to_string())) }
}

/// Returns an error from the function unless the first argument holds: the second argument, or the text of a format string
/// with its arguments, as `anyhow::ensure!` does.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $text:literal $($argument:tt)*) => {
        $crate::ensure!($holds, format!($text $($argument)*))
    };
    ($holds:expr, $error:expr) => {
        if !$holds {
            return Err($error);
        }
    };
}

/// Whether a value is the default of its type: such a field is left out of JSON, since reading gives it anyway.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A number of at least 1.
///
/// # Errors
/// Its value, and what is allowed.
pub fn positive<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + Display + TryInto<u64>,
{
    within::<1, { u64::MAX }, D, T>(deserializer)
}

/// A number from `LEAST` to `MOST`.
///
/// # Errors
/// Its value, and what is allowed.
pub fn within<'de, const LEAST: u64, const MOST: u64, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Copy + Display + TryInto<u64>,
{
    let value = T::deserialize(deserializer)?;
    // What is no u64 is negative.
    if value.try_into().is_ok_and(|number| (LEAST..=MOST).contains(&number)) {
        return Ok(value);
    }
    Err(match MOST {
        u64::MAX => D::Error::custom(format_args!("is {value}, must be at least {LEAST}")),
        _ => D::Error::custom(format_args!("is {value}, must be from {LEAST} to {MOST}")),
    })
}

/// Declares a struct of settings: for each the value without a file, and the function of this module that reads it, if its
/// type alone is not enough.
///
/// ```text
/// settings! {
///     /// `[tasks]` of `jobs/orchestrator.toml`: how many tasks are allowed.
///     pub struct TaskLimits {
///         /// Open tasks of one agentable.
///         pub max_open: i32 = 5, "positive";
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$of:meta])* pub $field:ident: $type:ty = $usual:expr $(, $read:literal)?;)+
    }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$meta])*
        pub struct $name {
            $($(#[$of])* $(#[serde(deserialize_with = $read)])? pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $usual,)+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Numbers {
        #[serde(deserialize_with = "positive")]
        count: i64,
        #[serde(deserialize_with = "within::<10, 90, _, _>")]
        percent: u8,
    }

    #[test]
    fn numbers_beyond_their_bounds_are_refused() {
        let read = |count: i64, percent: u8| {
            let numbers: Result<Numbers, _> =
                toml::from_str(&format!("count = {count}\npercent = {percent}"));
            numbers.map(drop).map_err(|error| error.message().to_owned())
        };
        assert_eq!((read(1, 10), read(i64::MAX, 90)), (Ok(()), Ok(())));
        assert_eq!(read(0, 10).unwrap_err(), "is 0, must be at least 1");
        assert_eq!(read(-1, 10).unwrap_err(), "is -1, must be at least 1");
        assert_eq!(read(1, 9).unwrap_err(), "is 9, must be from 10 to 90");
        assert_eq!(read(1, 91).unwrap_err(), "is 91, must be from 10 to 90");
    }
}

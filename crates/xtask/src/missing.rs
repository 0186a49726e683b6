//! What a command does without a program that is missing and cannot be installed.

use anyhow::Result;
use clap::Args;

use crate::console::print_status;

/// A program that is missing fails the command, unless the caller says otherwise: a check that was skipped looks like one that
/// passed.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Missing {
    /// Go on without programs that are missing and cannot be installed; say what is skipped
    #[arg(long)]
    pub skip_missing: bool,
}

impl Missing {
    /// What was found, or `None`, with a status line, if `what` needs it and may be skipped.
    ///
    /// # Errors
    ///
    /// That of `found`, which names the package, if nothing may be skipped.
    pub fn or_skip<T>(self, what: &str, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if self.skip_missing => {
                print_status(&format!("skipped: {what}: {error:#}"));
                Ok(None)
            }
            Err(error) => Err(error.context(format!("{what} (--skip-missing goes on without)"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn missing_programs_are_errors_unless_they_may_be_skipped() {
        let missing = || Err::<(), _>(anyhow!("install the package prometheus"));
        let error = Missing::default().or_skip("alert rules", missing()).unwrap_err();
        let message = format!("{error:#}");
        assert_eq!(message, "alert rules (--skip-missing goes on without): install the package prometheus");
        let skips = Missing { skip_missing: true };
        assert_eq!(skips.or_skip("alert rules", missing()).unwrap(), None);
        assert_eq!(Missing::default().or_skip("alert rules", Ok(1)).unwrap(), Some(1));
    }
}

//! No time is longer than a hundred years: a longer one is a slip, and would fit neither into the clocks of a process nor into the
//! times of Postgres.

use serde::Serialize;

use super::{ConfigError, Result, flattened};

/// A hundred years.
const DAYS: u64 = 36_500;
/// How the names of times end, and the most that they may be.
const UNITS: [(&str, u64); 4] =
    [("_ms", DAYS * 86_400_000), ("_s", DAYS * 86_400), ("_hours", DAYS * 24), ("_days", DAYS)];

/// Checks all times in `settings`; `origin`: what sets a key.
///
/// # Errors
/// [`ConfigError`] for the first that is too long.
pub(super) fn check(settings: &impl Serialize, origin: impl Fn(&str) -> String) -> Result<()> {
    for (key, value) in flattened("", settings) {
        let Some((_, most)) = UNITS.into_iter().find(|(unit, _)| key.ends_with(unit)) else { continue };
        // Whatever is no whole number is no time.
        if value.parse::<u64>().is_ok_and(|value| value > most) {
            let reason = format!("must be at most {most}, which is a hundred years");
            return Err(ConfigError::setting(&key, &origin(&key), reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::load;
    use crate::config::tests::tools;

    #[test]
    fn times_of_more_than_a_hundred_years_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        for (name, text, parts) in [
            (
                "health_monitor.toml",
                "[retention.kinds.task]\nevents_days = 36501",
                ["health_monitor.retention.kinds.task.events_days (", "at most 36500"],
            ),
            (
                "health_monitor.toml",
                "[requests]\naudit_s = 1000000000000000000",
                ["health_monitor.requests.audit_s (", "at most 3153600000"],
            ),
            ("webhooks.toml", "keep_days = 4000000000", ["webhooks.keep_days (", "at most 36500"]),
        ] {
            write(name, text);
            let error = load(Some(folder.path()), &tools()).map(drop).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let goal = include_str!("../../../../jobs/agents/goal.toml");
        write("agents/goal.toml", &format!("{goal}\n[limits]\nmax_duration_s = 1000000000000000000\n"));
        let error = load(Some(folder.path()), &tools()).map(drop).unwrap_err().to_string();
        assert!(
            error.contains("agents.goal.limits.max_duration_s (") && error.contains("goal.toml"),
            "{error}"
        );

        write("agents/goal.toml", goal);
        write("health_monitor.toml", "[retention]\nevents_days = 36500");
        assert!(load(Some(folder.path()), &tools()).is_ok());
    }
}

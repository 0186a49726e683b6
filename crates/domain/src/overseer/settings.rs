//! `jobs/overseer.toml`.

use serde::{Deserialize, Serialize};

use super::{Level, Signal};
use crate::setting::{WrongSetting, require, within};

/// When the overseer does what. The default is that it does nothing.
///
/// ```toml
/// unattended = "stop"
/// repeats = { warn = 3, pause = 4, kill = 0 }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What happens to a run that would pause, or whose budget is reached, where no person takes part.
    pub unattended: Unattended,
    /// See [`Signal::ExternalCalls`].
    pub external_calls: Thresholds,
    /// See [`Signal::Repeats`].
    pub repeats: Thresholds,
    /// See [`Signal::RepeatedErrors`].
    pub repeated_errors: Thresholds,
    /// See [`Signal::Alternation`].
    pub alternation: Thresholds,
    /// See [`Signal::NothingNew`].
    pub nothing_new: Thresholds,
    /// See [`Signal::Failures`].
    pub failures: Thresholds,
    /// See [`Signal::Refusals`].
    pub refusals: Thresholds,
    /// See [`Signal::Tokens`].
    pub tokens: Thresholds,
    /// When the model is warned that a budget in US dollars is nearly spent.
    pub budget: BudgetWarning,
    /// When an answer is cut off because it repeats itself.
    pub repeated_text: RepeatedText,
}

/// When the model is warned of a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetWarning {
    /// How much of it is spent, in percent; 0: never.
    #[serde(deserialize_with = "within::<0, 99, _, _>")]
    pub warn_percent: u32,
}

/// When an answer is cut off that repeats the same text without end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepeatedText {
    /// The least bytes that are compared; shorter repeated texts count only as far as they fill these.
    pub bytes: usize,
    /// How often they occur in a row; 0: never.
    pub times: usize,
}

/// What happens in a task, a feed or a check-in, where no person takes part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unattended {
    /// The run ends.
    #[default]
    Stop,
    /// A person is asked, and the run waits.
    Ask,
}

/// From which count on a signal has which level; 0: never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// The model is warned.
    pub warn: u64,
    /// A person is asked.
    pub pause: u64,
    /// The run ends.
    pub kill: u64,
}

impl Settings {
    /// The thresholds of a signal.
    pub fn of(&self, signal: Signal) -> Thresholds {
        match signal {
            Signal::ExternalCalls => self.external_calls,
            Signal::Repeats => self.repeats,
            Signal::RepeatedErrors => self.repeated_errors,
            Signal::Alternation => self.alternation,
            Signal::NothingNew => self.nothing_new,
            Signal::Failures => self.failures,
            Signal::Refusals => self.refusals,
            Signal::Tokens => self.tokens,
        }
    }

    /// Checks that the thresholds make sense.
    ///
    /// # Errors
    /// [`WrongSetting`] at the first that does not.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let RepeatedText { bytes, times } = self.repeated_text;
        require(times == 0 || times >= 3, "/repeated_text/times", "must be 0 (never) or at least 3")?;
        let is_usual = times == 0 || (10..=1000).contains(&bytes);
        require(is_usual, "/repeated_text/bytes", "must be between 10 and 1000")?;
        for signal in Signal::ALL {
            let Thresholds { warn, pause, kill } = self.of(signal);
            let named = [("warn", warn), ("pause", pause), ("kill", kill)];
            let set: Vec<(&str, u64)> = named.into_iter().filter(|(_, at)| *at > 0).collect();
            let least = signal.least();
            let wrong =
                |name: &str, reason| WrongSetting::new(format!("/{}/{name}", signal.as_str()), reason);
            if let Some((name, _)) = set.iter().find(|(_, at)| *at < least) {
                return Err(wrong(name, format!("must be 0 (never) or at least {least}")));
            }
            if let Some(two) = set.windows(2).find(|two| two[0].1 >= two[1].1) {
                let (lower, at) = two[0];
                let reason = format!("must be 0 (never) or greater than {}.{lower} ({at})", signal.as_str());
                return Err(wrong(two[1].0, reason));
            }
        }
        Ok(())
    }
}

impl Thresholds {
    /// Whether the signal is never looked at.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// The level of a signal that was seen `count` times since a person let the run go on, and `all` times altogether. A yes
    /// starts the count anew for warnings and pauses, but a run that must end stays one.
    pub fn level(&self, count: u64, all: u64) -> Level {
        let reached = |at: u64, count: u64| at > 0 && count >= at;
        if reached(self.kill, all) {
            Level::Kill
        } else if reached(self.pause, count) {
            Level::Pause
        } else if reached(self.warn, count) {
            Level::Warn
        } else {
            Level::Ok
        }
    }
}

//! Budgets: whether the next model call may be made, before it is paid for.
//!
//! What a call will cost is not known beforehand; the most it may cost is, so a budget is never broken by the call
//! that was judged. Calls of a user that are judged at the same moment do not see each other.

use std::fmt;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// `[budget]` of `jobs/orchestrator.toml`, in US dollars; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Of one run, all attempts.
    #[serde(with = "amount")]
    pub per_run: Option<Decimal>,
    /// Of one agentable, all its runs.
    #[serde(with = "amount")]
    pub per_agentable: Option<Decimal>,
    /// Of one user on one day, UTC by the database's clock.
    #[serde(with = "amount")]
    pub per_user_day: Option<Decimal>,
    /// Whether models whose price nobody knows are refused where a budget holds: their calls cannot be judged.
    pub refuse_unpriced: bool,
}

/// What was spent so far, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// By the run.
    pub run: Option<Decimal>,
    /// By all runs of its agentable.
    pub agentable: Option<Decimal>,
    /// By all runs of its user today.
    pub user_today: Option<Decimal>,
}

/// Which of the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// `per_run`
    Run,
    /// `per_agentable`
    Agentable,
    /// `per_user_day`
    UserDay,
}

/// Why the next model call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// It might break a budget.
    #[error(
        "the budget {of} is ${limit}, of which ${} is spent, and the next step may cost up to ${}: it was not taken. {}",
        shown(*.spent), shown(*.next), .of.advice()
    )]
    Exceeded {
        /// Which.
        of: Of,
        /// How much it is.
        limit: Decimal,
        /// What is spent of it.
        spent: Decimal,
        /// The most the call may cost.
        next: Decimal,
    },
    /// Nobody knows what it would cost.
    #[error(
        "nobody knows what this model costs, and a budget holds: the next step was not taken. Choose a model whose \
         price is known, or allow this with budget.refuse_unpriced = false"
    )]
    Unpriced,
}

/// The name of this failure in metadata, events and runs.
pub const BUDGET_EXCEEDED: &str = "BUDGET_EXCEEDED";

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "of this run",
            Self::Agentable => "of all work on this",
            Self::UserDay => "of your day",
        })
    }
}

impl Of {
    fn advice(self) -> &'static str {
        match self {
            Self::Run => "Ask again in smaller steps, or raise budget.per_run.",
            Self::Agentable => "Raise budget.per_agentable to go on.",
            Self::UserDay => "It starts anew at 00:00 UTC; budget.per_user_day says how much it is.",
        }
    }
}

/// An amount for people: to a hundredth of a cent, rounded away from nothing.
fn shown(amount: Decimal) -> Decimal {
    amount.round_dp_with_strategy(4, rust_decimal::RoundingStrategy::AwayFromZero).normalize()
}

impl Budget {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.per_run.is_some() || self.per_agentable.is_some() || self.per_user_day.is_some()
    }

    /// Judges a call that may cost `next` at most; `None` where nobody knows.
    ///
    /// # Errors
    /// [`OverBudget`]: the call must not be made.
    pub fn judge(&self, spent: &Spent, next: Option<Decimal>) -> Result<(), OverBudget> {
        if !self.is_set() {
            return Ok(());
        }
        let Some(next) = next else {
            return if self.refuse_unpriced { Err(OverBudget::Unpriced) } else { Ok(()) };
        };
        let budgets = [
            (Of::Run, self.per_run, spent.run),
            (Of::Agentable, self.per_agentable, spent.agentable),
            (Of::UserDay, self.per_user_day, spent.user_today),
        ];
        for (of, limit, spent) in budgets {
            let spent = spent.unwrap_or_default();
            if let Some(limit) = limit
                && spent.saturating_add(next) > limit
            {
                return Err(OverBudget::Exceeded { of, limit, spent, next });
            }
        }
        Ok(())
    }
}

/// Amounts in settings: a number, as text or not, or `"none"`.
mod amount {
    use std::str::FromStr;

    use rust_decimal::Decimal;
    use serde::de::{Error, Unexpected, Visitor};
    use serde::{Deserializer, Serializer};

    const NONE: &str = "none";
    const EXPECTED: &str = "an amount in US dollars from 0 up, such as \"2.50\", or \"none\"";

    #[expect(clippy::ref_option, reason = "serde hands over a reference")]
    pub(super) fn serialize<S: Serializer>(amount: &Option<Decimal>, out: S) -> Result<S::Ok, S::Error> {
        match amount {
            Some(amount) => out.collect_str(amount),
            None => out.serialize_str(NONE),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Decimal>, D::Error> {
        from.deserialize_any(Amount)
    }

    struct Amount;

    impl Visitor<'_> for Amount {
        type Value = Option<Decimal>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(EXPECTED)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            if text == NONE {
                return Ok(None);
            }
            let amount = Decimal::from_str(text).ok().filter(|amount| !amount.is_sign_negative());
            amount.map(Some).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &EXPECTED))
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
            // As it was written: the shortest text that is this number.
            self.visit_str(&number.to_string())
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dollars(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    fn budget(text: &str) -> Result<Budget, String> {
        let all = format!(
            "per_run = {text}\nper_agentable = \"none\"\nper_user_day = \"none\"\nrefuse_unpriced = false"
        );
        toml::from_str(&all).map_err(|error| error.to_string())
    }

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for (text, amount) in [("\"0.10\"", "0.10"), ("0.1", "0.1"), ("3", "3"), ("\"0\"", "0")] {
            assert_eq!(budget(text).unwrap().per_run, Some(dollars(amount)));
        }
        assert!(!budget("\"none\"").unwrap().is_set());
        for wrong in ["\"-1\"", "-0.5", "\"much\"", "nan", "true"] {
            let error = budget(wrong).unwrap_err();
            assert!(error.contains("2.50") && error.contains("none"), "{error}");
        }
        let shown: toml::Value =
            toml::from_str(&toml::to_string(&budget("\"0.10\"").unwrap()).unwrap()).unwrap();
        assert_eq!(
            (shown["per_run"].as_str(), shown["per_agentable"].as_str()),
            (Some("0.10"), Some("none"))
        );
    }

    #[test]
    fn what_a_user_reads_says_which_budget_and_what_to_do() {
        let budget = Budget { per_user_day: Some(dollars("5")), ..Budget::default() };
        let spent = Spent { user_today: Some(dollars("4.99999")), ..Spent::default() };
        let told = budget.judge(&spent, Some(dollars("0.06145"))).unwrap_err().to_string();
        assert_eq!(
            told,
            "the budget of your day is $5, of which $5 is spent, and the next step may cost up to $0.0615: it was \
             not taken. It starts anew at 00:00 UTC; budget.per_user_day says how much it is."
        );
    }

    #[test]
    fn what_has_no_price_is_let_through_unless_it_is_refused() {
        let spent = Spent::default();
        let lax = Budget { per_run: Some(Decimal::ZERO), ..Budget::default() };
        assert_eq!(lax.judge(&spent, None), Ok(()));
        let strict = Budget { refuse_unpriced: true, ..lax };
        assert_eq!(strict.judge(&spent, None), Err(OverBudget::Unpriced));
        let unlimited = Budget { refuse_unpriced: true, ..Budget::default() };
        assert_eq!(unlimited.judge(&spent, None), Ok(()));
    }

    proptest! {
        /// However calls come, and cost what they were judged by or less, no budget is ever broken.
        #[test]
        fn no_budget_is_broken_by_a_call_that_was_judged(
            limits in proptest::array::uniform3(proptest::option::of(0_i64..2_000)),
            calls in prop::collection::vec((0_i64..500, 0_i64..=100), 0..40),
        ) {
            let cents = |cents: i64| Decimal::new(cents, 2);
            let [per_run, per_agentable, per_user_day] = limits.map(|limit| limit.map(cents));
            let budget = Budget { per_run, per_agentable, per_user_day, refuse_unpriced: false };
            let mut spent = Spent::default();
            for (most, percent) in calls {
                if budget.judge(&spent, Some(cents(most))).is_err() {
                    let above = |limit: Option<Decimal>, spent: Option<Decimal>| {
                        limit.is_some_and(|limit| spent.unwrap_or_default() + cents(most) > limit)
                    };
                    prop_assert!(above(per_run, spent.run) || above(per_agentable, spent.agentable)
                        || above(per_user_day, spent.user_today));
                    continue;
                }
                let cost = cents(most) * cents(percent);
                for sum in [&mut spent.run, &mut spent.agentable, &mut spent.user_today] {
                    *sum = Some(sum.unwrap_or_default() + cost);
                }
            }
            let within = |spent: Option<Decimal>, limit: Option<Decimal>| {
                limit.is_none_or(|limit| spent.unwrap_or_default() <= limit)
            };
            prop_assert!(within(spent.run, per_run) && within(spent.agentable, per_agentable)
                && within(spent.user_today, per_user_day));
        }
    }
}

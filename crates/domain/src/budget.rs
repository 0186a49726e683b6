//! Cost budgets: whether the next model call is allowed, decided before it is paid for.
//!
//! The cost of a call is not known beforehand, but its maximum is. So a call that passed the check never exceeds a
//! budget. Calls of one user that are checked at the same moment do not see each other's cost.

use chrono::NaiveDate;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// `[budget]` of `jobs/orchestrator.toml`, in US dollars; `None` (`"none"` in the file) means no limit.
///
/// ```toml
/// [budget]
/// per_run = "2.50"
/// per_agentable = "none"
/// per_user_day = "10"
/// refuse_unpriced = true
/// when_reached = "fail"
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Limit for one run, all attempts together.
    #[serde(with = "amount")]
    pub per_run: Option<Decimal>,
    /// Limit for one agentable, all its runs together.
    #[serde(with = "amount")]
    pub per_agentable: Option<Decimal>,
    /// Limit for one user and one day (UTC, by the database's clock).
    #[serde(with = "amount")]
    pub per_user_day: Option<Decimal>,
    /// Whether models without a known price are refused while a budget is set: their calls cannot be checked.
    pub refuse_unpriced: bool,
    /// What happens to a run whose next call might exceed a budget.
    #[serde(default)]
    pub when_reached: WhenReached,
}

/// What happens to a run whose next model call might exceed a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenReached {
    /// It ends with [`BUDGET_EXCEEDED`].
    #[default]
    Fail,
    /// It waits until a person raises the budget, or stops it.
    Ask,
}

/// The cost of a user's model calls on one day.
///
/// ```json
/// {"day": "2026-11-22", "cost": "0.0123", "unpriced_calls": 0, "model_calls": 4}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DayCostResponse))]
pub struct DayCost {
    /// The day in UTC.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = Date))]
    pub day: NaiveDate,
    /// Known cost in US dollars; null if no cost is known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Decimal>))]
    pub cost: Option<Decimal>,
    /// Model calls whose cost is unknown.
    pub unpriced_calls: i32,
    /// All model calls of the day.
    pub model_calls: i32,
}

/// US dollars spent so far, as far as prices are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// By this run.
    pub run: Option<Decimal>,
    /// By all runs of its agentable.
    pub agentable: Option<Decimal>,
    /// By all runs of its user today (UTC).
    pub user_today: Option<Decimal>,
}

impl Spent {
    /// The same with `more` US dollars, which calls may cost that have not returned.
    #[must_use]
    pub fn and(self, more: Decimal) -> Self {
        let add = |spent: Option<Decimal>| Some(spent.unwrap_or_default() + more);
        if more.is_zero() {
            return self;
        }
        Self { run: add(self.run), agentable: add(self.agentable), user_today: add(self.user_today) }
    }
}

/// What people have added to budgets, in US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raises {
    /// To `per_run`, for this run.
    pub run: Decimal,
    /// To `per_agentable`, for all runs of the agentable.
    pub agentable: Decimal,
    /// To `per_user_day`, for this run only: other runs of the user ask for themselves.
    pub user_day: Decimal,
}

names! {
    /// What a budget covers.
    pub enum BudgetScope {
        /// One run: `per_run`.
        Run = "run",
        /// One agentable: `per_agentable`.
        Agentable = "agentable",
        /// One user and day: `per_user_day`.
        UserDay = "user_day",
    }
}

/// Why the next model call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// The call might exceed a budget.
    #[error(
        "the budget {} is ${limit}; ${} of it is spent and the next model call may cost up to ${}, so it was not made. {}",
        .scope.in_words(), rounded(*.spent), rounded(*.next), .scope.advice()
    )]
    Exceeded {
        /// Which budget.
        scope: BudgetScope,
        /// The budget, in US dollars.
        limit: Decimal,
        /// What is spent of it already.
        spent: Decimal,
        /// The most the call may cost.
        next: Decimal,
    },
    /// The price of the model is unknown.
    #[error(
        "the price of this model is unknown and a budget is set, so the next model call was not made. Choose a model \
         whose price is known, or allow unpriced models with budget.refuse_unpriced = false"
    )]
    Unpriced,
}

/// The error code of [`OverBudget`] in metadata, events and runs.
pub const BUDGET_EXCEEDED: &str = "BUDGET_EXCEEDED";

impl BudgetScope {
    /// What it covers, for people and models.
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::Run => "for this run",
            Self::Agentable => "for all runs of this agentable",
            Self::UserDay => "for this user and day",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Run => "Ask again in smaller steps, or raise budget.per_run.",
            Self::Agentable => "Raise budget.per_agentable to continue.",
            Self::UserDay => "It is reset at 00:00 UTC; budget.per_user_day sets its size.",
        }
    }
}

/// An amount for messages: rounded up to a hundredth of a cent.
pub(crate) fn rounded(amount: Decimal) -> Decimal {
    amount.round_dp_with_strategy(4, rust_decimal::RoundingStrategy::AwayFromZero).normalize()
}

/// One of the budgets, and what is spent of it.
struct Account {
    scope: BudgetScope,
    limit: Option<Decimal>,
    spent: Option<Decimal>,
}

impl Budget {
    /// Whether any limit is set.
    pub fn is_set(&self) -> bool {
        self.per_run.is_some() || self.per_agentable.is_some() || self.per_user_day.is_some()
    }

    /// The budget with what people have added.
    #[must_use]
    pub fn raised(self, raises: &Raises) -> Self {
        let with = |limit: Option<Decimal>, raise| limit.map(|limit| limit.saturating_add(raise));
        Self {
            per_run: with(self.per_run, raises.run),
            per_agentable: with(self.per_agentable, raises.agentable),
            per_user_day: with(self.per_user_day, raises.user_day),
            ..self
        }
    }

    /// The first budget of which at least so many percent are spent, and its limit. 0: none.
    pub fn nearly_spent(&self, spent: &Spent, percent: u32) -> Option<(BudgetScope, Decimal)> {
        let is_nearly = |of: &Account| {
            let part = of.limit.map(|limit| limit.saturating_mul(Decimal::new(percent.into(), 2)));
            part.is_some_and(|part| of.spent.is_some_and(|spent| spent >= part))
        };
        let nearly = self.accounts(spent).into_iter().find(|of| percent > 0 && is_nearly(of));
        nearly.and_then(|of| Some((of.scope, of.limit?)))
    }

    /// Each budget with what is spent of it.
    fn accounts(&self, spent: &Spent) -> [Account; 3] {
        let of = |scope, limit, spent| Account { scope, limit, spent };
        [
            of(BudgetScope::Run, self.per_run, spent.run),
            of(BudgetScope::Agentable, self.per_agentable, spent.agentable),
            of(BudgetScope::UserDay, self.per_user_day, spent.user_today),
        ]
    }

    /// Checks a call that costs `next` US dollars at most; `None` when its price is unknown.
    ///
    /// # Errors
    /// [`OverBudget`] when the call must not be made.
    pub fn check(&self, spent: &Spent, next: Option<Decimal>) -> Result<(), OverBudget> {
        if !self.is_set() {
            return Ok(());
        }
        let Some(next) = next else {
            return if self.refuse_unpriced { Err(OverBudget::Unpriced) } else { Ok(()) };
        };
        for Account { scope, limit, spent } in self.accounts(spent) {
            let spent = spent.unwrap_or_default();
            if let Some(limit) = limit
                && spent.saturating_add(next) > limit
            {
                return Err(OverBudget::Exceeded { scope, limit, spent, next });
            }
        }
        Ok(())
    }
}

/// Amounts in settings: a number, quoted or not, or `"none"`.
mod amount {
    use std::str::FromStr;

    use rust_decimal::Decimal;
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

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
        let text = match Value::deserialize(from)? {
            Value::String(text) => text,
            // `to_string` gives the shortest decimal that reads back as this number, which is what the file says.
            Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
            other => other.to_string(),
        };
        if text == NONE {
            return Ok(None);
        }
        let amount = Decimal::from_str(&text).ok().filter(|amount| !amount.is_sign_negative());
        amount.map(Some).ok_or_else(|| D::Error::invalid_value(Unexpected::Str(&text), &EXPECTED))
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
    fn amounts_are_read_exactly_as_written() {
        for (text, amount) in [("\"0.10\"", "0.10"), ("0.1", "0.1"), ("3", "3"), ("\"0\"", "0")] {
            assert_eq!(budget(text).unwrap().per_run, Some(dollars(amount)));
        }
        assert!(!budget("\"none\"").unwrap().is_set());
        for wrong in ["\"-1\"", "-0.5", "\"much\"", "nan", "true"] {
            let error = budget(wrong).unwrap_err();
            assert!(error.contains("2.50") && error.contains("none"), "{error}");
        }
        let written: toml::Value =
            toml::from_str(&toml::to_string(&budget("\"0.10\"").unwrap()).unwrap()).unwrap();
        assert_eq!(
            (written["per_run"].as_str(), written["per_agentable"].as_str()),
            (Some("0.10"), Some("none"))
        );
    }

    #[test]
    fn message_names_the_budget_and_what_to_do() {
        let budget = Budget { per_user_day: Some(dollars("5")), ..Budget::default() };
        let spent = Spent { user_today: Some(dollars("4.99999")), ..Spent::default() };
        let message = budget.check(&spent, Some(dollars("0.06145"))).unwrap_err().to_string();
        assert_eq!(
            message,
            "the budget for this user and day is $5; $5 of it is spent and the next model call may cost up to $0.0615, \
             so it was not made. It is reset at 00:00 UTC; budget.per_user_day sets its size."
        );
    }

    #[test]
    fn unpriced_models_are_allowed_unless_refused() {
        let spent = Spent::default();
        let lax = Budget { per_run: Some(Decimal::ZERO), ..Budget::default() };
        assert_eq!(lax.check(&spent, None), Ok(()));
        let strict = Budget { refuse_unpriced: true, ..lax };
        assert_eq!(strict.check(&spent, None), Err(OverBudget::Unpriced));
        let unlimited = Budget { refuse_unpriced: true, ..Budget::default() };
        assert_eq!(unlimited.check(&spent, None), Ok(()));
    }

    proptest! {
        /// If every call costs at most the amount it was checked with, no budget is ever exceeded.
        #[test]
        fn checked_calls_never_exceed_a_budget(
            limits in proptest::array::uniform3(proptest::option::of(0_i64..2_000)),
            calls in prop::collection::vec((0_i64..500, 0_i64..=100), 0..40),
        ) {
            let cents = |cents: i64| Decimal::new(cents, 2);
            let [per_run, per_agentable, per_user_day] = limits.map(|limit| limit.map(cents));
            let budget = Budget { per_run, per_agentable, per_user_day, ..Budget::default() };
            let mut spent = Spent::default();
            for (most, percent) in calls {
                if budget.check(&spent, Some(cents(most))).is_err() {
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

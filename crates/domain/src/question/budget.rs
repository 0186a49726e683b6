//! Budget questions: whether a run whose budget is reached may spend more.
//!
//! The subject names the budget: `houston:budget:run`. A raise is nothing but its answer: the check of a budget that is
//! exceeded reads the answers and adds them ([`Raises`]).

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use super::{Choice, Question, QuestionState, one_of};
use crate::budget::{BudgetScope, OverBudget, Raises, rounded};
use crate::id::RunId;

/// The beginning of the subjects.
pub const PREFIX: &str = "houston:budget:";

/// The most that one answer adds, in US dollars: above it, a typing error is likely.
const MAX_RAISE: u32 = 10_000;

/// What a person answers; amounts are in US dollars.
///
/// ```json
/// {"decision": "raise", "amount": 2.5}
/// {"decision": "stop"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum BudgetAnswer {
    /// So much more may be spent.
    Raise {
        /// A number greater than 0.
        amount: Number,
    },
    /// The run ends.
    Stop {},
}

impl BudgetAnswer {
    fn amount(&self) -> Option<Decimal> {
        let Self::Raise { amount } = self else { return None };
        let amount: Decimal = amount.to_string().parse().ok()?;
        (amount > Decimal::ZERO && amount <= Decimal::from(MAX_RAISE)).then_some(amount)
    }
}

/// The subject of the question about a budget.
pub fn subject(scope: BudgetScope) -> String {
    format!("{PREFIX}{}", scope.as_str())
}

/// The question's text.
pub fn question_text(over: &OverBudget) -> String {
    match over {
        OverBudget::Exceeded { scope, limit, spent, next } => format!(
            "The budget {} is ${limit}; ${} of it is spent, and the next model call may cost up to ${}. Spend more?",
            scope.in_words(),
            rounded(*spent),
            rounded(*next)
        ),
        OverBudget::Unpriced => over.to_string(),
    }
}

/// The JSON Schema of the answers. The default of `amount` is what is proposed: the amount of the budget once more, or what
/// the next call may cost if that is more.
pub fn answer_schema(over: &OverBudget) -> Value {
    let proposed = match over {
        OverBudget::Exceeded { limit, spent, next, .. } => {
            // At least what the call needs; a budget that was lowered meanwhile may be exceeded by more than itself.
            let needed = spent.saturating_add(*next).saturating_sub(*limit);
            rounded((*limit).max(needed)).min(Decimal::from(MAX_RAISE))
        }
        OverBudget::Unpriced => Decimal::ONE,
    };
    let proposed: Value = proposed.to_string().parse::<Number>().map_or(Value::Null, Value::Number);
    let amount = json!({
        "type": "number", "minimum": 0.0001, "maximum": MAX_RAISE, "default": proposed,
        "description": "US dollars that may be spent in addition"
    });
    let more = Choice::new("Spend more", "raise").with("amount", Some(&amount), true);
    one_of("decision", &[more, Choice::new("Stop", "stop")])
}

/// The amount that a schema of [`answer_schema`] proposes.
pub fn proposed(schema: &Value) -> Option<Number> {
    match schema.pointer("/oneOf/0/properties/amount/default")? {
        Value::Number(amount) => Some(amount.clone()),
        _ => None,
    }
}

impl Raises {
    /// The sum of the answers to the budget questions of an agentable, as far as they hold for the run.
    pub fn of(run: RunId, questions: &[(RunId, Question)]) -> Self {
        let mut raises = Self::default();
        for (of, question) in questions {
            let Some(amount) = raise(question) else { continue };
            let sum = match scope(question) {
                Some(BudgetScope::Agentable) => &mut raises.agentable,
                Some(BudgetScope::Run) if *of == run => &mut raises.run,
                Some(BudgetScope::UserDay) if *of == run => &mut raises.user_day,
                _ => continue,
            };
            *sum = sum.saturating_add(amount);
        }
        raises
    }
}

/// The budget that a question is about; `None` if it is about something else.
pub fn scope(question: &Question) -> Option<BudgetScope> {
    BudgetScope::from_name(question.asked.subject.as_deref()?.strip_prefix(PREFIX)?)
}

/// Whether a question ends its run: a person said stop, or no answer came in time.
pub fn ends_run(question: &Question) -> bool {
    match question.state {
        QuestionState::Answered => raise(question).is_none(),
        QuestionState::Expired => true,
        QuestionState::Open | QuestionState::Superseded | QuestionState::Cancelled => false,
    }
}

fn raise(question: &Question) -> Option<Decimal> {
    if question.state != QuestionState::Answered {
        return None;
    }
    BudgetAnswer::deserialize(question.answer.as_ref()?).ok()?.amount()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::budget::{Budget, Spent};
    use crate::id::QuestionId;
    use crate::question::schema::check;
    use crate::question::{NewQuestion, QuestionKind};

    const RUN: RunId = RunId(uuid::Uuid::from_u128(1));
    const OTHER: RunId = RunId(uuid::Uuid::from_u128(2));

    fn dollars(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    fn over() -> OverBudget {
        let budget = Budget { per_run: Some(dollars("2")), ..Budget::default() };
        let spent = Spent { run: Some(dollars("1.9")), ..Spent::default() };
        budget.check(&spent, Some(dollars("0.25"))).unwrap_err()
    }

    fn question(scope: BudgetScope, state: QuestionState, answer: Value) -> Question {
        Question {
            asked: NewQuestion {
                id: QuestionId(uuid::Uuid::nil()),
                kind: QuestionKind::Budget,
                subject: Some(subject(scope)),
                text: question_text(&over()),
                schema: Some(answer_schema(&over())),
                default_value: None,
                expires_at: None,
                approval: None,
                message_id: None,
            },
            state,
            answer: Some(answer),
            answered_by: None,
            created_at: DateTime::UNIX_EPOCH,
            closed_at: None,
        }
    }

    #[test]
    fn question_says_what_is_spent_and_proposes_an_amount() {
        let text = question_text(&over());
        assert_eq!(
            text,
            "The budget for this run is $2; $1.9 of it is spent, and the next model call may cost up to $0.25. Spend more?"
        );
        let schema = answer_schema(&over());
        let amount = proposed(&schema).unwrap();
        assert_eq!(amount.to_string(), "2");
        assert_eq!(check(&schema, &json!({"decision": "raise", "amount": amount})), Ok(()));
        assert_eq!(check(&schema, &json!({"decision": "stop"})), Ok(()));
        for wrong in [
            json!({"decision": "raise"}),
            json!({"decision": "raise", "amount": 0}),
            json!({"decision": "raise", "amount": 1_000_000}),
            json!({"decision": "raise", "amount": "2"}),
            json!({"decision": "continue"}),
        ] {
            assert!(check(&schema, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn raises_of_a_run_hold_for_it_and_of_an_agentable_for_all() {
        use BudgetScope::{Agentable, Run, UserDay};
        let raise = |scope, amount: f64| {
            question(scope, QuestionState::Answered, json!({"decision": "raise", "amount": amount}))
        };
        let questions = [
            (RUN, raise(Run, 2.5)),
            (RUN, raise(Run, 0.1)),
            (OTHER, raise(Run, 100.0)),
            (OTHER, raise(Agentable, 3.0)),
            (RUN, raise(UserDay, 4.0)),
            (OTHER, raise(UserDay, 100.0)),
            (RUN, question(Run, QuestionState::Superseded, json!({"decision": "raise", "amount": 9}))),
        ];
        let raises = Raises::of(RUN, &questions);
        assert_eq!(
            (raises.run, raises.agentable, raises.user_day),
            (dollars("2.6"), dollars("3"), dollars("4"))
        );
        let budget = Budget { per_run: Some(dollars("2")), ..Budget::default() }.raised(&raises);
        assert_eq!((budget.per_run, budget.per_agentable), (Some(dollars("4.6")), None));
    }

    #[test]
    fn stop_expiry_and_nonsense_end_the_run() {
        let ends = |state, answer| ends_run(&question(BudgetScope::Run, state, answer));
        assert!(ends(QuestionState::Answered, json!({"decision": "stop"})));
        assert!(ends(QuestionState::Answered, json!({"decision": "raise", "amount": -1})));
        assert!(ends(QuestionState::Expired, Value::Null));
        assert!(!ends(QuestionState::Answered, json!({"decision": "raise", "amount": 1})));
        assert!(!ends(QuestionState::Open, Value::Null));
        assert!(!ends(QuestionState::Superseded, Value::Null));
    }
}

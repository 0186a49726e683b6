//! A model for Houston's own work (summaries, titles): one request and one answer, priced and bounded in time.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::budget::{Budget, OverBudget, Spent};
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelErrorCode, StopReason};
use houston_domain::storable::storable;
use houston_llm::{AnswerSchema, Image, Ledger, MISMATCH, Model, Request, SystemPart, call, metered, tokens};
use rust_decimal::Decimal;
use serde_json::Value;

use crate::setup::Prices;

/// The model of a use case, with its prices.
#[derive(Clone)]
pub(crate) struct SideModel {
    model: Arc<dyn Model>,
    prices: Prices,
}

/// A request to a side model.
pub(crate) struct Question<'q> {
    /// The system prompt.
    pub(crate) instructions: &'q str,
    /// The text to work on.
    pub(crate) text: String,
    /// Tokens the answer may have.
    pub(crate) max_output_tokens: u32,
    /// Time-out of the call.
    pub(crate) within: Duration,
    /// The schema of the answer, if it must be JSON.
    pub(crate) schema: Option<&'q Value>,
    /// An image that the question is about.
    pub(crate) image: Option<Image<'q>>,
}

/// Whether an answer was cut off at its limit.
pub(crate) struct Cut(pub(crate) bool);

/// An answer of a side model.
pub(crate) struct Answered {
    /// The text: not empty, without characters that Postgres cannot store. JSON, if the question has a schema.
    pub(crate) text: String,
    pub(crate) cut: Cut,
    /// The model that answered, as `provider/model`.
    pub(crate) model: String,
    /// What the answer cost, where its caller knows that.
    pub(crate) cost: Option<Decimal>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The call might exceed a budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The call failed.
    #[error(transparent)]
    Failed(#[from] ModelError),
    /// The answer is empty or a refusal.
    #[error("the answer is empty or a refusal")]
    Empty,
    /// The answer does not match the schema, also when asked for again.
    #[error("the answer does not match the schema")]
    Invalid,
}

impl SideModel {
    /// The model of a use case; the simulated one does no work of Houston's.
    pub(crate) fn of_use_case(model: &Arc<dyn Model>) -> Option<Self> {
        (!model.description().simulated).then(|| Self::new(Arc::clone(model)))
    }

    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        let model = metered(model);
        let prices = Prices::of(&*model);
        Self { model, prices }
    }

    /// Calls the model, unless that might exceed the budget. `budget` are the limits and what is spent. What the call uses is in
    /// `ledger` once it has ended, also if this future is dropped.
    ///
    /// # Errors
    /// [`NoAnswer`]: the call might exceed the budget, failed, or was answered with nothing usable.
    pub(crate) async fn ask(
        &self,
        question: Question<'_>,
        budget: (&Budget, &Spent),
        now: DateTime<Utc>,
        ledger: &Ledger,
    ) -> Result<Answered, NoAnswer> {
        let system = [SystemPart { text: question.instructions.to_owned(), cached: true }];
        let entries = [Entry::user(vec![Block::text(question.text)])];
        let request = Request {
            system: &system,
            entries: &entries,
            max_output_tokens: question.max_output_tokens,
            answer_schema: question.schema.map(|schema| AnswerSchema {
                name: "answer",
                schema,
                strict: true,
            }),
            image: question.image,
            ledger: Some(ledger),
            ..Request::default()
        };
        let (limits, spent) = budget;
        if limits.is_set() {
            let sent = tokens::of_request(&request, &self.model.description().provider);
            let next = self.prices.max_cost(sent, question.max_output_tokens, now, limits.refuse_unpriced);
            limits.check(spent, next)?;
        }
        let answer = match tokio::time::timeout(question.within, call(&*self.model, &request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.message.contains(MISMATCH) => return Err(NoAnswer::Invalid),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                let error = ModelError::new(ModelErrorCode::Timeout, "the model did not answer in time");
                return Err(error.into());
            }
        };
        let mut text = match &answer.value {
            Some(value) => value.to_string(),
            None => answer.text.trim().to_owned(),
        };
        storable(&mut text);
        if text.is_empty() || answer.stop == StopReason::Refusal {
            return Err(NoAnswer::Empty);
        }
        let (model, cut) = (answer.model.to_string(), Cut(answer.stop == StopReason::MaxTokens));
        Ok(Answered { text, cut, model, cost: None })
    }

    /// The most that an answer to the question may cost, in US dollars; `more`: tokens besides those of its texts.
    pub(crate) fn max_cost(
        &self,
        question: &Question<'_>,
        more: u64,
        now: DateTime<Utc>,
        all: bool,
    ) -> Option<Decimal> {
        let entries = [Entry::user(vec![Block::text(question.text.clone())])];
        let system = [SystemPart { text: question.instructions.to_owned(), cached: true }];
        let schema = question.schema.map(|schema| AnswerSchema { name: "answer", schema, strict: true });
        let request =
            Request { system: &system, entries: &entries, answer_schema: schema, ..Request::default() };
        let sent = tokens::of_request(&request, &self.model.description().provider).saturating_add(more);
        self.prices.max_cost(sent, question.max_output_tokens, now, all)
    }

    /// The model that is asked first, as `provider/model`.
    pub(crate) fn name(&self) -> String {
        self.model.description().to_string()
    }
}

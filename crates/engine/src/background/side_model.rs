//! A model for Houston's own work (summaries, titles): one request and one answer, priced and bounded in time.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::agent::budget::{Budget, OverBudget, Spent};
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelErrorCode, StopReason};
use houston_domain::step::ModelCall;
use houston_domain::storable::storable;
use houston_llm::{Model, Request, SystemPart, call, tokens};

use crate::setup::prices::Prices;

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
}

/// An answer of a side model.
pub(crate) struct Answered {
    /// The text: not empty, without characters that Postgres cannot store.
    pub(crate) text: String,
    /// The call, for the run's costs; its iteration is 0.
    pub(crate) call: ModelCall,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The model is the simulated one.
    #[error("the model is simulated")]
    Simulated,
    /// The call might exceed a budget.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The call failed.
    #[error(transparent)]
    Failed(#[from] ModelError),
    /// The answer is empty or a refusal. Contains the call, for its costs.
    #[error("the answer is empty or a refusal")]
    Empty(Box<ModelCall>),
}

impl SideModel {
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        let prices = Prices::of(&*model);
        Self { model, prices }
    }

    /// Calls the model, unless that might exceed the budget. `budget` are the limits and what is spent.
    ///
    /// # Errors
    /// [`NoAnswer`]: the model is simulated, over budget, failed, or answered nothing usable.
    pub(crate) async fn ask(
        &self,
        question: Question<'_>,
        budget: (&Budget, &Spent),
        now: DateTime<Utc>,
    ) -> Result<Answered, NoAnswer> {
        if self.model.description().simulated {
            return Err(NoAnswer::Simulated);
        }
        let system = [SystemPart { text: question.instructions.to_owned(), cached: true }];
        let entries = [Entry::user(vec![Block::text(question.text)])];
        let request = Request {
            system: &system,
            entries: &entries,
            max_output_tokens: question.max_output_tokens,
            ..Request::default()
        };
        let (limits, spent) = budget;
        if limits.is_set() {
            let sent = tokens::of_request(&request, &self.model.description().provider);
            let next = self.prices.max_cost(sent, question.max_output_tokens, now, limits.refuse_unpriced);
            limits.check(spent, next)?;
        }
        let answer = tokio::time::timeout(question.within, call(&*self.model, &request))
            .await
            .map_err(|_| ModelError::new(ModelErrorCode::Timeout, "the model did not answer in time"))??;
        let mut usage = answer.usage;
        let reported = self.prices.apply(&answer.model, &mut usage, now);
        let call = ModelCall {
            provider: answer.model.provider.clone(),
            model: answer.model.model.clone(),
            iteration: 0,
            usage,
            reported,
        };
        let mut text = answer.text.trim().to_owned();
        storable(&mut text);
        if text.is_empty() || answer.stop == StopReason::Refusal {
            return Err(NoAnswer::Empty(Box::new(call)));
        }
        Ok(Answered { text, call })
    }
}

impl Answered {
    /// The model that answered, as `provider/model`.
    pub(crate) fn model(&self) -> String {
        format!("{}/{}", self.call.provider, self.call.model)
    }

    /// The call, assigned to an iteration.
    pub(crate) fn in_iteration(self, number: u32) -> ModelCall {
        ModelCall { iteration: number, ..self.call }
    }
}

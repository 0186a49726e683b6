//! A model for a chore of Houston's own: one question, one answer, counted and bounded in time.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::agent::budget::{Budget, OverBudget, Spent};
use houston_domain::history::{Block, Entry};
use houston_domain::model::{ModelError, ModelErrorCode, StopReason};
use houston_domain::storable::storable;
use houston_llm::{Model, Request, SystemPart, call, tokens};
use houston_store::cost::ModelCall;

use crate::spending::Prices;

/// One use case's model and what it costs.
#[derive(Clone)]
pub(crate) struct SideModel {
    model: Arc<dyn Model>,
    prices: Prices,
}

/// What it is asked.
pub(crate) struct Question<'q> {
    /// What it is to do.
    pub(crate) instructions: &'q str,
    /// With what.
    pub(crate) text: String,
    /// Tokens of the answer.
    pub(crate) max_output_tokens: u32,
    /// How long it has.
    pub(crate) within: Duration,
}

/// What it answered.
pub(crate) struct Answered {
    /// The text, not empty, as Postgres takes it.
    pub(crate) text: String,
    /// The call, to be counted; its iteration is 0.
    pub(crate) call: ModelCall,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// Nobody thinks behind the model.
    #[error("the model is simulated")]
    Simulated,
    /// It might cost more than may be spent.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// It failed.
    #[error(transparent)]
    Failed(#[from] ModelError),
    /// It answered, and nothing that can be used; the call, to be counted.
    #[error("it said nothing")]
    Nothing(Box<ModelCall>),
}

impl SideModel {
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        let prices = Prices::of(&*model);
        Self { model, prices }
    }

    /// Asks, unless that might break the `budget` of which so much is `spent`.
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
            let next = self.prices.next(sent, question.max_output_tokens, now, limits.refuse_unpriced);
            limits.judge(spent, next)?;
        }
        let answer = tokio::time::timeout(question.within, call(&*self.model, &request))
            .await
            .map_err(|_| ModelError::new(ModelErrorCode::Timeout, "it did not answer in time"))??;
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
            return Err(NoAnswer::Nothing(Box::new(call)));
        }
        Ok(Answered { text, call })
    }
}

impl Answered {
    /// Who answered, as `provider/model`.
    pub(crate) fn model(&self) -> String {
        format!("{}/{}", self.call.provider, self.call.model)
    }

    /// The call as one of the iteration `number`.
    pub(crate) fn in_iteration(self, number: u32) -> ModelCall {
        ModelCall { iteration: number, ..self.call }
    }
}

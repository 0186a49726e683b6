//! A model for Houston's own work (summaries, titles): one request and one answer, priced and bounded in time.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use houston_domain::budget::{Budget, OverBudget, Spent};
use houston_domain::history::{Block, Entry};
use houston_domain::id::{AgentableId, Ids, RunId, WriteId};
use houston_domain::model::{ModelError, ModelErrorCode, StopReason};
use houston_domain::step::ModelCall;
use houston_domain::storable::storable;
use houston_llm::{AnswerSchema, Image, Ledger, MISMATCH, Model, Request, SystemPart, call, metered, tokens};
use houston_store::RunStore;
use rust_decimal::Decimal;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

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
    pub(crate) system: SystemPart,
    /// The text to work on.
    pub(crate) entry: Entry,
    /// Tokens the answer may have.
    pub(crate) max_output_tokens: u32,
    /// Time-out of the call.
    pub(crate) within: Duration,
    /// The schema of the answer, if it must be JSON.
    pub(crate) schema: Option<&'q Value>,
    /// An image that the question is about.
    pub(crate) image: Option<Image<'q>>,
}

impl<'q> Question<'q> {
    /// A question about a text, which is to be answered with up to so many tokens within this time.
    pub(crate) fn new(instructions: &str, text: String, max_output_tokens: u32, within: Duration) -> Self {
        let system = SystemPart { text: instructions.to_owned(), cached: true };
        let entry = Entry::user(vec![Block::text(text)]);
        Self { system, entry, max_output_tokens, within, schema: None, image: None }
    }

    fn request(&self) -> Request<'_> {
        let schema = |schema| AnswerSchema { name: "answer", schema, strict: true };
        Request {
            system: std::slice::from_ref(&self.system),
            entries: std::slice::from_ref(&self.entry),
            max_output_tokens: self.max_output_tokens,
            answer_schema: self.schema.map(schema),
            image: self.image,
            ..Request::default()
        }
    }
}

/// An answer of a side model.
pub(crate) struct Answered {
    /// The text: not empty, without characters that Postgres cannot store. JSON, if the question has a schema.
    pub(crate) text: String,
    /// Whether it was cut off at its limit.
    pub(crate) is_cut: bool,
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
        let (limits, spent) = budget;
        if limits.is_set() {
            limits.check(spent, self.max_cost(&question, 0, now, limits.refuse_unpriced))?;
        }
        let request = Request { ledger: Some(ledger), ..question.request() };
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
        let is_cut = answer.stop == StopReason::MaxTokens;
        Ok(Answered { text, is_cut, model: answer.model.to_string(), cost: None })
    }

    /// The most that an answer to the question may cost, in US dollars; `more`: tokens besides those of its texts.
    pub(crate) fn max_cost(
        &self,
        question: &Question<'_>,
        more: u64,
        now: DateTime<Utc>,
        all: bool,
    ) -> Option<Decimal> {
        let sent = tokens::of_request(&question.request(), &self.model.description().provider);
        self.prices.max_cost(sent.saturating_add(more), question.max_output_tokens, now, all)
    }

    /// The model that is asked first, as `provider/model`.
    pub(crate) fn name(&self) -> String {
        self.model.description().to_string()
    }
}

/// Asks the model of a use case for texts that no run waits for.
pub(crate) struct Writer {
    pub(crate) store: RunStore,
    pub(crate) ids: Arc<Ids>,
    pub(crate) budget: Budget,
    pub(crate) model: Option<SideModel>,
}

/// What became of a question of a [`Writer`].
pub(crate) struct Written {
    /// `None`: nothing was asked. Without what was spent, which Postgres knows, no call is made.
    pub(crate) answered: houston_store::Result<Option<Result<Answered, NoAnswer>>>,
    /// The calls that it took, which are to be counted.
    pub(crate) calls: Vec<(WriteId, ModelCall)>,
}

impl Writer {
    /// Asks the model, if there is one, about an agentable: for a run, or a session, by whose id no run is found. `None`: `stop` was
    /// cancelled. What the model has begun is counted then.
    ///
    /// # Errors
    /// [`houston_store::Error`] when that cannot be counted.
    pub(crate) async fn ask(
        &self,
        (agentable, run): (AgentableId, RunId),
        question: Option<Question<'_>>,
        stop: &CancellationToken,
    ) -> houston_store::Result<Option<Written>> {
        let ledger = Ledger::default();
        let answered = stop.run_until_cancelled(self.answer((agentable, run), question, &ledger)).await;
        let now = self.ids.clock().now();
        let calls = ledger.take().into_iter().map(|used| (self.ids.beside(agentable), used.call(0, now)));
        let calls: Vec<_> = calls.collect();
        match answered {
            Some(answered) => Ok(Some(Written { answered, calls })),
            None => self.store.count_calls(agentable, run.0, &calls).await.map(|_| None),
        }
    }

    async fn answer(
        &self,
        (agentable, run): (AgentableId, RunId),
        question: Option<Question<'_>>,
        ledger: &Ledger,
    ) -> houston_store::Result<Option<Result<Answered, NoAnswer>>> {
        let Some((model, question)) = self.model.as_ref().zip(question) else { return Ok(None) };
        let spent = match self.budget.is_set() {
            true => self.store.spent(agentable, run).await?,
            false => Spent::default(),
        };
        let budget = (&self.budget, &spent);
        Ok(Some(Box::pin(model.ask(question, budget, self.ids.clock().now(), ledger)).await))
    }
}

//! Costs: the price of an answer, and whether a budget allows the next call.

use chrono::{DateTime, Utc};
use houston_domain::agent::budget::{BUDGET_EXCEEDED, OverBudget};
use houston_domain::error_message::{ErrorMessage, user_text};
use houston_domain::event::Event;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::step::ModelCall;
use houston_domain::step::{Ending, RunTransition};
use houston_domain::tool_call::ToolResponse;
use houston_llm::{Description, Model, Price};
use rust_decimal::Decimal;

use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::failure::show_error;
use crate::run_driver::RunDriver;

/// Safety margin on estimated input tokens, in percent: see `houston_llm::context_budget`.
const RESERVE_PERCENT: u64 = 10;

/// The models that may answer, each with its price if known.
#[derive(Debug, Clone)]
pub struct Prices(Vec<(Description, Option<Price>)>);

impl Prices {
    /// The prices of `model` and its fallbacks.
    pub(crate) fn of(model: &dyn Model) -> Self {
        let priced = |one: &Description| (one.clone(), Price::find(&one.provider, &one.model));
        Self(model.candidates().into_iter().map(priced).collect())
    }

    fn of_answering(&self, answering: &Description) -> Option<&Price> {
        self.0.iter().find(|(one, _)| one == answering)?.1.as_ref()
    }

    /// Writes the cost of an answer by `answering` into its `usage`, and returns whether the provider reported it. An
    /// implausible report is ignored. The cost of an answer without token counts is unknown (`None`).
    pub(crate) fn apply(&self, answering: &Description, usage: &mut Usage, at: DateTime<Utc>) -> bool {
        usage.cost = usage.cost.filter(Usage::is_plausible_cost);
        let reported = usage.cost.is_some();
        if !reported && usage.input_tokens.saturating_add(usage.output_tokens) > 0 {
            usage.cost = self.of_answering(answering).and_then(|price| price.cost(usage, at));
        }
        usage.billed = None;
        reported
    }

    /// The most that a call may cost, in US dollars: with about `tokens` of input and up to `answer` tokens of output. With
    /// `all`, `None` unless the price of each model that may answer is known.
    pub(crate) fn max_cost(&self, tokens: u64, answer: u32, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let plain = Usage {
            input_tokens: tokens.saturating_add(tokens / 100 * RESERVE_PERCENT),
            output_tokens: u64::from(answer),
            ..Usage::default()
        };
        // Writing to the provider's cache may cost more than plain input.
        let written = Usage { cache_write_tokens: plain.input_tokens, ..plain };
        self.highest_cost(&plain, at, all).max(self.highest_cost(&written, at, all))
    }

    /// What the most expensive model takes for `usage`; with `all`, `None` unless each price is known.
    fn highest_cost(&self, usage: &Usage, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let costs = || self.0.iter().map(|(_, price)| price.as_ref().and_then(|price| price.cost(usage, at)));
        if all && costs().any(|cost| cost.is_none()) {
            return None;
        }
        costs().flatten().max()
    }
}

impl RunDriver<'_> {
    /// The cost of an answer, as the provider reported it or else by the price table. Also written into `usage`.
    pub(crate) fn price(&self, usage: &mut Usage) -> ModelCall {
        self.price_with(&self.setup.prices, &self.answering, usage)
    }

    /// Adds a model call to the run's tokens and cost.
    pub(crate) fn add_usage(&mut self, usage: Usage) {
        self.unpriced_calls += i32::from(usage.cost.is_none());
        self.usage += usage;
    }

    /// [`Self::price`] with the prices of another model than the run's own.
    pub(crate) fn price_with(
        &self,
        prices: &Prices,
        description: &Description,
        usage: &mut Usage,
    ) -> ModelCall {
        let reported = prices.apply(description, usage, self.now());
        ModelCall {
            provider: description.provider.clone(),
            model: description.model.clone(),
            iteration: self.open_step,
            usage: *usage,
            reported,
        }
    }

    /// Checks the next call, which sends about `tokens`, against the budgets. Returns the budget it might exceed.
    pub(crate) async fn check_budget(&self, tokens: u64) -> Result<Option<OverBudget>, Interrupted> {
        let budget = self.engine.config.budget;
        if !budget.is_set() {
            return Ok(None);
        }
        let (agentable, run) = (self.claimed.fence.agentable, self.claimed.run);
        let spent = self.retrying(|store| Box::pin(async move { store.spent(agentable, run).await })).await?;
        let answer = self.setup.policy.limits.max_output_tokens;
        let next = self.setup.prices.max_cost(tokens, answer, self.now(), budget.refuse_unpriced);
        Ok(budget.check(&spent, next).err())
    }

    /// Ends the run before a call that might exceed a budget. It is not retried, because the call would cost the same.
    pub(crate) async fn stop_for_budget(&mut self, over: &OverBudget) -> Result<DriveOutcome, Interrupted> {
        tracing::info!(run = %self.claimed.run, %over, "the run ends: its budget is reached");
        self.stop_with(BUDGET_EXCEEDED, over.to_string()).await
    }

    /// Ends the run as failed, without a retry. `text` is the run's error for operators; the user reads [`user_text`].
    pub(crate) async fn stop_with(&mut self, code: &str, text: String) -> Result<DriveOutcome, Interrupted> {
        let status = RunStatus::Failed;
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        show_error(&mut step, &ErrorMessage::permanent(self.claimed.run, code, user_text(code)));
        let code = Some(code.to_owned());
        step.transition = RunTransition::Terminate {
            event: Event::RunFinished {
                status,
                iteration: Some(self.open_step),
                usage: self.total_usage(),
                message: Some(text.clone()),
                code: code.clone(),
            },
            ending: Ending {
                status,
                next_run: self.engine.ids.next(),
                error_code: code,
                error_message: Some(text),
            },
        };
        self.commit(step).await?;
        Ok(DriveOutcome::Ended(status))
    }
}

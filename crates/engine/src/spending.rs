//! Money: what an answer cost, and whether the next one may be paid for.

use chrono::{DateTime, Utc};
use houston_domain::agent::budget::{BUDGET_EXCEEDED, OverBudget};
use houston_domain::error_message::{ErrorMessage, user_text};
use houston_domain::event::Event;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolResponse;
use houston_llm::{Description, Model, Price};
use houston_store::cost::ModelCall;
use houston_store::step::{Ending, RunTransition};
use rust_decimal::Decimal;

use crate::context::RunDriver;
use crate::drive::DriveOutcome;
use crate::error::Interrupted;
use crate::failure::show;

/// Of what is estimated to be sent, so much more is reckoned with, in percent: see `houston_llm::context_budget`.
const RESERVE_PERCENT: u64 = 10;

/// What the models cost that may answer, if anybody knows.
#[derive(Debug, Clone)]
pub struct Prices(Vec<(Description, Option<Price>)>);

impl Prices {
    /// Of everyone `model` stands for.
    pub(crate) fn of(model: &dyn Model) -> Self {
        let priced = |one: &Description| (one.clone(), Price::find(&one.provider, &one.model));
        Self(model.candidates().into_iter().map(priced).collect())
    }

    fn of_answering(&self, answering: &Description) -> Option<&Price> {
        self.0.iter().find(|(one, _)| one == answering)?.1.as_ref()
    }

    /// Writes what an answer of `answering` cost into its `usage`, and returns whether the provider itself reported it.
    /// A report that no call can have is not believed. The cost of an answer without any count of tokens is not known.
    pub(crate) fn apply(&self, answering: &Description, usage: &mut Usage, at: DateTime<Utc>) -> bool {
        usage.cost = usage.cost.filter(Usage::is_plausible_cost);
        let reported = usage.cost.is_some();
        if !reported && usage.input_tokens.saturating_add(usage.output_tokens) > 0 {
            usage.cost = self.of_answering(answering).and_then(|price| price.cost(usage, at));
        }
        usage.billed = None;
        reported
    }

    /// The most that a call may cost which sends about `tokens` and is answered with `answer` at most; with `all`,
    /// `None` unless the price of each who may answer is known.
    pub(crate) fn next(&self, tokens: u64, answer: u32, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let plain = Usage {
            input_tokens: tokens.saturating_add(tokens / 100 * RESERVE_PERCENT),
            output_tokens: u64::from(answer),
            ..Usage::default()
        };
        // What goes into a cache may cost more.
        let written = Usage { cache_write_tokens: plain.input_tokens, ..plain };
        self.most(&plain, at, all).max(self.most(&written, at, all))
    }

    /// What the dearest of them takes for `usage`; with `all`, `None` unless the price of each is known.
    fn most(&self, usage: &Usage, at: DateTime<Utc>, all: bool) -> Option<Decimal> {
        let costs = || self.0.iter().map(|(_, price)| price.as_ref().and_then(|price| price.cost(usage, at)));
        if all && costs().any(|cost| cost.is_none()) {
            return None;
        }
        costs().flatten().max()
    }
}

impl RunDriver<'_> {
    /// What an answer cost: what the provider says, else what its list says; `usage` is told.
    pub(crate) fn price(&self, usage: &mut Usage) -> ModelCall {
        self.priced(&self.setup.prices, &self.answering, usage)
    }

    /// Adds a model call to what the run used.
    pub(crate) fn count(&mut self, usage: Usage) {
        self.unpriced_calls += i32::from(usage.cost.is_none());
        self.usage += usage;
    }

    /// The same of an answer by one of those whose prices these are.
    pub(crate) fn priced(&self, prices: &Prices, description: &Description, usage: &mut Usage) -> ModelCall {
        let reported = prices.apply(description, usage, self.now());
        ModelCall {
            provider: description.provider.clone(),
            model: description.model.clone(),
            iteration: self.open_step,
            usage: *usage,
            reported,
        }
    }

    /// Whether the next call may be made, by all that was spent up to now.
    /// `tokens` is how many it sends, about.
    pub(crate) async fn judge_budget(&self, tokens: u64) -> Result<Option<OverBudget>, Interrupted> {
        let budget = self.engine.config.budget;
        if !budget.is_set() {
            return Ok(None);
        }
        let (agentable, run) = (self.claimed.fence.agentable, self.claimed.run);
        let spent = self.retrying(|store| Box::pin(async move { store.spent(agentable, run).await })).await?;
        let answer = self.setup.policy.limits.max_output_tokens;
        let next = self.setup.prices.next(tokens, answer, self.now(), budget.refuse_unpriced);
        Ok(budget.judge(&spent, next).err())
    }

    /// Ends the run before the call that might break a budget. It is not tried again: nothing would be cheaper.
    pub(crate) async fn stop_for_budget(&mut self, over: &OverBudget) -> Result<DriveOutcome, Interrupted> {
        tracing::info!(run = %self.claimed.run, %over, "a budget ends the run");
        self.stop_with(BUDGET_EXCEEDED, over.to_string()).await
    }

    /// Ends the run as failed, for good. `text` is the run's error, for operators; its user reads what [`user_text`] says.
    pub(crate) async fn stop_with(&mut self, code: &str, text: String) -> Result<DriveOutcome, Interrupted> {
        let status = RunStatus::Failed;
        let mut step = self.step(Usage::default(), RunTransition::Continue { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        show(&mut step, &ErrorMessage::permanent(self.claimed.run, code, user_text(code)));
        let code = Some(code.to_owned());
        step.transition = RunTransition::Terminate {
            event: Event::RunFinished {
                status,
                iteration: Some(self.open_step),
                usage: self.spent_usage(),
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

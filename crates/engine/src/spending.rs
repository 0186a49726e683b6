//! Money: what an answer cost, and whether the next one may be paid for.

use houston_domain::agent::budget::{BUDGET_EXCEEDED, OverBudget};
use houston_domain::error_message::ErrorMessage;
use houston_domain::event::Event;
use houston_domain::model::Usage;
use houston_domain::run::RunStatus;
use houston_domain::tool_call::ToolResponse;
use houston_llm::Request;
use houston_store::cost::ModelCall;
use houston_store::step::{Ending, Then};
use serde::Serialize;

use crate::context::Driving;
use crate::drive::Driven;
use crate::error::Halt;
use crate::failure::show;

/// What providers add to a request that has tools, in tokens: 695 were measured at Anthropic, 75 at most elsewhere.
const TOOLS_OVERHEAD: u64 = 700;
/// Bytes of JSON a token stands for at the least, measured over prose, code and tables.
const BYTES_PER_TOKEN: u64 = 2;

/// Where a request's tokens are known to: the last one's, as its provider counted them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    /// History entries, the answer among them.
    entries: usize,
    tokens: u64,
}

impl Driving<'_> {
    /// What an answer cost: what the provider says, else what its list says; `usage` is told. Of an answer that says
    /// nothing of its tokens nobody knows.
    pub(crate) fn price(&self, usage: &mut Usage) -> ModelCall {
        let reported = usage.cost.is_some();
        if !reported && usage.input_tokens + usage.output_tokens > 0 {
            usage.cost = self.setup.price.as_ref().and_then(|price| price.cost(usage, self.now()));
        }
        let description = self.setup.model.description();
        ModelCall {
            provider: description.provider.clone(),
            model: description.model.clone(),
            iteration: self.open_step,
            usage: *usage,
            reported,
        }
    }

    /// Remembers how many tokens the conversation has, once the answer is part of it.
    pub(crate) fn count_conversation(&mut self, usage: &Usage) {
        if usage.input_tokens > 0 {
            let tokens = usage.input_tokens + usage.output_tokens;
            self.counted = Some(Counted { entries: self.run.history().len(), tokens });
        }
    }

    /// Whether the next call may be made, by all that was spent up to now.
    pub(crate) async fn judge_budget(&self, request: &Request<'_>) -> Result<Option<OverBudget>, Halt> {
        let budget = self.engine.config.budget;
        if !budget.is_set() {
            return Ok(None);
        }
        let (agentable, run) = (self.claimed.fence.agentable, self.claimed.run);
        let spent = self.retrying(|store| Box::pin(async move { store.spent(agentable, run).await })).await?;
        let most = Usage {
            input_tokens: self.most_input(request),
            output_tokens: u64::from(request.max_output_tokens),
            ..Usage::default()
        };
        let next = self.setup.price.as_ref().and_then(|price| price.cost(&most, self.now()));
        Ok(budget.judge(&spent, next).err())
    }

    /// Tokens a request has at most: what the provider counted of it before, and a generous guess of the rest.
    fn most_input(&self, request: &Request<'_>) -> u64 {
        match self.counted {
            Some(counted) if counted.entries <= request.entries.len() => {
                counted.tokens + guessed(&request.entries[counted.entries..])
            }
            _ => {
                let system: usize = request.system.iter().map(|part| part.text.len()).sum();
                let tools: usize = request
                    .tools
                    .iter()
                    .map(|tool| tool.name.len() + tool.description.len() + length(&tool.input_schema))
                    .sum();
                let overhead = if request.tools.is_empty() { 0 } else { TOOLS_OVERHEAD };
                tokens(system + tools) + overhead + guessed(request.entries)
            }
        }
    }

    /// Ends the run before the call that might break a budget. It is not tried again: nothing would be cheaper.
    pub(crate) async fn stop_for_budget(&mut self, over: &OverBudget) -> Result<Driven, Halt> {
        tracing::info!(run = %self.claimed.run, %over, "a budget ends the run");
        let (status, text) = (RunStatus::Failed, over.to_string());
        let mut step = self.step(Usage::default(), Then::GoOn { read: false, event: None });
        step.entries.extend(self.run.on_end(status, Vec::new(), &ToolResponse::outcome_unknown()));
        show(&mut step, &ErrorMessage::permanent(self.claimed.run, BUDGET_EXCEEDED, &text));
        let code = Some(BUDGET_EXCEEDED.to_owned());
        step.then = Then::End {
            event: Event::RunFinished {
                status,
                iteration: Some(self.open_step),
                usage: self.usage,
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
        Ok(Driven::Ended(status))
    }
}

fn guessed(entries: &[impl Serialize]) -> u64 {
    tokens(entries.iter().map(length).sum())
}

/// Bytes of it as JSON.
fn length(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

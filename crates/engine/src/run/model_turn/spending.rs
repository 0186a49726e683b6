//! Costs: the price of an answer, and whether a budget allows the next call.

use houston_domain::agent::budget::OverBudget;
use houston_domain::model::Usage;
use houston_domain::question::budget::Raises;
use houston_domain::step::ModelCall;
use houston_llm::Description;

use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Setup;
use crate::setup::prices::Prices;

/// The cost of an answer, as the provider reported it or else by `prices`. Also written into `usage`.
pub(crate) fn price<S: RunStorage>(
    journal: &Journal<'_, S>,
    prices: &Prices,
    answering: &Description,
    usage: &mut Usage,
) -> ModelCall {
    let reported = prices.apply(answering, usage, journal.now());
    ModelCall {
        provider: answering.provider.clone(),
        model: answering.model.clone(),
        iteration: journal.open_iteration,
        usage: *usage,
        reported,
    }
}

/// Checks the next call, which sends about `tokens`, against the budgets and what people have added to them. Returns the budget it might exceed.
///
/// # Errors
/// As [`Journal::retrying`].
pub(crate) async fn check_budget<S: RunStorage>(
    journal: &Journal<'_, S>,
    setup: &Setup,
    tokens: u64,
    raises: &Raises,
) -> Result<Option<OverBudget>, Interrupted> {
    let budget = journal.services.config.budget.raised(raises);
    if !budget.is_set() {
        return Ok(None);
    }
    let (agentable, run) = (journal.agentable(), journal.run());
    let spent = journal.retrying(|storage| storage.spent(agentable, run)).await?;
    let answer = setup.policy.limits.max_output_tokens;
    let next = setup.prices.max_cost(tokens, answer, journal.now(), budget.refuse_unpriced);
    Ok(budget.check(&spent, next).err())
}

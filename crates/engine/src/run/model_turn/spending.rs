//! Whether a budget allows the next call.

use houston_domain::agent::budget::{BudgetScope, OverBudget};
use houston_domain::question::budget::Raises;
use rust_decimal::Decimal;

use crate::error::Interrupted;
use crate::run::journal::Journal;
use crate::run::storage::RunStorage;
use crate::setup::Setup;

/// What a check of the budgets has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CheckedBudget {
    /// The budget that the next call might exceed.
    pub(crate) over: Option<OverBudget>,
    /// The budget that is nearly spent, and its limit.
    pub(crate) nearly: Option<(BudgetScope, Decimal)>,
}

/// Checks the next call, which sends about `tokens` and may receive `answer`, against the budgets and what people have added to them.
///
/// # Errors
/// As [`Journal::retrying`].
pub(crate) async fn check_budget<S: RunStorage>(
    journal: &Journal<'_, S>,
    setup: &Setup,
    (tokens, answer): (u64, u32),
    raises: &Raises,
) -> Result<CheckedBudget, Interrupted> {
    let budget = journal.services.config.budget.raised(raises);
    if !budget.is_set() {
        return Ok(CheckedBudget::default());
    }
    let (agentable, run) = (journal.agentable(), journal.run());
    let spent = journal.retrying(|storage| storage.spent(agentable, run)).await?;
    let next = setup.prices.max_cost(tokens, answer, journal.now(), budget.refuse_unpriced);
    let nearly = budget.nearly_spent(&spent, journal.services.config.overseer.budget.warn_percent);
    let over = budget.check(&spent, next).err();
    if over.is_some() {
        journal.services.metrics.models.over_budget.inc();
    }
    Ok(CheckedBudget { over, nearly })
}

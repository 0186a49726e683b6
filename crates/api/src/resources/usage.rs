//! `GET /v1/usage`: what the ended runs of the tenant took, by user, agent, model and day.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use houston_domain::id::UserId;
use houston_protocol::usage::{AgentSpent, Budgets, DaySpent, ModelSpent, Spent, UsageResponse, UserSpent};
use houston_store::usage::{MOST_ROWS, Of};

use crate::request::prelude::*;
use crate::request::query::Window;

endpoints! {
    get "/v1/usage" for TENANT.all(Scope::Operate) => get,
    "get_usage" in "operate": "Get what runs took: tokens and cost, by user, agent, model and day.",
    description = "Of the latest 20,000 runs of the installation that have ended; `capped` if there are more in this time. What open runs have \
                   taken so far is not among it. `GET /v1/users/{id}/costs` has the days of one user without a limit.",
    params(("hours" = Option<u32>, Query, minimum = 1, maximum = 744, description = "Only runs that ended within so many hours; 24 by default.")),
    200 "What they took, the most expensive first." [UsageResponse];
}

async fn get(ctx: Ctx, Query(window): Query<Window>) -> Result<impl IntoResponse> {
    let (window_h, window) = window.hours()?;
    let ask = |cell: Arc<App>| async move { Ok(cell.store(ctx.caller).usage(window).await?) };
    let (found, missing) = across(&ctx, ask).await?;
    let (mut spent, mut capped) = (BTreeMap::new(), false);
    for usage in found {
        capped |= usage.is_capped;
        for (of, more) in usage.spent {
            add(spent.entry(of).or_default(), &more);
        }
    }
    let mut usage = response(window_h, capped, spent);
    if !ctx.caller.reads_contents() {
        usage.users.iter_mut().for_each(|of| of.name.clear());
    }
    let budget = ctx.state.budget;
    usage.budgets = Budgets {
        per_run: budget.per_run,
        per_agentable: budget.per_agentable,
        per_user_day: budget.per_user_day,
    };
    let users: Vec<UserId> = usage.users.iter().map(|of| of.user_id).collect();
    let users = &users;
    let ask = |cell: Arc<App>| async move { Ok(cell.store(ctx.caller).spent_today(users).await?) };
    let (today, missing_since) = across(&ctx, ask).await?;
    for (user, cost) in today.into_iter().flatten() {
        if let Some(of) = usage.users.iter_mut().find(|of| of.user_id == user) {
            of.today = Some((of.today.unwrap_or_default() + cost).normalize());
        }
    }
    let missing = if missing_since.0.len() > missing.0.len() { missing_since } else { missing };
    Ok((missing, Json(usage)))
}

/// Adds what the runs of a cell took. The cost stays a number here, 0 without any price.
fn add(sum: &mut Spent, of: &Spent) {
    sum.runs += of.runs;
    sum.model_calls += of.model_calls;
    sum.input_tokens += of.input_tokens;
    sum.output_tokens += of.output_tokens;
    sum.cache_read_tokens += of.cache_read_tokens;
    sum.unpriced_calls += of.unpriced_calls;
    sum.cost = Some(sum.cost.unwrap_or_default() + of.cost.unwrap_or_default());
}

fn response(window_h: u32, capped: bool, spent: BTreeMap<Of, Spent>) -> UsageResponse {
    let mut usage = UsageResponse {
        window_h,
        total: Spent::default(),
        users: Vec::new(),
        agents: Vec::new(),
        models: Vec::new(),
        days: Vec::new(),
        budgets: Budgets::default(),
        capped,
    };
    let mut all: Vec<_> = spent.into_iter().collect();
    all.sort_by_key(|(_, spent)| Reverse((spent.cost, spent.input_tokens)));
    for (of, mut spent) in all {
        // A sum of 0 with calls that have no price is unknown, not free.
        spent.cost = spent.cost.filter(|cost| spent.unpriced_calls == 0 || !cost.is_zero());
        spent.cost = spent.cost.map(|cost| cost.normalize());
        match of {
            Of::Tenant => usage.total = spent,
            Of::User(user_id, name) => usage.users.push(UserSpent { user_id, name, today: None, spent }),
            Of::Agent(kind, agent) => {
                let (agent_id, name) = agent.unzip();
                usage.agents.push(AgentSpent { kind, agent_id, name, spent });
            }
            Of::Model(model) => usage.models.push(ModelSpent { model, spent }),
            Of::Day(day) => usage.days.push(DaySpent { day, spent }),
        }
    }
    let most = usize::try_from(MOST_ROWS).unwrap_or(usize::MAX);
    usage.users.truncate(most);
    usage.agents.truncate(most);
    usage.models.truncate(most);
    usage.days.sort_by_key(|of| of.day);
    usage
}

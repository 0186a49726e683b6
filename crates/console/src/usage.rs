//! Who and what spent how much.

use askama::Template;
use houston_domain::scope::Scope;
use houston_protocol::usage::{Spent, UsageResponse};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;
use serde::Deserialize;

use crate::chart::Chart;
use crate::failure::{Answer, html};
use crate::query::Query;
use crate::shell::{Shell, USAGE};
use crate::show::{self, Choice, Fact, fact, with_query};
use crate::viewer::Viewer;

/// Windows to choose: hours, and their name.
const WINDOWS: [(&str, &str); 4] = [("1", "hour"), ("24", "24 hours"), ("168", "7 days"), ("720", "30 days")];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Window {
    hours: String,
}

#[derive(Template)]
#[template(path = "usage.html")]
struct Usage<'u> {
    shell: Shell,
    windows: Vec<Choice>,
    capped: bool,
    total: Vec<Fact>,
    /// Of the installation.
    budgets: Vec<Fact>,
    groups: Vec<Group<'u>>,
    chart: Chart,
}

/// Rows of one kind: users, agents, models or days.
struct Group<'u> {
    title: &'static str,
    of: &'static str,
    order: &'static str,
    rows: Vec<Row<'u>>,
}

struct Row<'u> {
    name: String,
    /// What its budget of the day has left; empty: it has none.
    budget: String,
    tone: &'static str,
    /// Its page; empty: it has none.
    href: String,
    runs_href: String,
    /// Its part of the cost of all rows, for a bar: `42.0%`.
    share: String,
    spent: &'u Spent,
}

/// `GET {prefix}/usage`.
pub(crate) async fn show(viewer: Viewer, Query(Window { hours }): Query<Window>) -> Answer {
    let hours = if hours.is_empty() { "24".to_owned() } else { hours };
    let usage: UsageResponse = viewer.api.get(&with_query("/v1/usage", &[("hours", &hours)])).await?;
    let here = viewer.path("/usage");
    let choice = |(value, name): (&'static str, &'static str)| Choice {
        href: with_query(&here, &[("hours", value)]),
        name: name.to_owned(),
        current: hours == value,
    };
    // One day is no course.
    let days = if usage.days.len() > 1 { usage.days.as_slice() } else { &[] };
    let chart = Chart::of_costs(days.iter().map(|of| (of.day, of.spent.cost)));
    let shell = viewer.shell(USAGE, "Usage");
    let (total, budgets) = (&usage.total, &usage.budgets);
    let limit = |of: Option<Decimal>| of.map_or_else(|| "no limit".to_owned(), |of| show::dollars(Some(of)));
    Ok(html(&Usage {
        shell: if chart.x.is_empty() { shell } else { shell.with_charts() },
        windows: WINDOWS.into_iter().map(choice).collect(),
        capped: usage.capped,
        total: vec![
            fact("Cost", cost(total)),
            fact("Runs", show::count(total.runs)),
            fact("Model calls", show::count(total.model_calls)),
            fact("Input tokens", show::count(total.input_tokens)),
            fact("From the cache", cached(total)),
            fact("Output tokens", show::count(total.output_tokens)),
        ],
        budgets: vec![
            fact("A run", limit(budgets.per_run)),
            fact("A thread, all its runs", limit(budgets.per_agentable)),
            fact("A user, one day (UTC)", limit(budgets.per_user_day)),
        ],
        groups: groups(&viewer, &usage),
        chart,
    }))
}

/// What a user has spent of today's budget, and how it looks.
fn of_today(today: Option<Decimal>, limit: Option<Decimal>) -> (String, &'static str) {
    let Some(limit) = limit else { return (String::new(), "") };
    let today = today.unwrap_or_default();
    let tone = match today {
        today if today >= limit => "bad",
        today if today * Decimal::from(5) >= limit * Decimal::from(4) => "warn",
        _ => "good",
    };
    (format!("{} of {} today", show::dollars(Some(today)), show::dollars(Some(limit))), tone)
}

fn groups<'u>(viewer: &Viewer, usage: &'u UsageResponse) -> Vec<Group<'u>> {
    let runs = |term: String| with_query(&viewer.path("/runs"), &[("q", &term)]);
    let all = &usage.total;
    let may = viewer.may(Scope::Operate);
    let users = usage.users.iter().map(|of| {
        let (budget, tone) = of_today(of.today, usage.budgets.per_user_day);
        let name = if of.name.is_empty() { of.user_id.to_string() } else { show::line(&of.name, 80) };
        let href = viewer.path(&format!("/users/{}", of.user_id));
        let runs_href = if may { runs(format!("user:{}", of.user_id)) } else { String::new() };
        Row { budget, tone, href, runs_href, ..row(name, &of.spent, all) }
    });
    let agents = usage.agents.iter().map(|of| {
        let name = of.name.as_deref().filter(|_| of.agent_id.is_some());
        let name = name.map_or_else(|| format!("default of {}", of.kind), |name| show::line(name, 80));
        let term = of.agent_id.map_or_else(|| format!("kind:{}", of.kind), |agent| format!("agent:{agent}"));
        Row { runs_href: runs(term), ..row(name, &of.spent, all) }
    });
    let models = usage.models.iter().map(|of| row(of.model.clone(), &of.spent, all));
    let order = "the most expensive first";
    vec![
        Group { title: "Users", of: "User", order, rows: users.collect() },
        Group { title: "Agents", of: "Agent", order, rows: agents.collect() },
        Group { title: "Models", of: "Model", order, rows: models.collect() },
        Group { title: "Days", of: "Day (UTC)", order: "the newest first", rows: days(usage) },
    ]
}

/// What the chart shows, in figures: days with runs.
fn days(usage: &UsageResponse) -> Vec<Row<'_>> {
    usage.days.iter().rev().map(|of| row(of.day.to_string(), &of.spent, &usage.total)).collect()
}

fn row<'u>(name: String, of: &'u Spent, all: &Spent) -> Row<'u> {
    let part =
        |cost: f64| cost / all.cost.and_then(|all| all.to_f64()).filter(|all| *all > 0.0).unwrap_or(1.0);
    let share = of.cost.and_then(|cost| cost.to_f64()).map_or(0.0, part).clamp(0.0, 1.0);
    Row {
        name,
        budget: String::new(),
        tone: "",
        href: String::new(),
        runs_href: String::new(),
        share: format!("{:.1}%", share * 100.0),
        spent: of,
    }
}

fn cost(of: &Spent) -> String {
    show::cost(of.cost, i32::try_from(of.unpriced_calls).unwrap_or(i32::MAX))
}

/// The share of the input that was read from the cache.
fn cached(of: &Spent) -> String {
    match of.input_tokens {
        0 => String::new(),
        input => format!("{} %", of.cache_read_tokens.saturating_mul(100) / input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(cost: &str, input_tokens: i64, cache_read_tokens: i64) -> Spent {
        Spent { cost: Some(cost.parse().unwrap()), input_tokens, cache_read_tokens, ..Spent::default() }
    }

    #[test]
    fn rows_have_their_share_of_the_cost() {
        let all = spent("4", 100, 25);
        let ada = spent("1", 100, 25);
        let of = row("Ada".to_owned(), &ada, &all);
        assert_eq!(
            (of.share.as_str(), cost(&ada).as_str(), cached(&ada).as_str()),
            ("25.0%", "$1.00", "25 %")
        );
        let nothing = spent("0", 0, 0);
        let free = row("Bob".to_owned(), &nothing, &nothing);
        assert_eq!((free.share.as_str(), cached(&nothing).as_str()), ("0.0%", ""));
    }

    #[test]
    fn budget_of_the_day_is_near_its_end_or_spent() {
        let of = |today: &str| of_today(Some(today.parse().unwrap()), Some("10".parse().unwrap()));
        assert_eq!(of("2.5"), ("$2.50 of $10.00 today".to_owned(), "good"));
        assert_eq!((of("8").1, of("10").1), ("warn", "bad"));
        assert_eq!(of_today(Some("2".parse().unwrap()), None), (String::new(), ""));
    }
}

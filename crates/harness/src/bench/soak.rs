//! A soak: so many messages in one go. Clients make a goal, send it some messages, and make the next one. What is compared
//! are tenths: a service that slows down, grows or leaves rows behind shows it.

use std::sync::Arc;

use anyhow::Result;
use futures_util::FutureExt as _;
use houston_testkit::console::print_status;

use super::load::{Meter, Spent, clients};
use super::report::{Report, Row, megabytes};
use super::setup::{GOALS_OF_A_USER, Replies, Setup};
use super::{Bench, workload};
use crate::proc;

/// Messages of a goal.
const OF_A_GOAL: usize = 10;
const CLIENTS: usize = 32;
const TENTHS: usize = 10;

/// What is seen at the end of a tenth. Dead rows are those of Houston's tables that vacuum has to remove.
const SEEN: [&str; 5] =
    ["  runs/s", "  CPU a run, ms", "  RSS, MB", "  connections of Postgres", "  dead rows"];

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let setup = bench.setup(Replies::Text).await?;
    let messages = bench.soak.unwrap_or(bench.size(1_000_000, 2_000));
    let goals = messages.div_ceil(TENTHS * OF_A_GOAL).max(1);
    // Not counted: connections are opened, statements are planned.
    converse(&setup, "soak: warming up", CLIENTS).await?;
    let mut tenths = Vec::with_capacity(TENTHS);
    for nth in 1..=TENTHS {
        let spent = converse(&setup, &format!("soak: tenth {nth}"), goals).await?;
        let runs = (goals * OF_A_GOAL) as f64;
        let seen = setup.servers().sql(
            "select (select count(*) from pg_stat_activity where backend_type = 'client backend'),
                    (select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'houston')",
        )?;
        let seen: Vec<f64> = seen.split('|').map(|field| field.trim().parse().unwrap_or(0.0)).collect();
        let of_postgres = |nth: usize| seen.get(nth).copied().unwrap_or_default();
        let (rate, rss) = (runs / spent.seconds, megabytes(proc::rss_of(&setup.houston)?));
        let cpu_ms = spent.of_service().as_secs_f64() * 1000.0 / runs;
        print_status(&format!("  {rate:.0} runs/s, RSS {rss:.1} MB"));
        tenths.push([rate, cpu_ms, rss, of_postgres(0), of_postgres(1)]);
    }
    setup.stop_and_check()?;
    let row = |(nth, what): (usize, &&str)| {
        Row::parts(format!("{what}, by tenth"), tenths.iter().map(|tenth| tenth[nth]).collect())
    };
    let ratio = tenths[TENTHS - 1][0] / tenths[1][0];
    let mut rows = vec![Row::of("runs/s of the last tenth / the second", ratio).at_least(0.95)];
    rows.extend(SEEN.iter().enumerate().map(row));
    Ok(Report {
        about: format!(
            "soak: {} messages, {OF_A_GOAL} of a goal, {CLIENTS} clients",
            goals * TENTHS * OF_A_GOAL
        ),
        rows,
    })
}

/// Makes so many goals, and sends the messages of each. Returns what that took, without the making of their users.
async fn converse(setup: &Setup, label: &str, goals: usize) -> Result<Spent> {
    let users = Arc::new(setup.connect().await?.users("bench", goals.div_ceil(GOALS_OF_A_USER)).await?);
    let meter = Meter::begin(setup)?;
    clients(setup.at(), CLIENTS, (label, goals), move |connection, nth| {
        let users = Arc::clone(&users);
        async move {
            let goal = connection.goal(&users[nth / GOALS_OF_A_USER], "bench").await?;
            for _ in 0..OF_A_GOAL {
                workload::run(connection, &goal).await?;
            }
            Ok(())
        }
        .boxed()
    })
    .await?;
    meter.end(setup)
}

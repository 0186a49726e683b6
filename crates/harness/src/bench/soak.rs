//! A soak: so many messages in one go. Clients make a goal, send it some messages, and make the next one. What is compared
//! are tenths: a service that slows down, grows or leaves rows behind shows it.

use std::sync::Arc;

use anyhow::Result;
use houston_testkit::console::print_status;

use super::Bench;
use super::load::{Job, Messages, Meter, clients};
use super::report::{Report, Row, megabytes};
use super::setup::{GOALS_OF_A_USER, Replies, Setup};
use crate::http::Connection;
use crate::proc;

/// Messages of a goal.
const OF_A_GOAL: usize = 10;
const CLIENTS: usize = 32;
const TENTHS: usize = 10;

/// What is seen at the end of a tenth.
struct Tenth {
    rate: f64,
    cpu_ms: f64,
    rss_mb: f64,
    /// Connections of Postgres.
    connections: f64,
    /// Rows of Houston's tables that vacuum has to remove.
    dead_rows: f64,
}

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let servers = bench.servers()?;
    let setup = Setup::start(bench.houston(), &servers, Replies::Text).await?;
    let goals = bench.messages.div_ceil(TENTHS * OF_A_GOAL).max(1);
    // Not counted: connections are opened, statements are planned.
    let few = Conversations::of(&setup, CLIENTS).await?;
    clients(&setup, CLIENTS, ("soak: warming up", CLIENTS), few).await?;
    let mut tenths = Vec::with_capacity(TENTHS);
    for nth in 1..=TENTHS {
        let job = Conversations::of(&setup, goals).await?;
        let meter = Meter::begin(&setup)?;
        clients(&setup, CLIENTS, (&format!("soak: tenth {nth}"), goals), job).await?;
        let spent = meter.end(&setup)?;
        let runs = (goals * OF_A_GOAL) as f64;
        let seen = servers.sql(
            "select (select count(*) from pg_stat_activity where backend_type = 'client backend'),
                    (select sum(n_dead_tup) from pg_stat_user_tables where schemaname = 'houston')",
        )?;
        let seen: Vec<f64> = seen.split('|').map(|field| field.trim().parse().unwrap_or(0.0)).collect();
        let tenth = Tenth {
            rate: runs / spent.seconds,
            cpu_ms: spent.cpu.sum().as_secs_f64() * 1000.0 / runs,
            rss_mb: megabytes(proc::rss_of(&setup.houston)?),
            connections: seen.first().copied().unwrap_or_default(),
            dead_rows: seen.get(1).copied().unwrap_or_default(),
        };
        print_status(&format!("  {:.0} runs/s, RSS {:.1} MB", tenth.rate, tenth.rss_mb));
        tenths.push(tenth);
    }
    setup.stop_and_check()?;
    let of = |value: fn(&Tenth) -> f64| tenths.iter().map(value).collect::<Vec<_>>();
    let row = |what: &str, value| Row::parts(format!("{what}, by tenth"), of(value));
    let [second, last] = [1, TENTHS - 1].map(|nth| tenths[nth].rate);
    Ok(Report {
        about: format!(
            "soak: {} messages, {OF_A_GOAL} of a goal, {CLIENTS} clients",
            goals * TENTHS * OF_A_GOAL
        ),
        rows: vec![
            Row::of("runs/s of the last tenth / the second", last / second).at_least(0.95),
            row("  runs/s", |tenth| tenth.rate),
            row("  CPU a run, ms", |tenth| tenth.cpu_ms),
            row("  RSS, MB", |tenth| tenth.rss_mb),
            row("  connections of Postgres", |tenth| tenth.connections),
            row("  dead rows", |tenth| tenth.dead_rows),
        ],
    })
}

/// The names of the tenths.
/// Makes a goal, and sends its messages.
#[derive(Clone)]
struct Conversations {
    messages: Messages,
    users: Arc<Vec<String>>,
}

impl Conversations {
    /// With the users of so many goals.
    async fn of(setup: &Setup<'_>, goals: usize) -> Result<Self> {
        let (mut connection, mut users) = (setup.connect().await?, Vec::new());
        for _ in 0..goals.div_ceil(GOALS_OF_A_USER) {
            users.push(connection.user("bench").await?);
        }
        let users = Arc::new(users);
        Ok(Self { messages: Messages::to(&users), users })
    }
}

impl Job<()> for Conversations {
    async fn carry_out(&self, connection: &mut Connection, nth: usize) -> Result<()> {
        let goal = connection.goal(&self.users[nth / GOALS_OF_A_USER], "bench").await?;
        for _ in 0..OF_A_GOAL {
            self.messages.send(connection, &goal).await?;
        }
        Ok(())
    }
}

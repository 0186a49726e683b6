//! A plan against the same work by the loop of the goal: time, input tokens, model calls, statements.
//!
//! Five cities are looked up side by side: a search, the page it found, a judgement; then there is one answer. The model
//! takes [`script::MODEL`] for each call, whatever it writes; the tools take [`script::SEARCH`] and [`script::PAGE`]. The
//! service is the example `chaos_tools`, which has a tool that takes a time and returns a text. After that, what a step costs
//! besides its work ([`steps`]).

mod script;
mod steps;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use houston_testkit::houston::Houston;
use houston_testkit::model_server::{JournalDetail, ModelServer};
use houston_testkit::servers::TestServers;
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use self::script::Way;
use self::steps::Steps;
use super::database::count;
use super::report::{self, Row};
use super::spread::{Spread, round};
use crate::http::Connection;
use crate::service::add_tools;
use houston_testkit::console::Progress;

/// How long the service is measured at rest.
const REST: Duration = Duration::from_secs(4);

/// The result.
#[derive(Debug, Serialize)]
pub(crate) struct Plans {
    rounds: usize,
    ways: Vec<Measured>,
    steps: Steps,
}

/// One way to do the work; means per message, except the time.
#[derive(Debug, Serialize)]
struct Measured {
    way: &'static str,
    done_ms: Spread,
    input_tokens: f64,
    model_calls: f64,
    /// Statements of Houston beyond those at rest.
    statements: f64,
}

/// What the model server counts.
#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    tokens: AtomicU64,
}

/// The service, its model and its servers.
struct Setup<'s> {
    houston: Houston,
    counts: Arc<Counts>,
    servers: &'s TestServers,
    _model: ModelServer,
    _folder: TempDir,
}

/// Does the work so often in each way.
pub(crate) async fn measure(program: &Path, servers: &TestServers, rounds: usize) -> Result<Plans> {
    let setup = Setup::start(program, servers).await?;
    let user = setup.connect().await?.user("bench").await?;
    // Not measured: connections are opened, statements are planned.
    for way in Way::ALL {
        setup.work(way, &user).await?;
    }
    let before = setup.statements()?;
    tokio::time::sleep(REST).await;
    let at_rest = (setup.statements()? - before) / REST.as_secs_f64();
    let mut ways = Vec::with_capacity(Way::ALL.len());
    for way in Way::ALL {
        let mut progress = Progress::new(&format!("plans: {}", way.name()), rounds as u64);
        let (counts, began) = (setup.counts(), Instant::now());
        let (before, mut times) = (setup.statements()?, Vec::with_capacity(rounds));
        for _ in 0..rounds {
            times.push(setup.work(way, &user).await?);
            progress.step();
        }
        let statements = setup.statements()? - before - at_rest * began.elapsed().as_secs_f64();
        let (calls, tokens) = setup.counts();
        let per_message = |amount: f64| round(amount / rounds as f64);
        ways.push(Measured {
            way: way.name(),
            done_ms: Spread::of(times),
            input_tokens: per_message((tokens - counts.1) as f64),
            model_calls: per_message((calls - counts.0) as f64),
            statements: per_message(statements),
        });
    }
    let failed = count(servers, "houston.runs where status not in ('completed', 'message_sent')")?;
    ensure!(failed == 0, "{failed} runs did not complete");
    let steps = count(servers, "houston.plan_steps where status <> 'succeeded'")?;
    ensure!(steps == 0, "{steps} steps of plans did not succeed");
    let size = match rounds {
        ..5 => steps::Size { alone: 2, beside: 40, waiting: 200 },
        _ => steps::Size { alone: 20, beside: 1000, waiting: 10_000 },
    };
    let steps = setup.steps(size).await?;
    Ok(Plans { rounds, ways, steps })
}

/// Settings of Postgres that count statements.
pub(crate) fn postgres_settings() -> Vec<String> {
    vec!["shared_preload_libraries=pg_stat_statements".to_owned()]
}

impl<'s> Setup<'s> {
    async fn start(program: &Path, servers: &'s TestServers) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("houston-plans-").tempdir()?;
        for kind in ["goal", "plan", "executor"] {
            add_tools(folder.path(), kind, &[script::SEARCHES, script::PAGES])?;
        }
        let counts = Arc::new(Counts::default());
        let counting = Arc::clone(&counts);
        let model = ModelServer::start(move |call| {
            let tokens = script::tokens(call);
            counting.calls.fetch_add(1, Ordering::Relaxed);
            counting.tokens.fetch_add(tokens, Ordering::Relaxed);
            script::reply(call).usage(tokens, script::OUTPUT).after(script::time(call))
        })
        .await?;
        model.journal().set_detail(JournalDetail::Counts);
        let here = folder.path().display().to_string();
        let houston = Houston::builder(program)
            .on([servers])
            .model("local/bench", &model)
            .set("HOUSTON_JOBS", here.clone())
            .set("CHAOS_LEDGERS", here)
            .start()?;
        servers.sql("create extension pg_stat_statements")?;
        Ok(Self { houston, counts, servers, _model: model, _folder: folder })
    }

    async fn connect(&self) -> Result<Connection> {
        Connection::to(&self.houston).await
    }

    /// Calls of the model so far, and their input tokens.
    fn counts(&self) -> (u64, u64) {
        (self.counts.calls.load(Ordering::Relaxed), self.counts.tokens.load(Ordering::Relaxed))
    }

    /// Statements of Houston so far.
    fn statements(&self) -> Result<f64> {
        let sum = "select coalesce(sum(calls), 0) from pg_stat_statements where query like '-- store::%'";
        Ok(self.servers.sql(sum)?.parse()?)
    }

    /// Does the work once, for a new goal: from the post to the end of its stream.
    async fn work(&self, way: Way, user: &str) -> Result<Duration> {
        let mut connection = self.connect().await?;
        let goal = connection.goal(user, "A trip").await?;
        let body = json!({ "content": way.message() }).to_string();
        let began = Instant::now();
        let accepted = connection.send_message(&goal, &body).await?;
        connection.events(&accepted.events_url).await?.read(|_| ()).await?;
        let time = began.elapsed();
        let id = goal.split_once('_').context("the goal has no id")?.1;
        let answers = format!(
            "houston.messages where agentable_id = '{id}' and source = 'agent' and content = '{}'",
            script::ANSWER
        );
        if count(self.servers, &answers)? != 1 {
            let thread = format!(
                "select source, message_type, content from houston.messages where agentable_id = '{id}' order by seq"
            );
            bail!("{}: the goal has not answered once:\n{}", way.name(), self.servers.sql(&thread)?);
        }
        Ok(time)
    }
}

impl Plans {
    /// The table of `--plan`.
    pub(crate) fn table(&self) -> String {
        let the_loop = self.ways.iter().find(|measured| measured.way == Way::Loop.name());
        let mut rows = Vec::new();
        for measured in &self.ways {
            let Measured { way, done_ms, input_tokens, model_calls, statements } = measured;
            rows.extend([
                Row::of(format!("{way}, ms p50 / p99"), format!("{done_ms:.0}")),
                Row::of("  input tokens", format!("{input_tokens:.0}")),
                Row::of("  model calls", format!("{model_calls:.0}")),
                Row::of("  statements", format!("{statements:.0}")),
            ]);
            let is_plan = [Way::Tools.name(), Way::Executors.name()].contains(way);
            if let Some(the_loop) = the_loop.filter(|_| is_plan) {
                let faster = the_loop.done_ms.p50 / done_ms.p50;
                let fewer = (1.0 - input_tokens / the_loop.input_tokens) * 100.0;
                rows.push(
                    Row::of("  faster than the loop", format!("{faster:.2} ×"))
                        .target("≥ 2.5 ×", faster >= 2.5),
                );
                rows.push(
                    Row::of("  fewer input tokens", format!("{fewer:.0} %")).target("≥ 50 %", fewer >= 50.0),
                );
            }
        }
        rows.extend(self.steps.rows());
        format!(
            "five cities looked up, {} times; the model takes {} ms a call, the tools {} and {} ms\n{}",
            self.rounds,
            script::MODEL.as_millis(),
            script::SEARCH,
            script::PAGE,
            report::table(&rows)
        )
    }
}

//! What a step of a plan costs besides its work: steps that do nothing, one after the other, on a service that does nothing
//! else; plans side by side as fast as they go; and plans that wait for people.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Setup, script};
use crate::bench::database::count;
use crate::bench::report::{Row, megabytes};
use crate::bench::spread::{Spread, round};
use crate::proc;
use crate::wait::wait_until;
use houston_testkit::console::{Progress, print_status};

/// Clients that post plans at the same time.
const CLIENTS: usize = 16;
/// Steps of a plan that is measured alone, and of one of those side by side.
const CHAIN: usize = 20;
const SHORT: usize = 5;
/// How long plans that wait are looked at.
const LOOK: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(300);

/// The size of the measurements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// Plans that run alone, one after the other.
    pub(super) alone: usize,
    /// Plans side by side.
    pub(super) beside: usize,
    /// Plans that wait.
    pub(super) waiting: usize,
}

/// The result.
#[derive(Debug, Serialize)]
pub(crate) struct Steps {
    /// From the start of a step to the start of the next one: the work, which is nothing, and one commit.
    inline_ms: Spread,
    /// The same of executors, whose model answers at once.
    executor_ms: Spread,
    plans_per_second: f64,
    /// Processor time of Houston and Postgres.
    cpu_ms_per_step: f64,
    waiting: usize,
    /// Growth of the process for each plan that waits, once it was posted.
    bytes_per_waiting: f64,
    /// The slowest of the background statements, and its mean time among the plans that wait.
    slowest: String,
    slowest_ms: f64,
}

impl Setup<'_> {
    /// Measures steps and plans of them.
    pub(super) async fn steps(&self, size: Size) -> Result<Steps> {
        let inline_ms = self.alone("inline steps", size.alone, &chain(CHAIN, inline)).await?;
        let executor_ms = self.alone("executors", size.alone, &chain(SHORT, executor)).await?;
        let (plans_per_second, cpu_ms_per_step) = self.beside(size.beside).await?;
        let (bytes_per_waiting, (slowest, slowest_ms)) = self.waiting(size.waiting).await?;
        let waiting = size.waiting;
        Ok(Steps {
            inline_ms,
            executor_ms,
            plans_per_second,
            cpu_ms_per_step,
            waiting,
            bytes_per_waiting,
            slowest,
            slowest_ms,
        })
    }

    /// Times between the starts of steps that follow each other.
    async fn alone(&self, name: &str, plans: usize, document: &Value) -> Result<Spread> {
        let mut connection = self.connect().await?;
        let user = connection.user("bench").await?;
        let mut progress = Progress::new(&format!("plans: {name} alone"), plans as u64);
        let mut times = Vec::new();
        for _ in 0..plans {
            let goal = connection.goal(&user, "Steps").await?;
            let path = format!("/v1/goals/{goal}/plans");
            let plan: Value =
                connection.post(&path, &json!({ "document": document }).to_string()).await?.json()?;
            self.until_ended().await?;
            let id = plan["id"].as_str().and_then(|id| id.split_once('_')).context("the plan has no id")?.1;
            let gaps = self.servers.sql(&format!(
                "select extract(epoch from started_at - lag(started_at) over (order by started_at, path))
                   from houston.plan_steps where plan_id = '{id}'"
            ))?;
            times.extend(gaps.lines().filter_map(|gap| gap.parse().ok()).map(Duration::from_secs_f64));
            progress.step();
        }
        Ok(Spread::of(times))
    }

    /// Plans per second, and processor time per step.
    async fn beside(&self, plans: usize) -> Result<(f64, f64)> {
        let goals = Arc::new(self.goals(plans).await?);
        let postgres = self.servers.postgres_pid().context("Postgres has no process id")?;
        let cpu = || anyhow::Ok(proc::cpu_of(&self.houston)? + proc::cpu(postgres)?);
        let (before, began) = (cpu()?, Instant::now());
        self.post(&goals, &chain(SHORT, inline)).await?;
        self.until_ended().await?;
        let (seconds, cpu) = (began.elapsed().as_secs_f64(), cpu()? - before);
        let steps = (plans * SHORT) as f64;
        Ok((round(plans as f64 / seconds), round(cpu.as_secs_f64() * 1000.0 / steps)))
    }

    /// What plans cost that wait for a person: memory, and the slowest statement of the background.
    async fn waiting(&self, plans: usize) -> Result<(f64, (String, f64))> {
        let goals = Arc::new(self.goals(plans).await?);
        let rest = proc::rss_of(&self.houston)?;
        let ask = json!({"id": "ask", "type": "input", "title": "Ask", "question": "Which one?"});
        let document = json!({"v": 1, "goal": "Ask a person", "steps": [ask]});
        self.post(&goals, &document).await?;
        let asking = "houston.plan_steps where status = 'asking'";
        let all_ask = async || Ok(count(self.servers, asking)? >= plans as u64);
        wait_until(PATIENCE, all_ask, || "not all plans came to wait".to_owned()).await?;
        print_status(&format!("plans: {plans} wait"));
        self.servers.sql("select pg_stat_statements_reset()")?;
        tokio::time::sleep(LOOK).await;
        let bytes = proc::rss_of(&self.houston)?.saturating_sub(rest) as f64 / plans as f64;
        let slowest = self.servers.sql(
            "select substring(query from '-- (store::[a-z_:]+)'), mean_exec_time
               from pg_stat_statements where query like '-- store::%' order by mean_exec_time desc limit 1",
        )?;
        let (name, ms) = slowest.trim().split_once('|').context("no statement ran")?;
        print_status(&format!("plans: the process has {:.1} MB", megabytes(proc::rss_of(&self.houston)?)));
        Ok((round(bytes), (name.to_owned(), round(ms.parse()?))))
    }

    /// Goals of several users: fairness limits how many runs of one user are at work at once.
    async fn goals(&self, goals: usize) -> Result<Vec<String>> {
        let mut connection = self.connect().await?;
        let (mut all, mut user) = (Vec::with_capacity(goals), String::new());
        let mut progress = Progress::new("creating goals", goals as u64);
        for nth in 0..goals {
            if nth % SHORT == 0 {
                user = connection.user("bench").await?;
            }
            all.push(connection.goal(&user, "Steps").await?);
            progress.step();
        }
        Ok(all)
    }

    /// Posts a plan for each goal.
    async fn post(&self, goals: &Arc<Vec<String>>, document: &Value) -> Result<()> {
        let (next, body) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(json!({ "document": document }).to_string()));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let mut connection = self.connect().await?;
            let (goals, next, body) = (Arc::clone(goals), Arc::clone(&next), Arc::clone(&body));
            clients.spawn(async move {
                while let Some(goal) = goals.get(next.fetch_add(1, Ordering::Relaxed)) {
                    connection.post(&format!("/v1/goals/{goal}/plans"), &body).await?.json::<Value>()?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(client) = clients.join_next().await {
            client??;
        }
        Ok(())
    }

    /// Waits until no plan is open.
    async fn until_ended(&self) -> Result<()> {
        let all_ended = async || Ok(count(self.servers, "houston.plans where ended_at is null")? == 0);
        wait_until(PATIENCE, all_ended, || "plans did not end".to_owned()).await
    }
}

/// Steps that follow each other.
fn chain(steps: usize, step: fn(usize) -> Value) -> Value {
    let steps: Vec<Value> = (0..steps)
        .map(|nth| {
            let mut step = step(nth);
            step["id"] = format!("s{nth}").into();
            if let Some(before) = nth.checked_sub(1) {
                step["after"] = json!([format!("s{before}")]);
            }
            step
        })
        .collect();
    json!({"v": 1, "goal": "Do nothing, step by step", "steps": steps})
}

fn inline(nth: usize) -> Value {
    json!({"type": "tool", "title": "Nothing", "tool": script::SEARCHES, "args": {"op": format!("nothing {nth}")}})
}

fn executor(nth: usize) -> Value {
    json!({"type": "task", "title": "Nothing", "tools": [script::SEARCHES],
           "instructions": format!("{}: {nth}", script::AT_ONCE)})
}

impl Steps {
    pub(super) fn rows(&self) -> [Row; 6] {
        let Self { inline_ms: inline, executor_ms: executor, plans_per_second, cpu_ms_per_step, .. } = self;
        [
            Row::of("inline step, one after the other, ms p50 / p99", inline.to_string())
                .target("≤ 5 / 12", inline.p50 <= 5.0 && inline.p99 <= 12.0),
            Row::of("executor beyond its model, ms p50 / p99", executor.to_string())
                .at_most(executor.p50, 20.0),
            Row::of(format!("plans of {SHORT} inline steps per second"), format!("{plans_per_second:.0}"))
                .at_least(*plans_per_second, 150.0),
            Row::of("  processor time per step, ms: Houston and Postgres", format!("{cpu_ms_per_step:.2}"))
                .at_most(*cpu_ms_per_step, 1.5),
            Row::of(
                format!("{} plans that wait, bytes of memory each", self.waiting),
                format!("{:.0}", self.bytes_per_waiting),
            ),
            Row::of(format!("  slowest statement ({}), ms", self.slowest), format!("{:.2}", self.slowest_ms))
                .at_most(self.slowest_ms, 10.0),
        ]
    }
}

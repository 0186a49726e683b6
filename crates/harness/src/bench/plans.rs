//! What plans cost besides their work: all steps call a tool that takes no time, or a model that answers at once. Alone,
//! one after the other: five steps side by side, a chain, a fan-out, and the longest chain that is allowed; then many plans
//! at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::FutureExt as _;
use houston_protocol::plan::PlanResponse;
use houston_testkit::console::Progress;
use serde_json::{Value, json};

use super::load::{Meter, clients};
use super::report::{Report, Row};
use super::setup::{Replies, Setup};
use super::{Bench, database};
use crate::http::Connection;
use crate::wait::wait_until;

/// Steps of a long plan.
const LONG: usize = 2_000;
/// Steps of a short plan, of a chain, and of a fan-out.
const SHORT: usize = 5;
const CHAIN: usize = 50;
const FAN_OUT: usize = 256;
/// Steps over which the mean cost of an early and of a late step is taken, and the first of the early ones.
const STRETCH: usize = 50;
const EARLY: usize = 10;
/// Clients that post plans at the same time.
const CLIENTS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(300);

/// Times of one plan that runs alone.
struct Alone {
    /// POST → accepted, and → the end of its stream.
    accepted: Duration,
    done: Duration,
    /// By Postgres' clock: stored → its first step, → the end of its last step, → its end.
    phases: [Duration; 3],
    /// When each of its steps began, in seconds, in order.
    begun: Vec<f64>,
}

pub(crate) async fn measure(bench: &Bench) -> Result<Report> {
    let many = bench.size(2_000, 60);
    let calls = (10 * LONG).to_string();
    let houston = bench.houston().set("HOUSTON_PLANS__STEPS_OF_REQUEST", LONG.to_string());
    let houston =
        houston.set("HOUSTON_PLANS__TOOL_CALLS", calls.clone()).set("HOUSTON_PLANS__MODEL_CALLS", calls);
    let setup = Setup::start(houston, vec![bench.servers()?], Replies::Tool).await?;
    let times = bench.size(30, 4);
    // Not counted: connections are opened, statements are planned.
    alone(&setup, times / 2, &side_by_side(SHORT)).await?;
    let short = alone(&setup, times, &side_by_side(SHORT)).await?;
    let chained = alone(&setup, times, &chain(CHAIN, call)).await?;
    let fanned = alone(&setup, times, &side_by_side(FAN_OUT)).await?;
    let long = alone(&setup, bench.size(5, 1), &chain(LONG, call)).await?;
    let asking = alone(&setup, bench.size(3, 1), &chain(LONG, question)).await?;

    let mut rows = Vec::new();
    rows.extend(of_alone(&format!("{SHORT} steps side by side"), 12.0, &short));
    rows.extend(of_alone(&format!("chain of {CHAIN}"), 50.0, &chained));
    rows.extend(of_alone(&format!("fan-out of {FAN_OUT}"), 120.0, &fanned));
    rows.extend(of_long(&long, &asking));
    rows.extend(at_once(&setup, many).await?);
    bench.print_statements(&setup)?;
    let failed = database::count(setup.servers(), "houston.plan_steps where status <> 'succeeded'")?;
    anyhow::ensure!(failed == 0, "{failed} steps of plans did not succeed");
    setup.stop_and_check()?;
    let about = format!("plans: {times} of each alone, then {many} of {SHORT} steps by {CLIENTS} clients");
    Ok(Report { about, rows })
}

/// Plans that run one after the other, for a new goal each.
async fn alone(setup: &Setup, plans: usize, document: &Value) -> Result<Vec<Alone>> {
    let goals = setup.goals(plans).await?;
    let steps = document["steps"].as_array().map_or(0, Vec::len);
    let mut progress = Progress::new(&format!("plans: {steps} steps alone"), plans as u64);
    let body = json!({ "document": document }).to_string();
    let mut times = Vec::with_capacity(plans);
    for goal in goals.iter() {
        let mut connection = setup.connect().await?;
        let posted = Instant::now();
        let plan = post(&mut connection, goal, &body).await?;
        let accepted = posted.elapsed();
        let stream = connection.events(&format!("/v1/plans/{}/events?after=0", plan.id)).await?;
        stream.read(|_| ()).await?;
        let done = posted.elapsed();
        // A goal answers when its plan has ended.
        setup.settle(PATIENCE).await?;
        let id = plan.id.split_once('_').context("the plan has no id")?.1;
        let rows = setup.servers().sql(&format!(
            "select extract(epoch from s.started_at), extract(epoch from s.ended_at),
                    extract(epoch from p.created_at), extract(epoch from p.ended_at)
               from houston.plans p join houston.plan_steps s on s.plan_id = p.agentable_id
              where p.agentable_id = '{id}' order by s.started_at"
        ))?;
        let rows = rows.lines().map(|row| row.split('|').map(str::parse).collect());
        let rows = rows.collect::<Result<Vec<Vec<f64>>, _>>()?;
        let first = rows.first().context("the plan has no steps")?;
        let ended = rows.iter().map(|row| row[1]).fold(0.0, f64::max);
        let phases = [first[0] - first[2], ended - first[0], first[3] - ended];
        let phases = phases.map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
        let begun = rows.iter().map(|row| row[0]).collect();
        times.push(Alone { accepted, done, phases, begun });
        progress.step();
    }
    Ok(times)
}

/// The rows of plans of one shape.
fn of_alone(what: &str, aim: f64, plans: &[Alone]) -> [Row; 5] {
    let row = |what: &str, time: fn(&Alone) -> Duration| Row::spread(what, plans.iter().map(time));
    [
        row(&format!("{what}: POST → done"), |plan| plan.done).at_most(&[aim]),
        row("  POST → accepted", |plan| plan.accepted),
        row("  stored → first step", |plan| plan.phases[0]),
        row("  first step → last one ended", |plan| plan.phases[1]),
        row("  last step → end of the plan", |plan| plan.phases[2]),
    ]
}

/// What a late step costs beside an early one: of steps that ask a model, since calls that take no time are all written in
/// one commit.
fn of_long(calling: &[Alone], asking: &[Alone]) -> [Row; 4] {
    let mean = |first: usize| {
        let stretch =
            |plan: &Alone| Some((plan.begun.get(first + STRETCH)? - plan.begun.get(first)?) * 1000.0);
        let taken: Vec<f64> = asking.iter().filter_map(stretch).collect();
        taken.iter().sum::<f64>() / (taken.len().max(1) * STRETCH) as f64
    };
    let (early, late) = (mean(EARLY), mean(LONG - STRETCH - 1));
    let whole = |what: &str, plans: &[Alone]| Row::spread(what, plans.iter().map(|plan| plan.done));
    [
        whole(&format!("chain of {LONG}: POST → done"), calling),
        whole(&format!("chain of {LONG} that ask a model"), asking),
        Row::parts(format!("  a step: from step {EARLY}, before step {LONG}, ms"), vec![early, late]),
        Row::of("  late / early", late / early.max(0.001)).at_most(&[1.1]),
    ]
}

/// Many plans at once.
async fn at_once(setup: &Setup, plans: usize) -> Result<Vec<Row>> {
    let goals = setup.goals(plans).await?;
    let body: Arc<str> = json!({ "document": chain(SHORT, call) }).to_string().into();
    let meter = Meter::begin(setup)?;
    clients(setup.at(), CLIENTS, ("plans: many at once", plans), move |connection, nth| {
        let (goals, body) = (Arc::clone(&goals), Arc::clone(&body));
        async move { post(connection, &goals[nth], &body).await }.boxed()
    })
    .await?;
    let all_ended =
        async || Ok(database::count(setup.servers(), "houston.plans where ended_at is null")? == 0);
    wait_until(PATIENCE, all_ended, || "plans did not end".to_owned()).await?;
    let spent = meter.end(setup)?;
    setup.settle(PATIENCE).await?;
    let [_, cpu_of_step, parts] = spent.rows("step", plans * SHORT);
    let [rate, ..] = spent.rows("plan", plans);
    let commits = spent.grown.commits as f64 / (plans * SHORT) as f64;
    Ok(vec![
        rate.titled(&format!("of {SHORT} steps, many at once")).at_least(500.0),
        cpu_of_step.at_most(&[0.5]),
        parts,
        Row::of("commits a step, with its share of the plan and of the goal's answer", commits),
    ])
}

async fn post(connection: &mut Connection, goal: &str, body: &str) -> Result<PlanResponse> {
    connection.post(&format!("/v1/goals/{goal}/plans"), body).await?.json()
}

/// Steps that wait for nothing.
fn side_by_side(steps: usize) -> Value {
    document((0..steps).map(call))
}

/// Steps that follow each other.
fn chain(steps: usize, step: fn(usize) -> Value) -> Value {
    document((0..steps).map(|nth| {
        let mut step = step(nth);
        if let Some(before) = nth.checked_sub(1) {
            step["after"] = json!([format!("s{before}")]);
        }
        step
    }))
}

fn question(nth: usize) -> Value {
    json!({"id": format!("s{nth}"), "type": "llm", "title": "Ask", "prompt": "What is the weather like?"})
}

fn call(nth: usize) -> Value {
    json!({"id": format!("s{nth}"), "type": "tool", "title": "Look", "tool": "get_current_time", "args": {}})
}

fn document(steps: impl Iterator<Item = Value>) -> Value {
    json!({"v": 1, "goal": "Look at the clock", "steps": steps.collect::<Vec<_>>()})
}

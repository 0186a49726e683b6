//! The test runner: lists its one test, runs the cases in parallel, prints a table.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::JoinSet;

use crate::case::{ACTIONS, CRASH_POINTS, Case};
use crate::environment::Environment;
use crate::{scenario, tools};

/// The name under which the cases are listed. The variable `CRASH_POINTS` selects cases: all if empty, none if not set.
const NAME: &str = "eighty_cases";
const ONLY: &str = "CRASH_POINTS";

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if arguments.first().is_some_and(|first| ["serve", "work", "migrate", "key"].contains(&first.as_str())) {
        return tools::houston();
    }
    if has("--list") {
        if !has("--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    let Some(only) = std::env::var_os(ONLY) else {
        println!("skipped: run `cargo xtask test --crash-points`");
        return ExitCode::SUCCESS;
    };
    let only = only.to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(Box::pin(all(&only)))
}

/// Runs the cases named by the words of `only`: `C7-pause` is one case, `C1` those of one crash point (not of `C10`), `pause`
/// those of one fault.
async fn all(only: &str) -> ExitCode {
    let selected = |case: &Case| {
        let name = case.name();
        let (point, action) = name.split_once('-').unwrap_or_default();
        only.split_whitespace().any(|word| [&name, point, action].contains(&word))
    };
    let mut cases: Vec<Case> =
        Case::all().into_iter().filter(|case| only.is_empty() || selected(case)).collect();
    assert!(!cases.is_empty(), "no case is called `{only}`");
    // The longest first, so that they do not delay the end.
    cases.sort_by_key(|case| std::cmp::Reverse(case.times().pause));
    let (began, environment) = (Instant::now(), Environment::prepare().await);
    let mut running = JoinSet::new();
    for case in cases {
        let environment = std::sync::Arc::clone(&environment);
        running.spawn(async move {
            let environment = environment.case_environment(&case.name()).await;
            let began = Instant::now();
            let result = AssertUnwindSafe(Box::pin(scenario::run(case, environment))).catch_unwind().await;
            let failed = result.err().map(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            });
            (case, began.elapsed(), failed)
        });
    }
    let mut results = BTreeMap::new();
    let mut failures = Vec::new();
    while let Some(done) = running.join_next().await {
        let (case, time, failed) = done.unwrap();
        results.insert(case.name(), (time, failed.is_none()));
        failures.extend(failed.map(|failed| format!("{}: {failed}", case.name())));
    }
    print(&results, began.elapsed());
    for failure in &failures {
        println!("FAILED {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(results: &BTreeMap<String, (Duration, bool)>, whole: Duration) {
    let head = ACTIONS.map(|action| format!("{:>12}", format!("{action:?}").to_lowercase()));
    println!("point{}", head.concat());
    for point in CRASH_POINTS {
        let cells = ACTIONS.map(|action| {
            let cell = match results.get(&Case { point, action }.name()) {
                Some((time, true)) => format!("ok {:.1} s", time.as_secs_f64()),
                Some((_, false)) => "FAILED".to_owned(),
                None => "–".to_owned(),
            };
            format!("{cell:>12}")
        });
        println!("{:<5}{}", format!("{point:?}"), cells.concat());
    }
    let passed = results.values().filter(|(_, passed)| *passed).count();
    println!("{passed} of {} cases, {:.0} s", results.len(), whole.as_secs_f64());
}

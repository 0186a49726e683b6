//! The runner: speaks with the test runner, plays the cases side by side, prints the table.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::JoinSet;

use crate::case::{Case, DEEDS, PLACES};
use crate::ground::Ground;
use crate::{scenario, tools};

/// The one test this program has for its runner; `CRASH_POINTS` says which cases it plays: all if it is empty,
/// none if it is not set.
const NAME: &str = "eighty_cases";
const ONLY: &str = "CRASH_POINTS";

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
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
        println!("left out: `cargo xtask test --crash-points` plays them");
        return ExitCode::SUCCESS;
    };
    let only = only.to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(Box::pin(all(&only)))
}

/// Plays the cases whose names begin with one of the words of `only`: `C1` is not `C10`.
async fn all(only: &str) -> ExitCode {
    let wanted = |case: &Case| {
        let name = case.name();
        only.split_whitespace().any(|word| name == word || name.starts_with(&format!("{word}-")))
    };
    let mut cases: Vec<Case> =
        Case::all().into_iter().filter(|case| only.is_empty() || wanted(case)).collect();
    assert!(!cases.is_empty(), "no case is called `{only}`");
    // The longest first, so that the end is not waited for.
    cases.sort_by_key(|case| std::cmp::Reverse(case.times().pause));
    let (began, ground) = (Instant::now(), Ground::prepare().await);
    let mut playing = JoinSet::new();
    for case in cases {
        let ground = std::sync::Arc::clone(&ground);
        playing.spawn(async move {
            let plot = ground.plot(&case.name()).await;
            let began = Instant::now();
            let played = AssertUnwindSafe(Box::pin(scenario::play(case, plot))).catch_unwind().await;
            let failed = played.err().map(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_default()
            });
            (case, began.elapsed(), failed)
        });
    }
    let mut played = BTreeMap::new();
    let mut failures = Vec::new();
    while let Some(done) = playing.join_next().await {
        let (case, time, failed) = done.unwrap();
        played.insert(case.name(), (time, failed.is_none()));
        failures.extend(failed.map(|failed| format!("{}: {failed}", case.name())));
    }
    print(&played, began.elapsed());
    for failure in &failures {
        println!("FAILED {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(played: &BTreeMap<String, (Duration, bool)>, whole: Duration) {
    let head = DEEDS.map(|deed| format!("{:>12}", format!("{deed:?}").to_lowercase()));
    println!("place{}", head.concat());
    for place in PLACES {
        let cells = DEEDS.map(|deed| {
            let cell = match played.get(&Case { place, deed }.name()) {
                Some((time, true)) => format!("ok {:.1} s", time.as_secs_f64()),
                Some((_, false)) => "FAILED".to_owned(),
                None => "–".to_owned(),
            };
            format!("{cell:>12}")
        });
        println!("{:<5}{}", format!("{place:?}"), cells.concat());
    }
    let passed = played.values().filter(|(_, passed)| *passed).count();
    println!("{passed} of {} cases, {:.0} s", played.len(), whole.as_secs_f64());
}

//! Measures the rules that judge messages and those of plans: `cargo xtask analysis`.
//!
//! It prints how the labelled messages are judged, and how long a message, a document and a step of the state machine take.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta};
use houston_domain::analysis::{Complexity, Vocabulary, analyse};
use houston_domain::plan::{Document, Given, MAX_STEPS, Offer, States, advance, succeed};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    messages()?;
    plans()
}

/// How long something took, so often.
fn timed<T>(times: usize, mut run: impl FnMut() -> T) -> Vec<Duration> {
    let once = |_| {
        let start = Instant::now();
        std::hint::black_box(run());
        start.elapsed()
    };
    (0..times).map(once).collect()
}

/// The times below which half and 99 % of them are.
fn quantiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() - 1) * share / 100).copied().unwrap_or_default();
    format!("p50 {:?}, p99 {:?} of {}", at(50), at(99), times.len())
}

fn messages() -> Result<(), Box<dyn Error>> {
    let text = include_str!("../src/analysis/messages.jsonl");
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (first, lines) = lines.split_first().ok_or("the file is empty")?;
    let words = |line: &Value| line["tools"].as_str().map(|tools| Vocabulary::new([tools]));
    let shared = words(first).ok_or("the first line has no tools")?;
    let mut counts: BTreeMap<(String, Complexity), usize> = BTreeMap::new();
    let mut times = Vec::new();
    for line in lines {
        let own = words(line);
        let vocabulary = own.as_ref().unwrap_or(&shared);
        let message = line["text"].as_str().unwrap_or_default();
        let label = line["label"].as_str().unwrap_or_default().to_owned();
        times.extend(timed(20, || analyse(message, vocabulary)));
        *counts.entry((label, analyse(message, vocabulary).0)).or_default() += 1;
    }
    println!("label     simple   tool complex");
    let all = [Complexity::Simple, Complexity::Tool, Complexity::Complex];
    for label in all {
        let count = |judged| counts.get(&(label.as_str().to_owned(), judged)).copied().unwrap_or_default();
        let [simple, tool, complex] = all.map(count);
        println!("{:<8} {simple:>7} {tool:>6} {complex:>7}", label.as_str());
    }
    println!("a message: {}", quantiles(times));
    let long = "Find three hotels and then book the best of them. ".repeat(2_000);
    println!("a message of 100,000 characters: {}", quantiles(timed(500, || analyse(&long, &shared))));
    Ok(())
}

fn plans() -> Result<(), Box<dyn Error>> {
    let step = |at: usize| {
        let before = if at == 0 { "input".to_owned() } else { format!("s{}.result", at / 2) };
        let before = if at == 1 { "s0.result".to_owned() } else { before };
        json!({"id": format!("s{at}"), "type": "tool", "tool": "search", "args": {"q": format!("{{{{ {before} }}}}"), "n": at}})
    };
    for steps in [100, MAX_STEPS] {
        plan(&(0..steps).map(step).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn plan(steps: &[Value]) -> Result<(), Box<dyn Error>> {
    let count = steps.len();
    let text = json!({"v": 1, "goal": "Measure", "steps": steps, "output": "{{ s99.result }}"}).to_string();
    let offer = Offer { tools: &["search"], steps: MAX_STEPS };
    let parse = || Document::parse(&text, offer).map_err(|problems| format!("{problems:?}"));
    let document = parse()?;
    println!("parsing {count} steps, {} bytes: {}", text.len(), quantiles(timed(50, parse)));
    let (now, input) = (DateTime::UNIX_EPOCH, Value::Null);
    let deadline = now + TimeDelta::days(1);
    let (paused, cancelled, may_replan) = (false, false, false);
    let given = Given { input: &input, now, paused, cancelled, deadline, may_replan, at_once: 5 };
    let mut times = Vec::new();
    for _ in 0..2_000 / count {
        let mut states = States::new();
        loop {
            let start = Instant::now();
            let next = advance(&document, &mut states, &given);
            times.push(start.elapsed());
            if next.end.is_some() {
                break;
            }
            for path in next.start {
                succeed(&mut states, &path, json!({"found": "x".repeat(1_000)}));
            }
        }
    }
    println!("a step of the state machine, {count} steps with results of 1 KB: {}", quantiles(times));
    Ok(())
}

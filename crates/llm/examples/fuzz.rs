//! Mutates example streams and checks the properties of decoding for a given time: `cargo run --release -p
//! houston-llm --features fuzzing --example fuzz -- --minutes 10 --seed 1 [file…]`. Files are added to the examples
//! of the wire whose name their path contains. A failure prints the seed and the input.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use houston_llm::Wire;
use houston_llm::fuzzing::{Mutator, WIRES, check, check_refusal, corpus};

fn main() -> ExitCode {
    let (mut minutes, mut seed, mut files) = (1.0, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--minutes" => minutes = value().parse().unwrap_or(minutes),
            "--seed" => seed = value().parse().unwrap_or(seed),
            _ => files.push(argument),
        }
    }
    let mut mutators: Vec<(Wire, Mutator)> =
        WIRES.iter().map(|wire| (*wire, Mutator::new(examples(*wire, &files), seed))).collect();
    let until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut counts: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    while Instant::now() < until {
        for (wire, mutator) in &mut mutators {
            let bytes = mutator.make();
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                check_refusal(&bytes);
                check(*wire, &bytes)
            }));
            let Ok((events, error)) = outcome else {
                eprintln!("{wire:?}, seed {seed}: fails on\n{}", String::from_utf8_lossy(&bytes));
                return ExitCode::FAILURE;
            };
            let count = counts.entry(format!("{wire:?}")).or_default();
            count[0] += 1;
            count[1] += u64::from(error.is_none());
            count[2] += events.len() as u64;
        }
    }
    for (wire, [inputs, answers, events]) in counts {
        println!("{wire}: {inputs} inputs, {answers} answers, {} errors, {events} events", inputs - answers);
    }
    ExitCode::SUCCESS
}

fn examples(wire: Wire, files: &[String]) -> Vec<Vec<u8>> {
    let name = serde_json::to_value(wire)
        .map_or_else(|_| String::new(), |name| name.as_str().unwrap_or("").to_owned());
    let others = files.iter().filter(|file| file.contains(&name)).filter_map(|file| std::fs::read(file).ok());
    corpus(wire).into_iter().chain(others).collect()
}

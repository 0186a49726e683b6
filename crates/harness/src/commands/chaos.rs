//! `cargo xtask chaos`: checks Houston's invariants while faults are injected.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use houston_faults::mutation::Mutation;

use crate::chaos::{self, Options};
use houston_testkit::console::{print, print_status};
use houston_testkit::{child, programs, repository};

/// The example with tools that record their executions.
const EXAMPLE: &str = "chaos_tools";
/// How long faults are injected into a mutated service; most violations are found within seconds.
const MUTATED: Duration = Duration::from_secs(240);
/// The same without the sweep, whose violations show only in the quiet phase afterwards.
const WITHOUT_SWEEP: Duration = Duration::from_secs(40);

/// Inject faults under load, and count messages, effects and events that are lost, doubled or out of order.
///
/// Exit codes: 0 clean, 1 violated, 3 invalid (fewer than 90 % of the planned faults were injected).
#[derive(Debug, Args)]
pub(crate) struct Chaos {
    /// How long faults are injected
    #[arg(long, default_value_t = 3.0)]
    minutes: f64,
    /// Determines the plan of faults and the actions of the clients
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of cells, each with a Postgres and a Redis of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    cells: u8,
    /// How many of a thousand messages make a plan of three to five steps
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(0..=1000))]
    plans: u64,
    /// The machine does other work meanwhile: recovery times are reported, but none is a violation
    #[arg(long)]
    busy: bool,
    /// Switch off a part of the protocol, as `houston_faults::mutation` explains: then a violation must be found
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Mutation>)]
    mutation: Option<Mutation>,
    /// The program to run, instead of building it: `target/debug/examples/chaos_tools`
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Switch off each part in turn; succeeds if each causes a violation
    #[arg(long, conflicts_with = "mutation")]
    mutations: bool,
    /// Go on without programs that are missing and cannot be installed; say what is skipped
    #[arg(long)]
    skip_missing: bool,
}

impl Chaos {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        ensure!(self.minutes > 0.0 && self.minutes < 600.0, "--minutes must be between 0 and 600");
        programs::or_skip(self.skip_missing, "a process with a wrong clock", programs::faketime().await)?;
        if self.mutations {
            return Box::pin(self.all_mutations()).await;
        }
        let program = build(self.program.as_deref()).await?;
        let report = Box::pin(chaos::run(&self.options(&program, self.mutation))).await?;
        print(&report.table())?;
        Ok(ExitCode::from(report.verdict().1))
    }

    fn options(&self, program: &Program, mutation: Option<Mutation>) -> Options {
        let time = match mutation {
            None => Duration::from_secs_f64(self.minutes * 60.0),
            Some(Mutation::Sweep) => WITHOUT_SWEEP,
            Some(_) => MUTATED,
        };
        let name =
            mutation.map_or_else(|| format!("seed-{}", self.seed), |mutation| mutation.as_str().to_owned());
        Options {
            cells: self.cells.into(),
            plans: self.plans,
            fault_rate: if mutation.is_some() { 2 } else { 1 },
            mutation: mutation.map(Mutation::as_str),
            // Slow recovery shows a slow machine, no missing part of the protocol.
            judges_times: !self.busy && mutation.is_none(),
            ..Options::new(&program.0, &name, self.seed, time)
        }
    }

    /// Tests the chaos test itself: each mutation must be detected.
    async fn all_mutations(&self) -> Result<ExitCode> {
        let program = build(self.program.as_deref()).await?;
        let (mut table, mut caught) = (String::new(), 0);
        for mutation in Mutation::ALL {
            print_status(&format!("without {}", mutation.as_str()));
            let began = Instant::now();
            let report = Box::pin(chaos::run(&self.options(&program, Some(mutation)))).await?;
            let is_caught = report.violations() > 0;
            caught += usize::from(is_caught);
            let verdict = if is_caught { "caught" } else { "NOT caught" };
            let seconds = began.elapsed().as_secs();
            let found = report.findings.iter().filter(|finding| finding.count > 0).map(|finding| {
                let example = finding.examples.first().map_or("", String::as_str);
                format!("{}: {} ({example})", finding.rule, finding.count)
            });
            let found = found.collect::<Vec<_>>().join("; ");
            table += &format!("{:<11} {verdict:<11} {seconds:>4} s  {found}\n", mutation.as_str());
        }
        print(&format!(
            "{table}chaos: {caught} of {} mutations caught, seed {}",
            Mutation::ALL.len(),
            self.seed
        ))?;
        Ok(if caught == Mutation::ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The service with recording tools: `built`, or built here.
pub(super) async fn build(built: Option<&Path>) -> Result<Program> {
    let built = match built {
        Some(built) => built.canonicalize()?,
        None => {
            print_status("building the service");
            child::succeed(repository::cargo_build_like_tests(&["--example", EXAMPLE])).await?;
            repository::target().join("debug/examples").join(EXAMPLE)
        }
    };
    // A copy: another build would replace the binary while processes are started from it.
    let folder = chaos::folder("program");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join(std::process::id().to_string());
    std::fs::hard_link(&built, &program).or_else(|_| std::fs::copy(&built, &program).map(|_| ()))?;
    Ok(Program(program))
}

/// The copy of the binary; removed when this is dropped.
#[derive(Debug)]
pub(super) struct Program(pub(super) PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

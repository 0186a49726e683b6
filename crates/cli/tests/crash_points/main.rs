//! 33 crash points × {kill, pause, error, delay}: 132 cases with a real Postgres, a real Redis, real processes, a
//! scripted model, and a ledger of tool calls outside the service. Each case injects one fault into one process at one
//! crash point, and then checks what the design guarantees there.
//!
//! ```sh
//! cargo xtask test --crash-points            # all cases
//! cargo xtask test --crash-points C10        # the cases of one crash point
//! cargo xtask test --crash-points C7-pause
//! ```
//! This program is also the Houston under test: with `serve` or `work` as its first argument it runs as `houston` with
//! three tools that write to the ledger.
//!
//! Leases take 6 s, pauses 9 s and delays 2 s. The cases of [`case::Case::is_in_real_time`] take the times of
//! production: a lease of 30 s, a pause of 35 s, a delay of 10 s.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod case;
#[cfg(test)]
mod client;
#[cfg(test)]
mod crash_server;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod guarantees;
#[cfg(test)]
mod model;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod run;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod tasks_and_feeds;
#[cfg(test)]
mod tools;

#[cfg(test)]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(test))]
fn main() {}

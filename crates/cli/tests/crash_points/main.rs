//! Twenty places × {kill, pause, error, delay}: 80 cases over a real Postgres, a real Redis, real processes, a
//! model and a ledger of tool calls outside the service. Each case strikes one process once, in one place, and
//! then asks for what the design promises there.
//!
//! ```sh
//! cargo xtask test --crash-points            # all of them
//! cargo xtask test --crash-points C10        # of one place
//! cargo xtask test --crash-points C7-pause
//! ```
//! This program is also the Houston under test: with `serve` or `work` as its first argument it is `houston` with
//! three tools that write into the ledger.
//!
//! Leases are shortened to 6 s, pauses to 9 s and delays to 2 s in proportion, but for the cases of
//! [`case::Case::is_in_real_time`]: a lease of 30 s, a pause of 35 s, a delay of 10 s.

// `cfg` so that clippy knows these modules for tests.
#[cfg(test)]
mod begun;
#[cfg(test)]
mod case;
#[cfg(test)]
mod client;
#[cfg(test)]
mod ground;
#[cfg(test)]
mod house;
#[cfg(test)]
mod model;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod run;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod tools;

#[cfg(test)]
fn main() -> std::process::ExitCode {
    run::main()
}

#[cfg(not(test))]
fn main() {}

//! The bus of events: how many events per second its readers take, and how late they are.
//!
//! `crates/store/examples/bus.rs` writes the events and reads them with the readers of webhooks and of triggers, in pages as
//! workers do. Postgres writes to disk like that of an installation; no run takes part.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::process::Process;
use houston_xtask::console::print_status;
use houston_xtask::programs;
use serde::{Deserialize, Serialize};

use super::Size;
use super::report::targets_table;
use crate::installation::build_example;

/// Time limit of the example.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the example prints.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Bus {
    webhooks_per_second: f64,
    triggers_per_second: f64,
    lag_ms: [f64; 2],
}

pub(crate) async fn measure(size: Size) -> Result<Bus> {
    print_status("bus: building the example `bus` of the store");
    let example = build_example("houston-store", "bus").await?;
    let servers = programs::servers(|config| config.fsync = true)?;
    let (events, seconds) = (size.hints / 5, if size.hints < Size::FULL.hints { 2 } else { 15 });
    print_status(&format!("bus: {events} events for two readers, then eight writers for {seconds} s"));
    let mut command = Command::new(&example);
    command.args([servers.database_url(), &events.to_string(), &seconds.to_string()]);
    let process =
        Process::spawn(&mut command).with_context(|| format!("{} cannot be started", example.display()))?;
    let line = process.wait_for_line(PATIENCE, |line| line.starts_with('{'))?;
    Ok(serde_json::from_str(&line)?)
}

impl Bus {
    /// The table of `--bus`.
    pub(crate) fn table(&self) -> String {
        let met = |met: bool| if met { "yes" } else { "NO" };
        let rate = |rate: f64| format!("{rate:.0}");
        let (webhooks, triggers) = (rate(self.webhooks_per_second), rate(self.triggers_per_second));
        let [p50, p99] = self.lag_ms;
        let lag = format!("{p50:.1} / {p99:.1}");
        let rows = [
            [
                "events per second through the reader of webhooks",
                &webhooks,
                "≥ 20000",
                met(self.webhooks_per_second >= 20_000.0),
            ],
            [
                "  of triggers, one in a hundred heard",
                &triggers,
                "≥ 20000",
                met(self.triggers_per_second >= 20_000.0),
            ],
            ["event to reader, ms p50 / p99", &lag, "≤ – / 100", met(p99 <= 100.0)],
        ];
        targets_table(&rows.map(|row| row.map(str::to_owned)))
    }
}

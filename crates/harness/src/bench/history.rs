//! One agentable with 10,000 closed sessions and 1,000,000 entries: the time of a search in them, and of closing one
//! session with all these entries.
//!
//! Uses its own Postgres with fsync off, like [`scale`](super::scale). Times are round trips of `pgbench`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::database::query;
use super::scale::durations;
use super::spread::round;
use super::statement::{fill, statements};
use houston_xtask::child::output;
use houston_xtask::console::print_status;
use houston_xtask::programs;
use houston_xtask::psql;

const SESSIONS: u32 = 10_000;
/// A tenth, to see that the measurement works.
const QUICK_SESSIONS: u32 = 1_000;
const SEARCHES: u32 = 600;
const CLOSINGS: u32 = 200;
/// Target of a search at p95, in ms.
const TARGET: f64 = 20.0;

/// The query of search `:n`, in turn: a rare word (in one of a hundred sessions), a word in nearly every session, some
/// words of both sorts, a misspelt word, a word that does not occur, and a frequent word within a timeframe.
const QUERY: &str = "(case :n % 6 when 0 then bench.word(9000 + :n) when 1 then bench.word(1 + :n % 40)
    when 2 then bench.word(1 + :n % 100) || ' ' || bench.word(500 + :n) || ' ' || bench.word(9000 + :n)
    when 3 then overlay(bench.word(3007 + 8 * :n) placing 'q' from 4 for 1) when 4 then 'xyzzy' || :n
    else bench.word(1 + :n % 100) end)::text";
const TIMEFRAME: &str = "(case :n % 6 when 5 then 'last_month' end)::text";

/// Times in ms.
#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct History {
    sessions: u32,
    entries: u32,
    search_ms: Times,
    /// The highest median among the six sorts of query.
    slowest_sort_p50_ms: f64,
    close_all_entries_ms: Times,
    close_ten_entries_ms: Times,
}

/// Measures searches and closing a session; `None` without `pgbench`.
pub(crate) async fn measure(quick: bool) -> Result<Option<History>> {
    let servers = programs::servers(|config| config.fsync = false)?;
    let Ok(pgbench) = psql::program(&servers, "pgbench") else { return Ok(None) };
    let sessions = if quick { QUICK_SESSIONS } else { SESSIONS };
    print_status(&format!("history: seeding {sessions} sessions with {} entries", sessions * 100));
    psql::migrate(&servers)?;
    seed(&servers, sessions).await?;
    print_status("history: searches, then closings");
    let statements = statements()?;
    let text = |name: &str, values: &[&str]| -> Result<String> {
        fill(
            statements.get(name).with_context(|| format!("`{name}` is not among the prepared queries"))?,
            values,
        )
    };
    let user = "'01900000-0001-7000-8000-000000000000'::uuid";
    let tenant = "'01900000-0000-7000-8000-000000000000'::uuid";
    let find = ["bench.agentable(0)", user, QUERY, TIMEFRAME, "null::date", "null::date", "5", tenant];
    let find = text("store::session_search::find", &find)?;
    let searched = durations(&servers, &pgbench, &find, SEARCHES).await?;
    let search_ms = Times::of(searched.clone());
    print_status(&format!(
        "history: a search takes {:.2} ms at p50, {:.2} ms at p95",
        search_ms.p50, search_ms.p95
    ));
    let sorts = (0..6).map(|sort| Times::of(searched.iter().skip(sort).step_by(6).copied().collect()).p50);
    let close = async |agentable: u32| -> Result<Times> {
        let statement = format!(
            "begin;\nselect houston.close_session(bench.agentable({agentable}), 'reset', gen_random_uuid());\nrollback"
        );
        Ok(Times::of(durations(&servers, &pgbench, &statement, CLOSINGS).await?))
    };
    Ok(Some(History {
        sessions,
        entries: sessions * 100,
        slowest_sort_p50_ms: sorts.fold(0.0, f64::max),
        search_ms,
        close_all_entries_ms: close(0).await?,
        close_ten_entries_ms: close(1001).await?,
    }))
}

async fn seed(servers: &TestServers, sessions: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("history.sql");
    std::fs::write(&script, include_str!("history.sql"))?;
    let mut command = Command::new(psql::program(servers, "psql")?);
    command.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-v", &format!("sessions={sessions}")]);
    command.args(["-d", servers.database_url(), "-f"]).arg(Path::new(&script));
    tokio::task::spawn_blocking(move || output(&mut command)).await??;
    query(servers, "vacuum analyze")?;
    query(servers, "checkpoint")?;
    Ok(())
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
            round(times.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1000.0))
        };
        Self { p50: at(50), p95: at(95), p99: at(99), max: at(100) }
    }
}

impl History {
    /// The table for people.
    pub(crate) fn table(&self) -> String {
        let line = |what: &str, times: &Times| {
            let Times { p50, p95, p99, max } = times;
            format!("{what:<44}{p50:>9.2}{p95:>9.2}{p99:>9.2}{max:>9.2}\n")
        };
        let met = if self.search_ms.p95 <= TARGET { "yes" } else { "NO" };
        format!(
            "{:<44}{:>9}{:>9}{:>9}{:>9}\n{}{}{}search p95 ≤ {TARGET} ms: {met} (slowest sort of query, p50: {:.2} ms)",
            "ms",
            "p50",
            "p95",
            "p99",
            "max",
            line(&format!("search in {} sessions, {} entries", self.sessions, self.entries), &self.search_ms),
            line(&format!("close a session of {} entries", self.entries), &self.close_all_entries_ms),
            line("close a session of 10 entries", &self.close_ten_entries_ms),
            self.slowest_sort_p50_ms
        )
    }
}

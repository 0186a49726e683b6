//! The upper bound of the machine: the SQL statements of a run in a bare loop, without Houston.
//!
//! The statements are the service's own, from `crates/store/.sqlx`; `pgbench` sends them, prepared, as fast as Postgres
//! executes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use houston_testkit::servers::TestServers;
use serde::Serialize;

use super::database::query;
use super::spread::round;
use super::statement::{fill, quote, statements};
use super::{Size, workload};
use crate::proc;
use houston_xtask::child::output;
use houston_xtask::console::print_status;
use houston_xtask::psql;

/// The result.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bound {
    pub(crate) runs: usize,
    pub(crate) runs_per_second: f64,
    pub(crate) postgres_cpu_ms_per_run: f64,
}

/// Threads inserted per second of the loop: more than any machine can use up.
const MOST_PER_SECOND: usize = 2_000;

/// Measures the bound; `tenant`: of a run of the service. `None` without `pgbench`.
pub(crate) async fn measure(servers: &TestServers, size: Size, tenant: &str) -> Result<Option<Bound>> {
    let Ok(pgbench) = psql::program(servers, "pgbench") else {
        print_status("bound: skipped, `pgbench` is not installed beside this Postgres");
        return Ok(None);
    };
    let clients = size.concurrency;
    print_status(&format!("bound: the same statements in a bare loop, {clients} concurrently"));
    let each = usize::try_from(size.saturated.as_secs())? * MOST_PER_SECOND / clients;
    query(servers, &set_up(tenant, clients * (each + 1)))?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("run.sql");
    std::fs::write(&script, loop_script(&statements()?, tenant)?)?;
    let seconds = size.saturated.as_secs().max(2).to_string();
    let mut command = Command::new(pgbench);
    command.args(["--no-vacuum", "--protocol=prepared", "--jobs=1", "--time", &seconds]);
    command.args(["--client", &clients.to_string(), "--define=i=0", &format!("--define=each={each}")]);
    command.arg("--file").arg(&script).arg(servers.database_url());
    let postgres = servers.postgres_pid().context("Postgres has no process id")?;
    let cpu = proc::cpu(postgres)?;
    let output = tokio::task::spawn_blocking(move || output(&mut command)).await??;
    let spent = proc::cpu(postgres)? - cpu;
    let number = |start: &str| -> Option<f64> {
        let line = output.lines().find_map(|line| line.strip_prefix(start))?;
        line.split([' ', '/']).next()?.parse().ok()
    };
    let runs = number("number of transactions actually processed: ")
        .context("pgbench printed no number of transactions")?;
    let rate = number("tps = ").context("pgbench printed no tps")?;
    let done =
        query(servers, "select count(*) from houston.runs where status = 'completed' and model = 'bound'")?;
    ensure!(done.parse::<f64>()? == runs, "{done} runs of {runs} were completed by the bare loop");
    query(servers, "drop schema bound cascade; update houston.runs set model = null where model = 'bound'")?;
    Ok(Some(Bound {
        runs: runs as usize,
        runs_per_second: round(rate),
        postgres_cpu_ms_per_run: round(spent.as_secs_f64() * 1000.0 / runs),
    }))
}

/// Inserts threads for the loop and a worker with a lease of an hour.
fn set_up(tenant: &str, threads: usize) -> String {
    format!(
        "create schema bound;
         create table bound.threads (n integer primary key, id uuid not null);
         insert into bound.threads select n, gen_random_uuid() from generate_series(0, {threads}) n;
         insert into houston.users (id, tenant_id, name) select id, '{tenant}', 'bound' from bound.threads;
         insert into houston.agentables (id, tenant_id, user_id, kind, title, status)
         select id, '{tenant}', id, 'goal', 'bound', 'waiting' from bound.threads;
         insert into houston.run_locks (agentable_id, tenant_id, user_id)
         select a.id, a.tenant_id, a.user_id from houston.agentables a join bound.threads t on t.id = a.id;
         create table bound.worker as select gen_random_uuid() as id;
         insert into houston.workers (id, name, alive_until)
         select id, 'bound', clock_timestamp() + interval '1 hour' from bound.worker;
         analyze bound.threads; analyze houston.run_locks; analyze houston.agentables"
    )
}

/// Parameters of `store::claim::read::candidates`: the agentable, the worker, limits as in `jobs/orchestrator.toml` and
/// `jobs/session_archive.toml`, and that the run was posted before and its context is wanted.
const CLAIM: [&str; 19] = [
    "array[:agentable::uuid]",
    "array[:worker::uuid]",
    "20",
    "500",
    "10",
    "200",
    "20",
    "1000",
    "10",
    "200",
    "5",
    "1000",
    "10",
    "100",
    "262144",
    "array['goal']",
    "array[null::uuid]",
    "array[null::text]",
    "array[true]",
];

/// The statements of one run: post, claim, step. The selects between them make the parameters that the service
/// makes in Rust.
fn loop_script(statements: &BTreeMap<String, String>, tenant: &str) -> Result<String> {
    let statement = |name: &str, values: &[&str]| -> Result<String> {
        let text =
            statements.get(name).with_context(|| format!("`{name}` is not among the prepared queries"))?;
        fill(text, values)
            .with_context(|| format!("`{name}` has other parameters now: change `bench/bound.rs`"))
    };
    let (content, tenant) = (quote(&workload::content()), quote(tenant));
    let post = ["t.id", "gen_random_uuid()", "gen_random_uuid()", &content, "'{}'::jsonb", "null", "null"];
    let post = [&[tenant.as_str()][..], &post, &["'enqueue'", "10", "10000"]].concat();
    let post = statement("store::message::post", &post)?;
    let read = statement("store::claim::read::candidates", &CLAIM)?;
    let claim = statement("store::claim::write::claims", &[":claim::jsonb", "1800"])?;
    let step = statement("store::step::statement::write", &[":step::jsonb", "10"])?;
    let mut script = String::from("\\set i :i + 1\n\\set n :client_id * :each + :i\n");
    write!(
        script,
        "select t.id as agentable, gen_random_uuid() as token, w.id as worker
           from bound.threads t cross join bound.worker w cross join lateral ({post}) p where t.n = :n \\gset\n\
         {read};\n{claim_row} \\gset\n{claim};\n{step_row} \\gset\n{step};\n",
        claim_row = claim_row(),
        step_row = step_row()
    )?;
    Ok(script)
}

/// Makes the parameter of `store::claim::write::claims`.
fn claim_row() -> &'static str {
    "select jsonb_build_array(jsonb_build_object(
                'n', 0, 'agentable_id', l.agentable_id, 'version', l.xmin::text, 'worker_id', :worker::uuid,
                'token', :token::uuid, 'slots', array[1], 'message_seq', l.last_seq, 'message_id', gen_random_uuid(),
                'read', 1, 'read_to', l.last_seq, 'has_more', false, 'stays_awake', false,
                'schedules_session', true)) as claim
       from houston.run_locks l where l.agentable_id = :agentable::uuid"
}

/// Makes the parameter of `store::step::statement::write`, as in the service's last step. `run` is the claimed run.
fn step_row() -> String {
    format!(
        "select l.run_id as run, jsonb_build_array(jsonb_build_object(
                'n', 0, 'agentable_id', l.agentable_id, 'epoch', l.epoch, 'fence', l.epoch, 'token', :token::uuid,
                'write_id', gen_random_uuid(), 'run_id', l.run_id,
                'entries', jsonb_build_array(jsonb_build_object('role', 'assistant', 'event', 1)),
                'events', jsonb_build_array('{{}}'::jsonb, jsonb_build_object('data', '{{}}'::jsonb)),
                'messages', jsonb_build_array(jsonb_build_object(
                    'event', 1, 'id', gen_random_uuid(), 'source', 'agent', 'message_type', 'text',
                    'content', {answer}::text, 'metadata', '{{}}'::jsonb)),
                'is_progress', true, 'forgives_deaths', true, 'releases', true, 'ends', true, 'wakes', false,
                'frees_a_slot', true, 'status', 'completed', 'iterations', 1, 'model', 'bound',
                'used', array[10, 5, 0, 0, 0], 'total', array[10, 5, 0, 0, 0],
                'call', jsonb_build_object('provider', 'bound', 'model', 'bound', 'iteration', 1,
                    'tokens', array[10, 5, 0, 0, 0], 'reported', false))) as step
           from houston.run_locks l where l.agentable_id = :agentable::uuid",
        answer = quote(&workload::answer())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_service_fit_the_loop() {
        let script = loop_script(&statements().unwrap(), "t").unwrap();
        assert!(script.contains("jsonb_to_recordset(:step::jsonb)"), "{script}");
    }
}

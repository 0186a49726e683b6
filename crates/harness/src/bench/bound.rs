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

use super::database::{Sample, query};
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

/// The model call of a run; it has no price.
const CALL: &str = r#"{"provider": "bound", "model": "bound", "iteration": 1, "reported": false, "usage": {
    "input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0}}"#;

/// Measures the bound; `sample` is what a run of the service wrote. `None` without `pgbench`.
pub(crate) async fn measure(servers: &TestServers, size: Size, sample: &Sample) -> Result<Option<Bound>> {
    let Ok(pgbench) = psql::program(servers, "pgbench") else {
        print_status("bound: skipped, `pgbench` is not installed beside this Postgres");
        return Ok(None);
    };
    let clients = size.concurrency;
    print_status(&format!("bound: the same statements in a bare loop, {clients} concurrently"));
    let each = usize::try_from(size.saturated.as_secs())? * MOST_PER_SECOND / clients;
    query(servers, &set_up(sample, clients * (each + 1)))?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("run.sql");
    std::fs::write(&script, loop_script(&statements()?, sample)?)?;
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
fn set_up(sample: &Sample, threads: usize) -> String {
    let tenant = &sample.tenant;
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

/// Parameters of `store::run_context::batch::read`: the agentable, the run, limits as in `jobs/orchestrator.toml` and
/// `jobs/session_archive.toml`.
const CONTEXT: [&str; 12] = [
    "array[:agentable::uuid]",
    "array[:run::uuid]",
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
];

/// The statements of one run: post, claim, context, commit.
fn loop_script(statements: &BTreeMap<String, String>, sample: &Sample) -> Result<String> {
    let statement = |name: &str, values: &[&str]| -> Result<String> {
        let text =
            statements.get(name).with_context(|| format!("`{name}` is not among the prepared queries"))?;
        fill(text, values)
            .with_context(|| format!("`{name}` has other parameters now: change `bench/bound.rs`"))
    };
    let (content, tenant) = (quote(&workload::content()), quote(&sample.tenant));
    let post = ["t.id", "gen_random_uuid()", "gen_random_uuid()", &content, "'{}'::jsonb", "null", "null"];
    let post = [&[tenant.as_str()][..], &post, &["'enqueue'", "10", "10000"]].concat();
    let post = statement("store::message::post", &post)?;
    let claim = [":agentable::uuid", ":worker::uuid", ":token::uuid", "gen_random_uuid()"];
    let claim = [&claim[..], &["10", "100", "262144", "3", "5", "array['goal']", "1800"]].concat();
    let claim = statement("store::claim::run", &claim)?;
    let context = statement("store::run_context::batch::read", &CONTEXT)?;
    let commit = commit_values(sample);
    let commit: Vec<&str> = commit.iter().map(String::as_str).collect();
    let commit = statement("store::step::commit", &commit)?;
    let mut script = String::from("\\set i :i + 1\n\\set n :client_id * :each + :i\n");
    write!(
        script,
        "select t.id as agentable, gen_random_uuid() as token, w.id as worker
           from bound.threads t cross join bound.worker w cross join lateral ({post}) p where t.n = :n \\gset\n\
         select c.\"epoch!\" as epoch, c.\"run_id!\" as run from ({claim}) c \\gset\n{context};\n{commit};\n"
    )?;
    Ok(script)
}

/// The parameters of `store::step::commit`, as in the service's last commit.
fn commit_values(sample: &Sample) -> Vec<String> {
    let array = |items: &[String], kind: &str| {
        let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
        format!("array[{}]::{kind}[]", items.join(", "))
    };
    let none = |kind: &str| format!("'{{}}'::{kind}[]");
    let message = "array[gen_random_uuid()]".to_owned();
    let event_messages = vec!["null"; sample.events.len()].join(", ");
    let mut values: Vec<String> =
        [":agentable::uuid", ":epoch::bigint", ":token::uuid", "gen_random_uuid()", "array['assistant']"]
            .map(str::to_owned)
            .into();
    values.extend([
        array(std::slice::from_ref(&sample.entry), "jsonb"),
        array(&sample.events, "jsonb"),
        format!("array[{event_messages}]::uuid[]"),
        message,
        "array[1]".to_owned(),
        "array['agent']".to_owned(),
        "array['text']".to_owned(),
        array(&[workload::answer()], "text"),
        "array['{}'::jsonb]".to_owned(),
    ]);
    values.extend(["text", "text", "text", "uuid", "text", "jsonb", "uuid", "jsonb"].map(none));
    values.extend(["'finish'", "true"].map(str::to_owned));
    values.extend([quote(&sample.last_event) + "::jsonb", "null".to_owned(), "gen_random_uuid()".to_owned()]);
    values.extend(["'completed'", "1", "array[10, 5, 0, 0, 0]::bigint[]", "'bound'"].map(str::to_owned));
    values.extend(["null", "null", "null", "10", "100", "262144"].map(str::to_owned));
    values.extend([":run::uuid".to_owned(), quote(CALL) + "::jsonb"]);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_service_fit_the_loop() {
        let sample = Sample {
            tenant: "t".into(),
            entry: "[]".into(),
            events: vec!["{}".into()],
            last_event: "{}".into(),
        };
        let script = loop_script(&statements().unwrap(), &sample).unwrap();
        assert!(script.contains("houston.commit_step(:agentable::uuid, :epoch::bigint"), "{script}");
    }
}

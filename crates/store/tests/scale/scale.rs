use std::fmt::Write as _;
use std::time::{Duration, Instant};

use houston_store::{Config, Store};
use houston_testkit::database::TestDatabase;
use houston_testkit::seed_data::SeedData;

use crate::plan::{execute, execute_as_request, psql, queries};
use crate::{case, operate};

/// The generic plan, under row-level security.
const AS_REQUEST: &str = "as a request";
/// Indexes that find the same rows: the planner may use either.
const SAME: [(&str, &str); 1] = [("agentables_pkey", "agentables_id_depth")];

/// A server of its own with a migrated database, filled by `script`.
pub(crate) fn filled(script: &str) -> TestDatabase {
    let database = TestDatabase::on_own_server(migrate).unwrap();
    let began = Instant::now();
    psql(&database, script);
    psql(&database, OLDER_TRANSACTIONS_END);
    println!("seeded within {:.1} s", began.elapsed().as_secs_f64());
    database
}

async fn migrate(url: String) {
    let config =
        Config { url, connections: houston_store::Sizes::ones(), acquire_timeout: Duration::from_secs(30) };
    let store = Store::open(&config).unwrap();
    store.migrate().await.unwrap();
    store.close().await;
}

#[test]
fn cost_of_hot_queries_does_not_grow_with_the_data() {
    let database = filled(&format!("{}{}", SeedData::LARGE.script(), operate::seeded()));
    let queries = queries();
    let mut wrong = Vec::new();
    let mut table = format!("{:<34}{:<38}{:>7}{:>8}  indexes\n", "query", "when", "rows", "blocks");
    for case in case::all() {
        let query = queries.get(case.name).unwrap_or_else(|| panic!("no query is called {}", case.name));
        for mode in ["force_custom_plan", "force_generic_plan", AS_REQUEST] {
            let touched = match mode {
                AS_REQUEST if !query.is_of_request() => continue,
                AS_REQUEST => execute_as_request(&database, query, &case, "force_generic_plan"),
                _ => execute(&database, query, &case, mode),
            };
            let indexes: Vec<&str> = touched.indexes.iter().map(String::as_str).collect();
            writeln!(
                table,
                "{:<34}{:<38}{:>7}{:>8}  {}",
                case.name,
                case.when,
                touched.rows,
                touched.blocks,
                indexes.join(" ")
            )
            .unwrap();
            let mut complain = |what: String| {
                wrong.push(format!("{} ({}, {mode}) {what}", case.name, case.when));
            };
            for whole in &touched.whole {
                complain(format!("reads {whole}"));
            }
            let is_used = |index: &&&str| {
                let same = SAME.iter().find(|(one, _)| *one == **index).map(|(_, other)| other);
                indexes.contains(*index) || same.is_some_and(|other| indexes.contains(other))
            };
            // A policy may make another index as good; how much is read says enough.
            let uses = if mode == AS_REQUEST { &[] } else { case.uses };
            for index in uses.iter().filter(|index| !is_used(index)) {
                complain(format!("does not use {index}"));
            }
            // A policy looks at the tenant of each row, also of rows that another condition would leave out first.
            let times = if mode == AS_REQUEST { 2 } else { 1 };
            let [rows, blocks] = [times * case.rows, times * case.blocks];
            if touched.rows > rows {
                complain(format!("touches {} rows, {rows} are allowed", touched.rows));
            }
            if touched.blocks > blocks {
                complain(format!("touches {} blocks, {blocks} are allowed", touched.blocks));
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Waits until every transaction has ended that ran while the data was written, such as an analysis by autovacuum. As long as
/// one runs, readers of all events look at everything that was committed since it began.
const OLDER_TRANSACTIONS_END: &str = "
    do $$
    declare
        seeded constant xid8 := pg_snapshot_xmax(pg_current_snapshot());
    begin
        for tenth_of_a_second in 1..1200 loop
            exit when pg_snapshot_xmin(pg_current_snapshot()) >= seeded;
            assert tenth_of_a_second < 1200, 'another transaction runs for two minutes';
            perform pg_sleep(0.1);
        end loop;
    end $$;";

/// One agentable has nearly all rows: the planner's estimate for it is an estimate for the whole table.
const OLD: &str = "
    insert into houston.history (agentable_id, position, tenant_id, run_id, epoch, role, content)
    select h.agentable_id, -n, h.tenant_id, h.run_id, 1, h.role, h.content
      from houston.entries h, generate_series(0, 60000) n where h.agentable_id = {goal} and h.position = 1;
    insert into houston.messages (id, tenant_id, agentable_id, seq, source, message_type, content, run_id)
    select gen_random_uuid(), m.tenant_id, m.agentable_id, -n, m.source, 'text', m.content, m.run_id
      from houston.messages m, generate_series(0, 60000) n where m.agentable_id = {goal} and m.seq = 2;
    insert into houston.events (agentable_id, seq, tenant_id, run_id, epoch, data)
    select e.agentable_id, -n, e.tenant_id, e.run_id, 1, e.data
      from houston.events e, generate_series(0, 60000) n where e.agentable_id = {goal} and e.seq = 3;
    insert into houston.runs (id, tenant_id, agentable_id, status, first_seq, ended_at)
    select gen_random_uuid(), r.tenant_id, r.agentable_id, 'completed', -n, now()
      from houston.runs r, generate_series(0, 12000) n where r.agentable_id = {goal} and r.first_seq = 1;
    insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, run_id, title, content)
    select gen_random_uuid(), o.tenant_id, o.kind, o.agentable_id, o.run_id, o.title, o.content
      from houston.knowledge_items o, generate_series(1, 999) n where o.owner_id = {goal} and o.kind = 'note';
    insert into houston.sessions (id, tenant_id, agentable_id, number, first_position, last_position, started_at,
                                  completed_at, completion_reason, summary)
    select gen_random_uuid(), k.tenant_id, k.agentable_id, 1000 + n, 100 * n - 60000, 100 * n - 59901, now(), now(),
           'session_timeout', 'They travel.' from houston.run_locks k, generate_series(1, 600) n
     where k.agentable_id = {goal};
    analyze;
";

#[test]
fn run_of_an_old_agentable_reads_no_more_than_of_a_new_one() {
    let seed = SeedData { agentables: 100, runs: 5, waiting: 10, driven: 5, workers: 8 };
    let old = OLD.replace("{goal}", &case::id("goal", case::WAITING));
    let database = filled(&format!("{}{old}", seed.script()));
    let queries = queries();
    let mut wrong = Vec::new();
    // The agentable has 200,000 rows; the hundred of the others may be read whole.
    for case in case::turn_of_one_that_waits(1_000, 500) {
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let touched = execute(&database, &queries[case.name], &case, mode);
            println!("{:<34}{:<38}{:>7}{:>8}", case.name, case.when, touched.rows, touched.blocks);
            if touched.rows > case.rows || touched.blocks > case.blocks {
                let (rows, blocks) = (touched.rows, touched.blocks);
                wrong.push(format!("{} ({}, {mode}): {rows} rows, {blocks} blocks", case.name, case.when));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

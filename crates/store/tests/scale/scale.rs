use std::fmt::Write as _;
use std::time::{Duration, Instant};

use houston_store::{Config, Store};
use houston_testkit::crowd::Crowd;
use houston_testkit::servers::TestServers;

use crate::case;
use crate::plan::{execute, psql, queries};

/// An index that finds the same rows as another: the planner takes either.
const SAME: [(&str, &str); 1] = [("agentables_pkey", "agentables_id_depth")];

#[tokio::test(flavor = "multi_thread")]
async fn no_hot_query_touches_more_because_there_is_more() {
    let servers = TestServers::start().unwrap();
    let config = Config {
        url: servers.database_url().to_owned(),
        max_connections: 2,
        acquire_timeout: Duration::from_secs(5),
    };
    Store::open(&config).unwrap().migrate().await.unwrap();
    let began = Instant::now();
    psql(servers.database_url(), &Crowd::LARGE.script());
    println!("seeded within {:.1} s", began.elapsed().as_secs_f64());

    let queries = queries();
    let mut wrong = Vec::new();
    let mut table = format!("{:<34}{:<38}{:>7}{:>8}  indexes\n", "query", "when", "rows", "blocks");
    for case in case::all() {
        let query = queries.get(case.name).unwrap_or_else(|| panic!("no query is called {}", case.name));
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let touched = execute(servers.database_url(), query, &case, mode);
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
            for index in case.uses.iter().filter(|index| !is_used(index)) {
                complain(format!("does not use {index}"));
            }
            if touched.rows > case.rows {
                complain(format!("touches {} rows, {} are allowed", touched.rows, case.rows));
            }
            if touched.blocks > case.blocks {
                complain(format!("touches {} blocks, {} are allowed", touched.blocks, case.blocks));
            }
        }
    }
    println!("{table}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

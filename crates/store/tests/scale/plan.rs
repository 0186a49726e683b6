//! Executed plans, as `auto_explain` reports them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use houston_testkit::database::TestDatabase;
use serde_json::Value;

use crate::case::{Case, id};

/// Tables with at most as many rows as there are workers, moves of shards, readers of all events, or replays under way: reading them
/// whole does not count as a scan.
const SMALL: [&str; 8] = [
    "workers",
    "paused_lanes",
    "resumed_lanes",
    "moved_shards",
    "tenants",
    "installation",
    "readers",
    "replays",
];
/// Indexes that contain only what waits, runs or asks, however large the tables are, and those of the few lanes that are
/// paused and shards that were moved.
const OF_WORK: [&str; 8] = [
    "run_locks_awake",
    "runs_in_flight",
    "runs_held",
    "runs_waiting",
    "questions_open",
    "questions_open_by_user",
    "paused_lanes_pkey",
    "moved_shards_pkey",
];

/// A prepared query of the service.
#[derive(Debug)]
pub(crate) struct Query {
    text: String,
    parameters: Vec<String>,
}

impl Query {
    /// Whether requests of tenants execute it: it names one tenant. Only agents search sessions.
    pub(crate) fn is_of_request(&self) -> bool {
        self.text.contains("tenant_id = $") && !self.text.contains("store::session_search::")
    }
}

/// The queries of the service by name.
pub(crate) fn queries() -> BTreeMap<String, Query> {
    let folder = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join(".sqlx");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let read = files.map(|file| {
        let prepared: Value = serde_json::from_slice(&file).unwrap();
        let text = prepared["query"].as_str().unwrap().to_owned();
        let name = text.lines().next().unwrap().trim_start_matches("-- ").trim().to_owned();
        let kinds = prepared["describe"]["parameters"]["Left"].as_array().cloned().unwrap_or_default();
        let parameters = kinds.iter().map(|kind| sql_type(kind.as_str().unwrap())).collect();
        (name, Query { text, parameters })
    });
    read.collect()
}

/// The Postgres name of a type for sqlx's name.
fn sql_type(name: &str) -> String {
    match name.strip_suffix("Array") {
        Some(element) => format!("{}[]", sql_type(element)),
        None => name.to_lowercase(),
    }
}

/// The rows, blocks and indexes that one execution touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) indexes: BTreeSet<String>,
    /// Rows read from tables, including those a filter removed.
    pub(crate) rows: u64,
    /// Blocks of the whole statement.
    pub(crate) blocks: u64,
    /// Tables and indexes that were read whole.
    pub(crate) whole: Vec<String>,
}

impl Touched {
    fn add(&mut self, node: &Value) {
        let number = |key: &str| node[key].as_f64().unwrap_or(0.0);
        let (table, index) = (node["Relation Name"].as_str(), node["Index Name"].as_str());
        if table.is_some() || index.is_some() {
            let rows = number("Actual Rows")
                + number("Rows Removed by Filter")
                + number("Rows Removed by Index Recheck");
            self.rows += (rows * number("Actual Loops")).round() as u64;
        }
        if let Some(index) = index {
            self.indexes.insert(index.to_owned());
            if node["Index Cond"].is_null() && !OF_WORK.contains(&index) {
                self.whole.push(format!("all of {index}"));
            }
        } else if let Some(table) = table
            && node["Node Type"] == "Seq Scan"
            && !SMALL.contains(&table)
            // A node that was never executed reads nothing.
            && number("Actual Loops") > 0.0
        {
            self.whole.push(format!("all of {table}"));
        }
        for child in node["Plans"].as_array().into_iter().flatten() {
            self.add(child);
        }
    }
}

/// Executes the case on the database, twice, and reads what the second execution touched.
pub(crate) fn execute(database: &TestDatabase, query: &Query, case: &Case, mode: &str) -> Touched {
    execute_as("", database, query, case, mode)
}

/// As a request of the tenant whose the data is, under row-level security.
pub(crate) fn execute_as_request(database: &TestDatabase, query: &Query, case: &Case, mode: &str) -> Touched {
    let tenant = id("tenant", 0);
    let role = format!(
        "select set_config('role', 'houston_api', true), set_config('houston.tenant', {tenant}, true);\n"
    );
    execute_as(&role, database, query, case, mode)
}

fn execute_as(role: &str, database: &TestDatabase, query: &Query, case: &Case, mode: &str) -> Touched {
    let Query { text, parameters } = query;
    let types = if parameters.is_empty() { String::new() } else { format!("({})", parameters.join(", ")) };
    let arguments =
        if parameters.is_empty() { String::new() } else { format!("({})", case.arguments.join(", ")) };
    let Case { before, .. } = case;
    // The first execution fills the caches of the session.
    let script = format!(
        "load 'auto_explain';
         set auto_explain.log_min_duration = -1;
         set auto_explain.log_analyze = on;
         set auto_explain.log_buffers = on;
         set auto_explain.log_timing = off;
         set auto_explain.log_nested_statements = on;
         set auto_explain.log_format = json;
         set client_min_messages = log;
         set plan_cache_mode = {mode};
         prepare q{types} as {text};
         begin;\n{before}\n{role}execute q{arguments};\nrollback;
         begin;\n{before}\nset local auto_explain.log_min_duration = 0;\n{role}execute q{arguments};\nrollback;\n"
    );
    let (name, log) = (case.name, psql(database, &script));
    let mut touched = Touched::default();
    let mut plans = 0;
    for part in log.split("LOG:  duration:").skip(1) {
        let json = &part[part.find('{').unwrap()..];
        let plan: Value = serde_json::Deserializer::from_str(json).into_iter().next().unwrap().unwrap();
        let root = &plan["Plan"];
        touched.add(root);
        // The plans of statements inside a function are counted with their caller.
        let blocks = ["Shared Hit Blocks", "Shared Read Blocks"].map(|key| root[key].as_u64().unwrap_or(0));
        touched.blocks = touched.blocks.max(blocks.iter().sum());
        plans += 1;
    }
    assert!(plans > 0, "{name}: Postgres logged no plan: {log}");
    touched
}

/// Executes `script` with `psql`, and returns its standard error.
pub(crate) fn psql(database: &TestDatabase, script: &str) -> String {
    // The server's own: that of the distribution is a wrapper, which takes longer than most statements.
    let program = database.psql("");
    let mut child = Command::new(program.get_program())
        .args([
            database.url(),
            "-XqAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-v",
            "VERBOSITY=terse",
            "-o",
            "/dev/null",
            "-f",
            "-",
        ])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = script.to_owned();
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{log}\n{script}");
    log
}

//! Every query of the store without its tenant: as a request of another tenant it finds what it would find if the tenant did
//! not exist.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, TypeInfo as _, ValueRef as _};
use uuid::Uuid;

use crate::erasing::fill;
use crate::test_store::TestStore;

/// The id of everything that belongs to the other tenant, and of that tenant: see `same_ids.sql`.
const THEIRS: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_beef);
/// The tenant that asks. It has nothing.
const ASKING: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);

/// What answers differently in each database, whosever rows it has: numbers of connections, bytes, times as numbers.
const OF_THE_SERVER: [&str; 4] = [
    "store::fan_out::ensure_reader",
    "store::trigger_reader::ensure",
    "store::health::server::connections",
    "store::health::server::database_bytes",
];

/// A query as it was prepared for the macros: its text, and the types of its parameters.
struct Query {
    name: String,
    text: String,
    types: Vec<String>,
}

/// All queries, so a new one cannot be forgotten.
fn queries() -> Vec<Query> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let prepared: Value = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        let text = prepared["query"].as_str().unwrap().to_owned();
        let name = text.lines().next().unwrap().trim_start_matches("-- ").trim().to_owned();
        let types = prepared["describe"]["parameters"]["Left"].as_array().cloned().unwrap_or_default();
        let types = types.iter().map(|name| sql_type(name.as_str().unwrap())).collect();
        Query { name, text, types }
    };
    let mut all: Vec<Query> = std::fs::read_dir(folder).unwrap().map(read).collect();
    // A setting is no query.
    all.retain(|query| !query.text.contains("\nset local "));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// The Postgres name of a type for sqlx's name.
fn sql_type(name: &str) -> String {
    match name.strip_suffix("Array") {
        Some(element) => format!("{}[]", sql_type(element)),
        None => name.to_lowercase(),
    }
}

/// How the parameters that are no ids are chosen: a limit comes last, and positions are compared both ways.
const CHOICES: usize = 4;

fn argument(query: &Query, nth: usize, choice: usize) -> String {
    let is_last = query.types[nth + 1..].iter().all(|kind| !kind.starts_with("int"));
    let name = query.types[nth].as_str();
    let (element, is_array) = name.strip_suffix("[]").map_or((name, false), |element| (element, true));
    let place = nth + 1;
    // An optional position, such as where a page begins.
    if !is_array
        && ["uuid", "int8", "timestamptz"]
            .iter()
            .any(|kind| query.text.contains(&format!("${place}::{kind} is null")))
    {
        return "null".to_owned();
    }
    let high = choice % 2 == 1 || is_last;
    let value = match element {
        "uuid" => format!("'{THEIRS}'"),
        "text" => ["'canary'", "'canary'", "'goal'", "'note'"][choice].to_owned(),
        "bool" => (choice / 2 == 0).to_string(),
        "timestamptz" => if high { "'2100-01-01'" } else { "'2000-01-01'" }.to_owned(),
        "date" => "'2026-11-22'".to_owned(),
        "bytea" => "'canary'".to_owned(),
        "jsonb" => format!(
            r#"'[{{"n": 0, "id": "{THEIRS}", "tenant_id": "{THEIRS}", "user_id": "{THEIRS}", "agentable_id": "{THEIRS}"}}]'"#
        ),
        _ if high => "1000".to_owned(),
        _ => "0".to_owned(),
    };
    if is_array { format!("array[{value}]::{name}") } else { format!("{value}::{name}") }
}

/// What a statement does.
#[derive(Debug, PartialEq)]
struct Effect {
    /// For each row, its numbers, and how often its other values name the other tenant; or the code of an error.
    rows: Result<Vec<String>, String>,
    /// The rows of the other tenant afterwards, see `same_ids.sql`; not read of a statement that only reads.
    left: Option<String>,
}

/// Executes a statement after `before`, in a transaction that is rolled back.
async fn effect(connection: &mut PgConnection, before: &str, (text, execute): (&str, &str)) -> Effect {
    let all = sqlx::raw_sql(AssertSqlSafe(format!("begin; {before}; {execute}")));
    let rows = match all.fetch_all(&mut *connection).await {
        // The first row is that of `before`.
        Ok(rows) => Ok(rows[1..].iter().map(named).collect()),
        Err(error) => {
            let code = error.as_database_error().and_then(|error| error.code());
            Err(code.unwrap_or_else(|| panic!("{execute}: {error}")).into_owned())
        }
    };
    let writes = ["insert into", "update ", "delete from", "post_message(", "_session("];
    let mut left = None;
    if rows.is_ok() && writes.iter().any(|word| text.contains(word)) {
        let after = "select set_config('role', 'none', true), public.fingerprint()";
        let row = sqlx::raw_sql(after).fetch_one(&mut *connection).await.unwrap();
        left = Some(row.try_get_raw(1).unwrap().as_str().unwrap().to_owned());
    }
    sqlx::raw_sql("rollback").execute(connection).await.unwrap();
    Effect { rows, left }
}

fn named(row: &sqlx::postgres::PgRow) -> String {
    (0..row.len()).map(|nth| cell(row, nth)).collect::<Vec<_>>().join("|")
}

fn cell(row: &sqlx::postgres::PgRow, nth: usize) -> String {
    let value = row.try_get_raw(nth).unwrap();
    if value.is_null() {
        return "-".to_owned();
    }
    let kind = value.type_info().name().to_owned();
    let text = String::from_utf8_lossy(value.as_bytes().unwrap()).into_owned();
    if kind.starts_with("INT") || kind == "BOOL" || kind == "NUMERIC" {
        return text;
    }
    let without_dashes = THEIRS.simple().to_string();
    let names = ["canary", "Tokyo", "2026-11-22", THEIRS.to_string().as_str(), without_dashes.as_str()]
        .map(|needle| text.matches(needle).count());
    format!("{names:?}")
}

/// A database with the other tenant, and one without.
async fn databases() -> (TestStore, TestStore) {
    let (with, without) = (TestStore::start().await, TestStore::start().await);
    fill(&with, with.goal, "canary");
    let same_ids = include_str!("same_ids.sql").replace(":id", &THEIRS.to_string());
    with.sql(&same_ids.replace(":goal", &with.goal.0.to_string()));
    without.sql("truncate houston.tenants cascade");
    without.sql(same_ids.split_once("-- The rows of that tenant").unwrap().1.split_once('\n').unwrap().1);
    for test in [&with, &without] {
        test.sql(&format!(
            "delete from houston.workers; update houston.installation set frame_secret = 'same';
             insert into houston.tenants (id, name) values ('{ASKING}', 'asking')"
        ));
    }
    (with, without)
}

/// Executes a query with all choices of parameters. Whether it would have found something, and what it has found under
/// row-level security.
async fn try_query(full: &mut PgConnection, empty: &mut PgConnection, query: &Query) -> (bool, Vec<String>) {
    let types = query.types.join(", ");
    let types = if types.is_empty() { types } else { format!("({types})") };
    let prepare = format!("prepare q{types} as {}", query.text);
    for connection in [&mut *full, &mut *empty] {
        sqlx::raw_sql(AssertSqlSafe(prepare.clone())).execute(connection).await.unwrap();
    }
    let choices: BTreeSet<String> = (0..CHOICES)
        .map(|choice| {
            (0..query.types.len()).map(|nth| argument(query, nth, choice)).collect::<Vec<_>>().join(", ")
        })
        .collect();
    let login = "select set_config('houston.tenant', '', true)";
    let request = format!(
        "select set_config('role', 'houston_api', true), set_config('houston.tenant', '{ASKING}', true)"
    );
    let untouched = effect(full, login, ("update ", "select 1")).await.left;
    let (mut finds, mut found) = (false, Vec::new());
    for choice in choices {
        let execute = if choice.is_empty() { "execute q".to_owned() } else { format!("execute q({choice})") };
        let execute = (query.text.as_str(), execute.as_str());
        let alone = effect(empty, login, execute).await;
        let open = effect(full, login, execute).await;
        let secured = effect(full, &request, execute).await;
        finds |= open.rows != alone.rows || (open.left.is_some() && open.left != untouched);
        // An error reads and changes nothing.
        let is_read = secured.rows.is_ok() && secured.rows != alone.rows;
        if is_read || (secured.left.is_some() && secured.left != untouched) {
            found.push(format!("{} {choice}: {secured:?}, but alone {alone:?}", query.name));
        }
    }
    for connection in [full, empty] {
        sqlx::raw_sql("deallocate q").execute(connection).await.unwrap();
    }
    (finds, found)
}

#[tokio::test(flavor = "multi_thread")]
async fn query_without_its_tenant_finds_nothing_of_others() {
    let (with, without) = databases().await;
    let mut full = PgConnection::connect(with.database.url()).await.unwrap();
    let mut empty = PgConnection::connect(without.database.url()).await.unwrap();
    let (mut finding, mut found, mut tried) = (0, Vec::new(), 0);
    for query in queries() {
        let (finds, of_others) = try_query(&mut full, &mut empty, &query).await;
        tried += 1;
        finding += usize::from(finds);
        if !OF_THE_SERVER.contains(&query.name.as_str()) {
            found.extend(of_others);
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(tried > 400 && finding * 2 > tried, "{finding} of {tried} would have found something");
}

//! Every query of the store without its tenant: as a request of another tenant it finds what it would find if the tenant did
//! not exist.

use std::collections::BTreeMap;
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

/// What answers differently on each server: transactions, sizes, connections.
const OF_THE_SERVER: [&str; 0] = [];

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
        "text" => ["'canary'", "'goal'"][choice / 2].to_owned(),
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

/// What a statement answers: how many rows, which numbers, and how often each value names the other tenant; or its error.
async fn answer(connection: &mut PgConnection, before: &str, execute: &str) -> Result<Vec<String>, String> {
    let run = async {
        let mut rows = Vec::new();
        sqlx::raw_sql(AssertSqlSafe(format!("begin;{before}"))).execute(&mut *connection).await?;
        for row in sqlx::raw_sql(AssertSqlSafe(execute.to_owned())).fetch_all(&mut *connection).await? {
            let cells = (0..row.len()).map(|nth| cell(&row, nth));
            rows.push(cells.collect::<Vec<_>>().join("|"));
        }
        Ok::<_, sqlx::Error>(rows)
    };
    run.await.map_err(|error| {
        let code = error.as_database_error().and_then(|error| error.code().map(std::borrow::Cow::into_owned));
        code.unwrap_or_else(|| panic!("{execute}: {error}"))
    })
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
    for test in [&with, &without] {
        test.sql(&format!(
            "delete from houston.workers; update houston.installation set frame_secret = 'same';
             insert into houston.tenants (id, name) values ('{ASKING}', 'asking')"
        ));
    }
    (with, without)
}

#[tokio::test(flavor = "multi_thread")]
async fn query_without_its_tenant_finds_nothing_of_others() {
    let (with, without) = databases().await;
    let mut full = PgConnection::connect(with.database.url()).await.unwrap();
    let mut empty = PgConnection::connect(without.database.url()).await.unwrap();
    let request = format!(
        "select set_config('role', 'houston_api', true), set_config('houston.tenant', '{ASKING}', true)"
    );
    let (mut found, mut leaks, mut tried) = (BTreeMap::new(), Vec::new(), 0);
    let before = with.sql("select public.fingerprint()");
    for query in queries() {
        let types = query.types.join(", ");
        let types = if types.is_empty() { types } else { format!("({types})") };
        let prepare = format!("prepare q{types} as {}", query.text);
        for connection in [&mut full, &mut empty] {
            sqlx::raw_sql(AssertSqlSafe(prepare.clone())).execute(connection).await.unwrap();
        }
        for choice in 0..CHOICES {
            let arguments: Vec<String> =
                (0..query.types.len()).map(|nth| argument(&query, nth, choice)).collect();
            let arguments = arguments.join(", ");
            let execute =
                if arguments.is_empty() { "execute q".to_owned() } else { format!("execute q({arguments})") };
            let alone = answer(&mut empty, "", &execute).await;
            sqlx::raw_sql("rollback").execute(&mut empty).await.unwrap();
            let open = answer(&mut full, "", &execute).await;
            sqlx::raw_sql("rollback").execute(&mut full).await.unwrap();
            let walled = answer(&mut full, &request, &execute).await;
            if walled.is_ok() {
                let after = "select set_config('role', 'none', true), public.fingerprint()";
                let row = sqlx::raw_sql(after).fetch_one(&mut full).await.unwrap();
                let is_same = row.try_get_raw(1).unwrap().as_str().unwrap() == before;
                if !is_same {
                    leaks.push(format!("{} {choice}: changed something", query.name));
                }
            }
            sqlx::raw_sql("rollback").execute(&mut full).await.unwrap();
            if open != alone {
                found.insert(query.name.clone(), ());
            }
            // An error reads nothing.
            if walled.is_ok() && walled != alone && !OF_THE_SERVER.contains(&query.name.as_str()) {
                leaks.push(format!("{} {choice}: {walled:?}, but alone {alone:?}", query.name));
            }
        }
        tried += 1;
        for connection in [&mut full, &mut empty] {
            sqlx::raw_sql("deallocate q").execute(connection).await.unwrap();
        }
    }
    println!("{} of {tried} found something without the wall", found.len());
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert!(found.len() * 2 > tried, "only {} of {tried} would have found something", found.len());
}

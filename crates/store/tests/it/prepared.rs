//! The descriptions of queries in `.sqlx`, from which a build without a database takes their types, are those of this schema.

use std::collections::BTreeSet;
use std::fs::read_dir;

use serde::Deserialize;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Column, Connection, Either, Executor, PgConnection, SqlSafeStr, Statement};

use crate::rules::{root, sources};
use crate::test_store::TestStore;

/// What `cargo xtask prepare` writes for a query.
#[derive(Deserialize)]
struct Prepared {
    query: String,
    describe: Description,
}

#[derive(Deserialize)]
struct Description {
    columns: Vec<DescribedColumn>,
    parameters: Parameters,
    nullable: Vec<Option<bool>>,
}

#[derive(Deserialize)]
struct DescribedColumn {
    name: String,
    type_info: String,
    origin: Value,
}

#[derive(Deserialize)]
struct Parameters {
    #[serde(rename = "Left")]
    types: Vec<String>,
}

fn prepared() -> Vec<Prepared> {
    let folder = root().join("crates/store/.sqlx");
    let files = read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    files.map(|text| serde_json::from_slice(&text).unwrap()).collect()
}

/// A type as `.sqlx` names it.
fn type_name(info: &sqlx::postgres::PgTypeInfo) -> String {
    let text = format!("{info:?}");
    text.trim_start_matches("PgTypeInfo(").trim_end_matches(')').to_owned()
}

/// `table.column` of each column that is never null.
async fn never_null(connection: &mut PgConnection) -> BTreeSet<String> {
    let all: Vec<String> = sqlx::query_scalar(
        "select format('%s.%s', c.relname, a.attname) from pg_attribute a join pg_class c on c.oid = a.attrelid
          where c.relnamespace = 'houston'::regnamespace and a.attnotnull and a.attnum > 0",
    )
    .fetch_all(connection)
    .await
    .unwrap();
    all.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn descriptions_of_queries_fit_the_schema() {
    let test = TestStore::start().await;
    let mut connection = PgConnection::connect(test.database.url()).await.unwrap();
    let never_null = never_null(&mut connection).await;
    let mut wrong = Vec::new();
    for Prepared { query, describe } in prepared() {
        let name = query.lines().next().unwrap_or_default().to_owned();
        let statement = match (&mut connection).prepare(AssertSqlSafe(query).into_sql_str()).await {
            Ok(statement) => statement,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let columns: Vec<(String, String)> = statement
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), type_name(column.type_info())))
            .collect();
        let described = describe.columns.iter().map(|column| (column.name.clone(), column.type_info.clone()));
        if columns != described.collect::<Vec<_>>() {
            wrong.push(format!("{name}: other columns: {columns:?}"));
        }
        let parameters = match statement.parameters() {
            Some(Either::Left(types)) => types.iter().map(type_name).collect(),
            _ => Vec::new(),
        };
        if parameters != describe.parameters.types {
            wrong.push(format!("{name}: other parameters: {parameters:?}"));
        }
        for (column, nullable) in describe.columns.iter().zip(&describe.nullable) {
            let origin = &column.origin["Table"];
            if let (Some(false), Some(table), Some(of)) =
                (nullable, origin["table"].as_str(), origin["name"].as_str())
                && !never_null.contains(&format!("{table}.{of}"))
            {
                wrong.push(format!("{name}: {table}.{of} may be null"));
            }
        }
    }
    assert!(wrong.is_empty(), "run `cargo xtask prepare` and commit the changes:\n{}", wrong.join("\n"));
}

#[test]
fn each_description_is_of_a_query_in_the_source() {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    // A macro makes these texts of that of another query.
    let made = ["tools", "plans"].map(|with| format!("store::step::statement::write_with_{with}"));
    let mut unprepared = BTreeSet::from(made);
    for source in sources() {
        for (at, start) in source.text.match_indices("-- store::") {
            let rest = &source.text[at + start.len()..];
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
            unprepared.insert(format!("store::{}", &rest[..end]));
        }
    }
    let names = prepared().into_iter().map(|one| one.query.split_whitespace().nth(1).unwrap().to_owned());
    // A name that occurs twice is that of a query before and after a change.
    let wrong: Vec<String> = names.filter(|name| !unprepared.remove(name)).collect();
    assert!(wrong.is_empty(), "run `cargo xtask prepare` and commit the changes: {wrong:?}");
}

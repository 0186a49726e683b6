//! Rules for tables and functions, read from the catalog, so that an installation can be spread over several Postgres
//! servers or moved to a distributed one. Everything of a user is on one server; tenants, agents, teams and keys are
//! copied to all. The rules for the text of SQL are in `rules/sharding.rs`.

use std::collections::BTreeSet;

use crate::test_store::TestStore;

/// Tables that every server has a copy of.
const COPIED: [&str; 7] =
    ["tenants", "api_keys", "agents", "teams", "team_agents", "tool_sources", "webhooks"];

/// Tables that each server has for itself.
const LOCAL: [&str; 16] = [
    "moved_shards",
    "paused_lanes",
    "resumed_lanes",
    "retention_walks",
    "audit",
    "migrations",
    "workers",
    "cron_ticks",
    "health_changes",
    "health_checks",
    "settings",
    "installation",
    "functions",
    "erased_spending",
    "readers",
    "replays",
];

/// Columns with the id of a user or an agentable: all rows that name each other by them have one shard.
const OWNERS: [&str; 9] = [
    "agentable_id",
    "user_id",
    "author_id",
    "parent_id",
    "parent_depth",
    "forked_from",
    "owner_id",
    "skill",
    "plan_id",
];

/// Unique indexes whose columns contain no id of a user's thing, and why they are unique over all servers nevertheless.
const UNIQUE: [(&str, &str); 4] = [
    ("users_tenant_id_external_id_key", "a user has the shard of the external id"),
    ("idempotency_keys_pkey", "a key has the shard of what its request is for"),
    ("mcp_logins_by_state", "it is the hash of 256 random bits"),
    ("erasures_tenant_id_resource_id_key", "an erasure has the shard of what it erases"),
];

fn lines(test: &TestStore, sql: &str) -> BTreeSet<String> {
    test.sql(sql).lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_has_no_triggers_and_no_sequences() {
    let test = TestStore::start().await;
    let found = lines(
        &test,
        "select 'trigger ' || t.tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
          where c.relnamespace = 'houston'::regnamespace and not t.tgisinternal
         union all
         select 'sequence ' || c.relname from pg_class c
          where c.relnamespace = 'houston'::regnamespace and c.relkind = 'S'",
    );
    assert_eq!(found, named([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_take_no_rows_of_tables() {
    let test = TestStore::start().await;
    let found = lines(
        &test,
        "select distinct p.proname from pg_proc p
          cross join lateral unnest(p.proargtypes) as a (type) join pg_type t on t.oid = a.type
          where p.pronamespace = 'houston'::regnamespace and t.typtype = 'c'",
    );
    assert_eq!(found, named([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_keys_never_cross_users() {
    let test = TestStore::start().await;
    // A reference to a copied table is local everywhere. All others name the user or the agentable of the row.
    let found = lines(
        &test,
        &format!(
            "select f.conname from pg_constraint f
               join pg_class c on c.oid = f.conrelid join pg_class r on r.oid = f.confrelid
              where f.contype = 'f' and c.relnamespace = 'houston'::regnamespace
                and r.relname not in ({})
                and not (r.relname in ('users', 'agentables', 'skills', 'plans')
                         and not exists (select from unnest(f.conkey) as k (n)
                                           join pg_attribute a on a.attrelid = c.oid and a.attnum = k.n
                                          where a.attname not in ({})))",
            quoted(&COPIED),
            quoted(&OWNERS)
        ),
    );
    assert_eq!(found, named([]));
    let from_copied = lines(
        &test,
        &format!(
            "select f.conname from pg_constraint f
               join pg_class c on c.oid = f.conrelid join pg_class r on r.oid = f.confrelid
              where f.contype = 'f' and c.relnamespace = 'houston'::regnamespace
                and c.relname in ({0}) and r.relname not in ({0})",
            quoted(&COPIED)
        ),
    );
    assert_eq!(from_copied, named([]), "copied tables name only copied tables");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_users_are_unique_within_their_shard() {
    let test = TestStore::start().await;
    // An id of a user's thing is a uuid beside tenant_id.
    let found = lines(
        &test,
        &format!(
            "select i.relname from pg_index x join pg_class i on i.oid = x.indexrelid
               join pg_class c on c.oid = x.indrelid
              where c.relnamespace = 'houston'::regnamespace and x.indisunique
                and c.relname not in ({}, {})
                and not exists (select from unnest(x.indkey) as k (n)
                                  join pg_attribute a on a.attrelid = c.oid and a.attnum = k.n
                                 where a.atttypid = 'uuid'::regtype
                                   and a.attname not in ('tenant_id', 'write_id', 'resource_id'))",
            quoted(&COPIED),
            quoted(&LOCAL)
        ),
    );
    assert_eq!(found, named(UNIQUE.map(|(name, _)| name)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_a_user_names_its_shard() {
    let test = TestStore::start().await;
    // By its own id or by that of its agentable or user, without a look at another table.
    let found = lines(
        &test,
        &format!(
            "select c.relname from pg_class c
              where c.relnamespace = 'houston'::regnamespace and c.relkind in ('r', 'p')
                and c.relname not in ({}, {})
                and not exists (select from pg_attribute a
                                 where a.attrelid = c.oid and a.atttypid = 'uuid'::regtype and a.attnotnull
                                   and a.attname in ('id', 'agentable_id', 'user_id', 'resource_id', 'owner_id', 'plan_id'))",
            quoted(&COPIED),
            quoted(&LOCAL)
        ),
    );
    assert_eq!(found, named([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_made_in_sql_are_like_those_of_rust() {
    let test = TestStore::start().await;
    let before = houston_domain::id::Ids::new(std::sync::Arc::new(houston_domain::clock::SystemClock));
    let earliest: uuid::Uuid = before.next();
    let made: Vec<uuid::Uuid> = test
        .sql(&format!("select houston.id_beside('{}') from generate_series(1, 1000)", test.goal.0))
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let unique: BTreeSet<_> = made.iter().collect();
    assert_eq!(unique.len(), 1000);
    for id in made {
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122), "{id}");
        assert_eq!(houston_domain::id::shard(id), houston_domain::id::shard(test.goal), "{id}");
        let millis = |id: uuid::Uuid| id.get_timestamp().unwrap().to_unix();
        assert!(millis(id) >= millis(earliest), "{id} is made after {earliest}");
    }
}

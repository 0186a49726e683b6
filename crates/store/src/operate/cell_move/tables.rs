//! The tables with rows of users, read from the catalogue.

use houston_domain::cell::ShardRange;
use sqlx::{PgConnection, Row as _};

use super::all;
use crate::error::Result;

/// Tables whose rows belong to no user, are copied to all cells, or may be lost (rates).
const STAY: [&str; 22] = [
    "agents",
    "api_keys",
    "audit",
    "cron_ticks",
    "erased_spending",
    "functions",
    "health_changes",
    "health_checks",
    "installation",
    "migrations",
    "moved_shards",
    "paused_lanes",
    "rates",
    "readers",
    "replays",
    "resumed_lanes",
    "settings",
    "team_agents",
    "teams",
    "tenants",
    "tool_sources",
    "workers",
];

/// Whose rows are moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rows {
    /// The users, as an array in SQL.
    pub(super) users: String,
    /// Their agentables, as an array in SQL.
    pub(super) agentables: String,
    /// Their shards.
    pub(super) shards: ShardRange,
}

impl Rows {
    /// The condition that an id is that of a thing of these users.
    pub(super) fn in_shards(&self, column: &str) -> String {
        let ShardRange { first, last } = self.shards;
        format!("right({column}::text, 4) between '{first}' and '{last}'")
    }

    /// The condition for idempotency keys of requests of these users, whatever the requests made. Those of the tenant, whose ids
    /// have any shard, are no such keys.
    pub(super) fn idempotency_keys(&self) -> String {
        format!(
            "{} and not (exists (select from houston.agents a where a.id = resource_id)
                         or exists (select from houston.teams t where t.id = resource_id))",
            self.in_shards("resource_id")
        )
    }

    /// The condition for their client tokens, which their cell and the home have.
    pub(super) fn tokens(&self) -> String {
        format!("parent_id is not null and user_id = any ({})", self.users)
    }
}

/// One table, with its columns and the condition for the rows of the users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) condition: String,
}

/// The tables with rows of users, parents before children.
pub(super) async fn tables(source: &mut PgConnection, of: &Rows) -> Result<Vec<Table>> {
    let found = all(
        source,
        "select c.relname::text,
                array(select a.attname::text from pg_attribute a
                       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
                       order by a.attnum),
                array(select distinct p.relname::text from pg_constraint f join pg_class p on p.oid = f.confrelid
                       where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid),
                exists (select from pg_attribute a
                         where a.attrelid = c.oid and a.attname = 'agentable_id' and a.attnotnull)
           from pg_class c where c.relnamespace = 'houston'::regnamespace and c.relkind = 'r' order by c.relname",
    )
    .await?;
    let mut left = Vec::with_capacity(found.len());
    for row in found {
        let (name, columns, mut parents): (String, Vec<String>, Vec<String>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if let Some(condition) = condition(&name, (columns.as_slice(), row.try_get(3)?), of) {
            parents.extend(found_by(&name).iter().map(|parent| (*parent).to_owned()));
            left.push((Table { name, columns, condition }, parents));
        }
    }
    Ok(in_order(left))
}

/// Tables by whose rows those of a table are found, which are therefore deleted after it.
fn found_by(table: &str) -> &'static [&'static str] {
    match table {
        "attachment_parts" => &["attachments"],
        "model_calls" => &["runs", "sessions"],
        "tool_calls" => &["runs"],
        _ => &[],
    }
}

/// The condition for the rows of users, by columns that have an index; `None` for a table that stays. With `names_agentable`,
/// each row names one.
fn condition(table: &str, (columns, names_agentable): (&[String], bool), of: &Rows) -> Option<String> {
    let Rows { users, agentables, .. } = of;
    let in_users = |column: &str| format!("{column} = any ({users})");
    let in_both = |column: &str| format!("({} or {column} = any ({agentables}))", in_users(column));
    match table {
        "users" => return Some(in_users("id")),
        "agentables" => return Some(in_users("user_id")),
        "idempotency_keys" => return Some(of.idempotency_keys()),
        // Also of users who are gone.
        "erasures" => return Some(of.in_shards("id")),
        "attachment_parts" => {
            let attachments = format!("select id from houston.attachments where {}", in_users("user_id"));
            return Some(format!("attachment_id = any (array({attachments}))"));
        }
        "model_calls" | "tool_calls" => {
            let by = found_by(table).iter();
            let ids =
                by.map(|by| format!("select id from houston.{by} where agentable_id = any ({agentables})"));
            return Some(format!("run_id = any (array({}))", ids.collect::<Vec<_>>().join(" union all ")));
        }
        // The others are the tenant's, of which each cell has a copy.
        "webhooks" => return Some(format!("run_id is not null and agentable_id = any ({agentables})")),
        _ if STAY.contains(&table) => return None,
        _ => {}
    }
    if names_agentable {
        return Some(format!("agentable_id = any ({agentables})"));
    }
    let has = |column: &str| columns.iter().any(|other| other == column);
    let keys: Vec<String> = ["agentable_id", "user_id", "owner_id", "plan_id"]
        .into_iter()
        .filter(|column| has(column))
        .map(|column| match column {
            "user_id" => in_users(column),
            "owner_id" => in_both(column),
            _ => format!("{column} = any ({agentables})"),
        })
        .collect();
    // A table without any of them: its rows are found by nothing, and the foreign keys will say so.
    (!keys.is_empty()).then(|| format!("({})", keys.join(" or ")))
}

/// Sorts tables so that each comes after those it refers to.
fn in_order(mut left: Vec<(Table, Vec<String>)>) -> Vec<Table> {
    let mut sorted: Vec<Table> = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |parents: &[String], left: &[(Table, Vec<String>)]| {
            left.iter().any(|(other, _)| parents.contains(&other.name))
        };
        let next = (0..left.len()).find(|nth| !waits(&left[*nth].1, &left));
        // A circle: there is none today. Its foreign keys would refuse the rows.
        sorted.push(left.remove(next.unwrap_or(0)).0);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str, parents: &[&str]) -> (Table, Vec<String>) {
        let table = Table { name: name.to_owned(), columns: Vec::new(), condition: String::new() };
        (table, parents.iter().map(|parent| (*parent).to_owned()).collect())
    }

    #[test]
    fn tables_come_after_those_they_refer_to() {
        let sorted = in_order(vec![table("a", &["c", "tenants"]), table("b", &[]), table("c", &["b"])]);
        assert_eq!(sorted.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["b", "c", "a"]);
    }

    #[test]
    fn rows_are_found_by_user_and_agentable() {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let rows = Rows { users: "U".into(), agentables: "A".into(), shards: "0010-001f".parse().unwrap() };
        let of = |table: &str, names: &[&str]| condition(table, (columns(names).as_slice(), false), &rows);
        assert_eq!(of("users", &["id"]).unwrap(), "id = any (U)");
        assert_eq!(of("history", &["agentable_id", "seq"]).unwrap(), "(agentable_id = any (A))");
        let both = of("knowledge_items", &["agentable_id", "user_id"]).unwrap();
        assert_eq!(both, "(agentable_id = any (A) or user_id = any (U))");
        assert_eq!(of("erasures", &["id"]).unwrap(), "right(id::text, 4) between '0010' and '001f'");
        let always = condition("run_locks", (columns(&["agentable_id", "user_id"]).as_slice(), true), &rows);
        assert_eq!(always.unwrap(), "agentable_id = any (A)", "the users of locks have no index");
        let calls = "run_id = any (array(select id from houston.runs where agentable_id = any (A)))";
        assert_eq!(of("tool_calls", &["run_id", "agentable_id"]).unwrap(), calls);
        assert_eq!(of("api_keys", &["user_id"]), None);
        assert_eq!(of("workers", &["id"]), None);
    }
}

//! Checks that all ids of a user's things are in the user's shard: see `houston_domain::id::Shard`.

use std::io;

use crate::installation::TestInstallation;

/// Tables whose rows belong to no user, or name one thing of a user only.
const TABLES: [&str; 8] =
    ["audit", "tenants", "api_keys", "agents", "teams", "team_agents", "workers", "idempotency_keys"];

/// Columns with ids that belong to no user: nothing of a user is found by them.
const COLUMNS: [&str; 11] = [
    "tenant_id",
    "agent_id",
    "team_id",
    "api_key_id",
    "webhook_id",
    "claim",
    "worker_id",
    "holder",
    "run_token",
    "write_id",
    "last_write_id",
];

impl TestInstallation {
    /// The ids in another shard than the other ids of the same row, as `table.column id`. All ids in one row belong to
    /// one user, and each thing of a user names the user or an agentable of theirs. Also users in another cell than that
    /// of their shard, unless they were moved there. Empty in an installation that works.
    ///
    /// An imported or copied large result (`tool_results.id`) keeps the id that texts name, and is found by its
    /// agentable.
    ///
    /// # Errors
    ///
    /// If Postgres cannot be reached.
    pub fn ids_in_wrong_shards(&self) -> io::Result<Vec<String>> {
        let list =
            |names: &[&str]| names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let columns = self.database.sql(&format!(
            "select table_name || '.' || column_name from information_schema.columns
              where table_schema = 'houston' and udt_name = 'uuid' and is_generated = 'NEVER'
                and table_name not in ({}) and column_name not in ({})
              order by table_name, column_name in ('agentable_id', 'user_id') desc, column_name",
            list(&TABLES),
            list(&COLUMNS)
        ))?;
        let mut wrong = Vec::new();
        let mut first = ("", "");
        for (table, column) in columns.lines().filter_map(|line| line.split_once('.')) {
            if first.0 != table {
                first = (table, column);
                continue;
            }
            let imported = match (table, column) {
                ("tool_results", "id") => {
                    "exists (select from houston.history h where h.agentable_id = t.agentable_id and h.epoch = 0)"
                }
                // Accounts of users at servers of their tenant.
                ("mcp_accounts" | "mcp_logins", "owner_id") => "t.owner_id = t.tenant_id",
                _ => "false",
            };
            wrong.push(format!(
                "select '{table}.{column} ' || t.{column} from houston.{table} t
                  where right(t.{column}::text, 4) <> right(t.{}::text, 4) and not {imported}",
                first.1
            ));
        }
        // Events name things by their public ids; the ids of messages that a client sent in a text are not among them.
        for name in ["message_id", "next_message_id", "session_id", "task_id", "task_run_id", "run_id"] {
            wrong.push(format!(
                "select 'events.data.{name} ' || (e.data ->> '{name}') from houston.events e
                  where right(e.data ->> '{name}', 4) <> right(e.agentable_id::text, 4)"
            ));
        }
        let mut found: Vec<String> = Vec::new();
        for (first, last, cell) in self.ranges() {
            let mut here = wrong.clone();
            here.push(format!(
                "select 'users.id in the cell {first:04x}-{last:04x} ' || u.id from houston.users u
                  where right(u.id::text, 4) not between '{first:04x}' and '{last:04x}'
                    and not exists (select from houston.moved_shards h
                                     where h.is_here and ('x' || right(u.id::text, 4))::bit(16)::integer between h.first and h.last)"
            ));
            found.extend(cell.database.sql(&here.join("\nunion all\n"))?.lines().map(str::to_owned));
        }
        Ok(found)
    }
}

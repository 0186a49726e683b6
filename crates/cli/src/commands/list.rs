//! `houston list`: lists agents, users, runs and teams with the ids that other commands take.

use anyhow::anyhow;
use chrono::SecondsFormat;
use clap::Args;
use houston_domain::cell::Cells;
use houston_domain::id::{AgentId, RunId, TeamId, UserId};
use houston_store::Store;
use houston_store::directory::{Filter, Listed};
use serde_json::{Value, json};

use super::agentable::{one_line, table};
use super::{Context, Failure, Result};
use crate::config::{Loaded, like};
use crate::output::{print, print_json, print_stderr};

/// What can be listed beside kinds of agents.
const NOUNS: [&str; 4] = ["users", "runs", "agents", "teams"];

/// List goals and other kinds, users, runs, agents or teams, newest first, with their ids.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// What to list: `goals`, `tasks`, `user_agents` or another kind; `users`, `runs`, `agents` or `teams`
    /// [default: all kinds]
    what: Option<String>,
    /// Only those of this user, `user_…`
    #[arg(long)]
    user: Option<UserId>,
    /// Only those of this tenant, by its name
    #[arg(long)]
    tenant: Option<String>,
    /// Maximum number of rows
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Users,
    Agentables(Vec<String>),
    Runs,
    Agents,
    Teams,
}

impl What {
    /// Parses the argument: singular or plural, e.g. `goals` or `goal`.
    fn read(given: Option<&str>, loaded: &Loaded) -> anyhow::Result<Self> {
        let kinds = || loaded.kinds.keys();
        let Some(given) = given else { return Ok(Self::Agentables(kinds().cloned().collect())) };
        let plural = given.trim_end_matches('s').to_owned() + "s";
        Ok(match plural.as_str() {
            "users" => Self::Users,
            "runs" => Self::Runs,
            "agents" => Self::Agents,
            "teams" => Self::Teams,
            _ => match kinds().find(|kind| plural == format!("{kind}s") || given == kind.as_str()) {
                Some(kind) => Self::Agentables(vec![kind.clone()]),
                None => {
                    let known: Vec<String> =
                        kinds().map(|kind| format!("{kind}s")).chain(NOUNS.map(str::to_owned)).collect();
                    let words: Vec<&str> = known.iter().map(String::as_str).collect();
                    let shown: String = given.chars().take(80).collect();
                    let (allowed, like) = (known.join(", "), like(given, &words));
                    anyhow::bail!("`{shown}` cannot be listed; allowed are: {allowed}{like}");
                }
            },
        })
    }

    /// The rows of all cells, newest first; agents and teams are the same in each.
    async fn rows(&self, stores: &Cells<Store>, filter: Filter<'_>) -> Result<Vec<Listed>> {
        let mut rows = Vec::new();
        let of_tenants = matches!(self, Self::Agents | Self::Teams);
        for store in stores.iter().take(if of_tenants { 1 } else { usize::MAX }) {
            let operator = store.operator();
            rows.extend(match self {
                Self::Users => operator.list_users(filter).await?,
                Self::Agentables(kinds) => operator.list_agentables(kinds, filter).await?,
                Self::Runs => operator.list_runs(filter).await?,
                Self::Agents => operator.list_agents(filter).await?,
                Self::Teams => operator.list_teams(filter).await?,
            });
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.id));
        Ok(rows)
    }

    fn id(&self, row: &Listed) -> String {
        match self {
            Self::Users => UserId(row.id).to_string(),
            Self::Agentables(_) => format!("{}_{}", row.kind, row.id.simple()),
            Self::Runs => RunId(row.id).to_string(),
            Self::Agents => AgentId(row.id).to_string(),
            Self::Teams => TeamId(row.id).to_string(),
        }
    }

    /// The id of its owner: of a run its agentable, else a user.
    fn of(&self, row: &Listed) -> Option<String> {
        let of = row.of?;
        Some(match self {
            Self::Runs => format!("{}_{}", row.kind, of.simple()),
            _ => UserId(of).to_string(),
        })
    }

    fn json(&self, row: &Listed) -> Value {
        let created_at = row.created_at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let (id, of) = (self.id(row), self.of(row));
        let Listed { tenant, kind, name, status, .. } = row;
        match self {
            Self::Users => json!({
                "id": id, "external_id": status, "name": name, "tenant": tenant, "created_at": created_at,
            }),
            Self::Agentables(_) => json!({
                "id": id, "kind": kind, "title": name, "status": status, "user_id": of, "tenant": tenant,
                "created_at": created_at,
            }),
            Self::Runs => json!({
                "id": id, "status": status, "agentable_id": of, "title": name, "tenant": tenant,
                "created_at": created_at,
            }),
            Self::Agents => json!({
                "id": id, "kind": kind, "name": name, "status": status, "tenant": tenant, "created_at": created_at,
            }),
            Self::Teams => json!({
                "id": id, "kind": kind, "name": name, "tenant": tenant, "created_at": created_at,
            }),
        }
    }
}

impl List {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let what = What::read(self.what.as_deref(), &context.loaded).map_err(Failure::Usage)?;
        if self.user.is_some() && matches!(what, What::Agents | What::Teams) {
            return Err(Failure::Usage(anyhow!(
                "agents and teams belong to a tenant, not to a user: use --tenant"
            )));
        }
        context.with_stores(async |_, stores| {
            let limit = i64::from(self.limit);
            let filter = Filter { tenant: self.tenant.as_deref(), user: self.user, limit: limit + 1 };
            let mut rows = what.rows(&stores, filter).await?;
            let more = rows.len() > usize::from(self.limit);
            rows.truncate(self.limit.into());
            if self.json {
                let data: Vec<Value> = rows.iter().map(|row| what.json(row)).collect();
                print_json(&json!({"data": data, "has_more": more}));
                return Ok(());
            }
            show(&what, &rows);
            if rows.is_empty() {
                print_stderr("nothing found");
            } else if more {
                print_stderr(&format!("more rows exist: use --limit {}", u32::from(self.limit) * 2));
            }
            Ok(())
        })
    }
}

fn show(what: &What, rows: &[Listed]) {
    // A column with an empty heading is left out.
    let heads = match what {
        What::Users => ["ID", "EXTERNAL ID", "", "TENANT", "CREATED", "NAME"],
        What::Agentables(_) => ["ID", "STATUS", "USER", "TENANT", "CREATED", "TITLE"],
        What::Runs => ["ID", "STATUS", "OF", "TENANT", "CREATED", "TITLE"],
        What::Agents => ["ID", "STATUS", "KIND", "TENANT", "CREATED", "NAME"],
        What::Teams => ["ID", "", "KIND", "TENANT", "CREATED", "NAME"],
    };
    let cells = |row: &Listed| -> [String; 6] {
        let of = what.of(row).unwrap_or_else(|| row.kind.clone());
        let status = row.status.clone().unwrap_or_else(|| "-".to_owned());
        let created = row.created_at.format("%Y-%m-%d %H:%M").to_string();
        [what.id(row), one_line(&status, 40), of, one_line(&row.tenant, 30), created, one_line(&row.name, 60)]
    };
    let keep = |cells: [String; 6]| -> Vec<String> {
        cells.into_iter().zip(heads).filter(|(_, head)| !head.is_empty()).map(|(cell, _)| cell).collect()
    };
    let heads: Vec<&str> = heads.into_iter().filter(|head| !head.is_empty()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| keep(cells(row))).collect();
    table(&heads, &rows).iter().for_each(|line| print(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_takes_any_kind_and_suggests_similar_names() {
        let tools: Vec<String> = crate::toolbox::built_in();
        let loaded = crate::config::load(None, &tools).unwrap();
        let read = |given: &str| What::read(Some(given), &loaded);
        assert_eq!(read("user").unwrap(), What::Users);
        assert_eq!(read("runs").unwrap(), What::Runs);
        assert_eq!(read("user_agents").unwrap(), What::Agentables(vec!["user_agent".to_owned()]));
        assert_eq!(read("goal").unwrap(), What::Agentables(vec!["goal".to_owned()]));
        assert!(matches!(What::read(None, &loaded).unwrap(), What::Agentables(kinds) if kinds.len() == 5));
        let error = read("gaols").unwrap_err().to_string();
        assert!(error.contains("did you mean `goals`?") && error.contains("teams"), "{error}");
    }
}

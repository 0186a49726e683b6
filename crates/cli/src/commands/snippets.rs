//! `houston snippets`: lists the code that agents keep for a user, and deletes it.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_domain::id::UserId;
use houston_domain::snippet;
use houston_store::Error;
use houston_store::snippet::SnippetEntry;
use serde_json::{Value, json};

use super::agentable::{Database, one_line, table};
use super::{Context, Failure, audit};
use crate::output::{print, print_json};

/// How many snippets are printed: more than a user may have by default.
const MOST: i64 = 10_000;

/// List the code that agents keep for a user and the tools made of it, or delete it.
#[derive(Debug, Args)]
pub(crate) struct Snippets {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the snippets of a user
    List {
        /// `user_…`
        user: UserId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
    /// Delete a snippet, and the tool that it is
    Delete {
        /// `user_…`
        user: UserId,
        /// Name of the snippet
        name: String,
        #[command(flatten)]
        database: Database,
    },
}

impl Snippets {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { user, json, database } => database.with(context, async |_, stores| {
                let snippets = stores.of(user).operator().snippets(user, MOST).await?;
                show(&snippets, json);
                Ok(ExitCode::SUCCESS)
            }),
            Action::Delete { user, name, database } => database.with(context, async |_, stores| {
                let store = stores.of(user);
                let deleted = store.operator().delete_snippet(user, &name).await;
                deleted.map_err(|error| match error {
                    Error::NotFound { .. } => Failure::Other(anyhow!(
                        "{user} has no snippet `{name}`; `houston snippets list {user}` prints those there are"
                    )),
                    error => error.into(),
                })?;
                let tenant = store.operator().tenant_of(user).await?;
                audit::record(store, Some(tenant), "delete_snippet_of_user", user.to_string()).await;
                print(&format!("{name}: deleted"));
                Ok(ExitCode::SUCCESS)
            }),
        }
    }
}

fn show(snippets: &[SnippetEntry], json: bool) {
    let tool = |entry: &SnippetEntry| entry.is_tool.then(|| snippet::tool_name(&entry.name));
    if json {
        let rows: Vec<Value> = snippets
            .iter()
            .map(|entry| {
                json!({
                    "name": entry.name, "language": entry.language, "description": entry.description,
                    "chars": entry.chars, "tool": tool(entry), "untrusted": entry.untrusted,
                    "created_at": entry.created_at, "updated_at": entry.updated_at,
                })
            })
            .collect();
        return print_json(&json!({"snippets": rows}));
    }
    if snippets.is_empty() {
        return print("there are no snippets");
    }
    let rows: Vec<[String; 5]> = snippets
        .iter()
        .map(|entry| {
            [
                entry.name.clone(),
                entry.language.clone(),
                entry.chars.to_string(),
                tool(entry).unwrap_or_else(|| "-".to_owned()),
                one_line(&entry.description, 80),
            ]
        })
        .collect();
    table(&["NAME", "LANGUAGE", "CHARACTERS", "TOOL", "WHAT IT DOES"], &rows)
        .iter()
        .for_each(|line| print(line));
}

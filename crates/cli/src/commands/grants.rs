//! `houston grants`: lists what people have allowed for good, and revokes it.

use std::process::ExitCode;

use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use houston_domain::id::{GrantId, UserId};
use houston_protocol::grant::GrantResponse;
use serde_json::json;

use super::agentable::{Database, USERS, one_line, table};
use super::{Context, Failure};
use crate::output::{print, print_json};

/// List the tools that a user allowed for good (`houston approvals approve --remember`), or revoke one.
#[derive(Debug, Args)]
pub(crate) struct Grants {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the grants of a user
    List {
        /// `user_…`
        user: UserId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: Database,
    },
    /// Revoke a grant: calls that it covered are asked about again
    Revoke {
        /// `grant_…`
        id: GrantId,
        #[command(flatten)]
        database: Database,
    },
}

impl Grants {
    pub(crate) fn run(self, context: Context) -> Result<ExitCode, Failure> {
        match self.action {
            Action::List { user, json, database } => database.with_api(context, async |api| {
                let api = api.of(user, USERS).await?;
                show(&api.list(&format!("/v1/users/{user}/grants"), usize::MAX).await?.data, json);
                Ok(())
            }),
            Action::Revoke { id, database } => database.with_api(context, async |api| {
                let api = api.of(id, "`houston grants list USER` prints those of a user").await?;
                api.delete(&format!("/v1/grants/{id}")).await?;
                print(&format!("{id}: revoked"));
                Ok(())
            }),
        }
    }
}

fn show(grants: &[GrantResponse], json: bool) {
    if json {
        return print_json(&json!({"grants": grants}));
    }
    if grants.is_empty() {
        return print("nothing is allowed for good");
    }
    let rows: Vec<[String; 5]> = grants
        .iter()
        .map(|grant| {
            let when = serde_json::to_string(&grant.when).unwrap_or_default();
            [
                grant.id.to_string(),
                grant.agentable.clone().unwrap_or_else(|| "all of the user's".to_owned()),
                grant.created_at.0.to_rfc3339_opts(SecondsFormat::Secs, true),
                grant.tool.clone(),
                if grant.when.is_empty() { "any arguments".to_owned() } else { one_line(&when, 80) },
            ]
        })
        .collect();
    table(&["ID", "FOR", "SINCE", "TOOL", "WHEN"], &rows).iter().for_each(|line| print(line));
}

//! `houston grants`: lists what people have allowed for good, and revokes it.

use std::process::ExitCode;

use anyhow::anyhow;
use chrono::SecondsFormat;
use clap::{Args, Subcommand};
use houston_domain::id::{GrantId, UserId};
use houston_store::Error;
use houston_store::grants::{MAX_GRANTS, StoredGrant};
use serde_json::{Value, json};

use super::agentable::{Database, one_line, table};
use super::{Context, Failure, audit};
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
            Action::List { user, json, database } => database.with(context, async |_, stores| {
                let grants = stores.of(user).operator().grants(user, MAX_GRANTS).await?;
                show(&grants, json);
                Ok(ExitCode::SUCCESS)
            }),
            Action::Revoke { id, database } => database.with(context, async |_, stores| {
                let store = stores.of(id);
                let tenant = store.operator().tenant_of_thing(id.0).await?;
                let revoked = store.operator().revoke_grant(id).await;
                revoked.map_err(|error| match error {
                    Error::NotFound { .. } => Failure::Other(anyhow!(
                        "there is no {id}; `houston grants list USER` prints those of a user"
                    )),
                    error => error.into(),
                })?;
                if tenant.is_some() {
                    audit::record(store, tenant, "revoke_grant", id.to_string()).await;
                }
                print(&format!("{id}: revoked"));
                Ok(ExitCode::SUCCESS)
            }),
        }
    }
}

fn show(grants: &[StoredGrant], json: bool) {
    let of = |grant: &StoredGrant| grant.agentable.as_ref().map(|(kind, id)| id.public_id(kind));
    if json {
        let rows: Vec<Value> = grants
            .iter()
            .map(|grant| {
                json!({
                    "id": grant.id, "user_id": grant.user, "agentable": of(grant), "tool": grant.grant.tool,
                    "when": grant.grant.when, "granted_by": grant.granted_by, "created_at": grant.created_at,
                })
            })
            .collect();
        return print_json(&json!({"grants": rows}));
    }
    if grants.is_empty() {
        return print("nothing is allowed for good");
    }
    let rows: Vec<[String; 5]> = grants
        .iter()
        .map(|grant| {
            let when = serde_json::to_string(&grant.grant.when).unwrap_or_default();
            [
                grant.id.to_string(),
                of(grant).unwrap_or_else(|| "all of the user's".to_owned()),
                grant.created_at.to_rfc3339_opts(SecondsFormat::Secs, true),
                grant.grant.tool.clone(),
                if grant.grant.when.is_empty() { "any arguments".to_owned() } else { one_line(&when, 80) },
            ]
        })
        .collect();
    table(&["ID", "FOR", "SINCE", "TOOL", "WHEN"], &rows).iter().for_each(|line| print(line));
}

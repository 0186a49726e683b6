//! `houston grants`: lists what people have allowed for good, and revokes it.

use clap::Subcommand;
use houston_domain::guard::GivenGrant;
use houston_domain::id::GrantId;
use serde_json::json;

use super::agentable::{OfUser, at, one_line, print_rows};
use super::{Context, Result};
use crate::output::print;

/// List the tools that a user allowed for good (`houston approvals approve --remember`), or revoke one.
#[derive(Debug, Subcommand)]
pub(crate) enum Grants {
    /// Print the grants of a user
    List(OfUser),
    /// Revoke a grant: calls that it covered are asked about again
    Revoke {
        /// `grant_…`
        id: GrantId,
    },
}

impl Grants {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::List(of) => of.list(context, "grants", show),
            Self::Revoke { id } => context.with_api(async |api| {
                let api = api.of(id, "`houston grants list USER` prints those of a user").await?;
                api.delete(&format!("/v1/grants/{id}")).await?;
                print(&format!("{id}: revoked"));
                Ok(())
            }),
        }
    }
}

fn show(grants: &[GivenGrant], json: bool) {
    let heads = ["ID", "FOR", "SINCE", "TOOL", "WHEN"];
    let all = json.then(|| json!({"grants": grants}));
    print_rows(all, grants, "nothing is allowed for good", heads, |grant| {
        let when = serde_json::to_string(&grant.when).unwrap_or_default();
        [
            grant.id.to_string(),
            grant.agentable.clone().unwrap_or_else(|| "all of the user's".to_owned()),
            at(grant.created_at.0),
            grant.tool.clone(),
            if grant.when.is_empty() { "any arguments".to_owned() } else { one_line(&when, 80) },
        ]
    });
}

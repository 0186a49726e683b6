//! `houston snippets`: lists the code that agents keep for a user, and deletes it.

use anyhow::anyhow;
use clap::Subcommand;
use houston_domain::id::UserId;
use houston_domain::snippet::SnippetEntry;
use serde_json::json;

use super::agentable::{OfUser, USERS, one_line, print_rows, segment};
use super::{Context, Failure, Result};
use crate::output::print;

/// List the code that agents keep for a user and the tools made of it, or delete it.
#[derive(Debug, Subcommand)]
pub(crate) enum Snippets {
    /// Print the snippets of a user
    List(OfUser),
    /// Delete a snippet, and the tool that it is
    Delete {
        /// `user_…`
        user: UserId,
        /// Name of the snippet
        name: String,
    },
}

impl Snippets {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::List(of) => of.list(context, "snippets", show),
            Self::Delete { user, name } => context.with_api(async |api| {
                let api = api.of(user, USERS).await?;
                let deleted = api.delete(&format!("/v1/users/{user}/snippets/{}", segment(&name))).await;
                let missing = || {
                    anyhow!(
                        "{user} has no snippet `{name}`; `houston snippets list {user}` prints those there are"
                    )
                };
                deleted.map_err(|error| Failure::from(error).or_missing(missing))?;
                print(&format!("{name}: deleted"));
                Ok(())
            }),
        }
    }
}

fn show(snippets: &[SnippetEntry], json: bool) {
    let all = json.then(|| json!({"snippets": snippets}));
    let heads = ["NAME", "LANGUAGE", "CHARACTERS", "TOOL", "WHAT IT DOES"];
    print_rows(all, snippets, "there are no snippets", heads, |entry| {
        [
            entry.name.clone(),
            entry.language.clone(),
            entry.chars.to_string(),
            entry.tool.clone().unwrap_or_else(|| "-".to_owned()),
            one_line(&entry.description, 80),
        ]
    });
}

//! The argument of commands about what a tenant or a user has.

use anyhow::anyhow;
use clap::Args;
use houston_api::Local;
use houston_domain::id::UserId;

use super::agentable::{USERS, one_line};
use super::{Context, Failure, Result};

/// The owner of what a command is about.
#[derive(Debug, Args)]
pub(crate) struct OwnerArg {
    /// A user, `user_…`; without it, the command is about the tenant
    #[arg(long)]
    user: Option<UserId>,
    /// The name of a tenant; `houston dev` works for `demo`
    #[arg(long, default_value = "default", conflicts_with = "user")]
    tenant: String,
}

impl OwnerArg {
    /// Finds the owner, and runs `work` with the API of its tenant and the path before what it has.
    pub(crate) fn with_api(
        self,
        context: Context,
        work: impl AsyncFnOnce(Local, &str) -> Result<()>,
    ) -> Result<()> {
        let Self { user, tenant } = self;
        context.with_api(async |api| match user {
            Some(user) => work(api.of(user, USERS).await?, &format!("/v1/users/{user}")).await,
            None => {
                let found = api.of_tenant(&tenant).await?;
                work(found.ok_or_else(|| no_tenant(&tenant))?, "/v1").await
            }
        })
    }
}

fn no_tenant(name: &str) -> Failure {
    Failure::Other(anyhow!(
        "there is no tenant `{}`: name one with --tenant (that of `houston dev` is `demo`), or create it with a key: \
         `houston key create --tenant NAME`",
        one_line(name, 80)
    ))
}

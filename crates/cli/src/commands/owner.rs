//! The argument of commands about what a tenant or a user has, and the owner that is found.

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use houston_api::Local;
use houston_domain::cell::Cells;
use houston_domain::id::{TenantId, UserId};
use houston_store::copies::Copies;
use houston_store::{Error, Store};

use super::agentable::{Database, USERS, one_line};
use super::{Context, Failure};

/// The owner of what a command is about.
#[derive(Debug, Args)]
pub(crate) struct OwnerArg {
    /// A user, `user_…`; without it, the command is about the tenant
    #[arg(long)]
    user: Option<UserId>,
    /// The name of a tenant; `houston dev` works for `demo`
    #[arg(long, default_value = "default", conflicts_with = "user")]
    tenant: String,
    #[command(flatten)]
    database: Database,
}

/// An owner that exists, and the store with what it has.
pub(crate) struct FoundOwner<'s> {
    pub(crate) store: &'s Store,
    pub(crate) tenant: TenantId,
    /// `None`: the tenant.
    pub(crate) user: Option<UserId>,
    pub(crate) copies: Copies,
}

impl OwnerArg {
    /// Finds the owner, and runs `work` with the API of its tenant and the path before what it has.
    pub(crate) fn with_api(
        self,
        context: Context,
        work: impl AsyncFnOnce(Local, &str) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let Self { user, tenant, database } = self;
        database.with_api(context, async |api| match user {
            Some(user) => work(api.of(user, USERS).await?, &format!("/v1/users/{user}")).await,
            None => {
                let found = api.of_tenant(&tenant).await?;
                work(found.ok_or_else(|| no_tenant(&tenant))?, "/v1").await
            }
        })
    }

    /// Finds the owner and runs `work` with it.
    pub(crate) fn with(
        self,
        context: Context,
        work: impl AsyncFnOnce(&Context, FoundOwner<'_>) -> Result<(), Failure>,
    ) -> Result<ExitCode, Failure> {
        let Self { user, tenant, database } = self;
        database.with(context, async |context, stores| {
            work(&context, find(&stores, user, &tenant).await?).await?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// The owner: this user, or else the tenant of this name.
///
/// # Errors
/// [`Failure::Other`] when there is none.
pub(crate) async fn find<'s>(
    stores: &'s Cells<Store>,
    user: Option<UserId>,
    tenant: &str,
) -> Result<FoundOwner<'s>, Failure> {
    let copies = Copies::new(&stores.map(Store::api));
    if let Some(id) = user {
        let store = stores.of(id);
        let tenant = store.operator().tenant_of_thing(id.0).await?;
        let tenant = tenant.ok_or_else(|| anyhow!("there is no {id}; {USERS}"))?;
        return Ok(FoundOwner { store, tenant, user, copies });
    }
    let store = stores.home();
    let found = store.operator().tenant_named(tenant).await.map_err(|error| match error {
        Error::NotFound { .. } => no_tenant(tenant),
        error => error.into(),
    })?;
    Ok(FoundOwner { store, tenant: found, user, copies })
}

fn no_tenant(name: &str) -> Failure {
    Failure::Other(anyhow!(
        "there is no tenant `{}`: name one with --tenant (that of `houston dev` is `demo`), or create it with a key: \
         `houston key create --tenant NAME`",
        one_line(name, 80)
    ))
}

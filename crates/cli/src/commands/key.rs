//! `houston key`: API keys.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_domain::clock::SystemClock;
use houston_domain::id::{ApiKeyId, Ids, TenantId};
use houston_store::Store;

use super::{Context, Failure, runtime};
use crate::connect;
use crate::output::{print, tell};

/// Make, list and revoke API keys.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// Start, or attach to, the embedded servers when DATABASE_URL is not set
    #[arg(long, global = true)]
    embedded: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a key; it is shown once
    Create {
        /// Whose data it opens; made when there is no such tenant
        #[arg(long, default_value = "default")]
        tenant: String,
        /// What it is for
        #[arg(long, default_value = "key")]
        name: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the keys (never their secrets)
    List,
    /// Make a key useless; running servers notice within seconds
    Revoke {
        /// `key_…`, as `list` shows it
        id: String,
    },
}

/// A fresh key: 256 random bits in hex.
pub(crate) fn secret(ids: &Ids) -> String {
    let mut random = [0; 32];
    ids.fill(&mut random);
    random.iter().fold("hou_".to_owned(), |key, byte| key + &format!("{byte:02x}"))
}

/// Makes a key for the tenant of this name.
pub(crate) async fn create(
    store: &Store,
    ids: &Ids,
    tenant: &str,
    name: &str,
) -> Result<(TenantId, ApiKeyId, String), Failure> {
    let tenant = store.ensure_tenant(ids.next(), tenant).await?;
    let (id, key) = (ids.next(), secret(ids));
    store.create_api_key(id, tenant, name, &key).await?;
    Ok((tenant, id, key))
}

impl Key {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let settings = &context.loaded.settings;
        let addresses = connect::database(settings, &context.folder, self.embedded)?;
        runtime()?.block_on(async {
            let store = connect::store(settings, &addresses.database_url).await?;
            store.check_schema().await?;
            match self.action {
                Action::Create { tenant, name, json } => {
                    let ids = Ids::new(Arc::new(SystemClock));
                    let (_, id, key) = create(&store, &ids, &tenant, &name).await?;
                    if json {
                        print(&serde_json::json!({"id": id, "tenant": tenant, "key": key}).to_string());
                    } else {
                        tell(&format!("{id} for tenant `{tenant}`; the key is shown this once:"));
                        print(&key);
                    }
                }
                Action::List => {
                    for key in store.list_api_keys().await? {
                        let state = if key.revoked_at.is_some() { "revoked" } else { "active" };
                        let made = key.created_at.format("%Y-%m-%d %H:%M");
                        print(&format!(
                            "{}  {}…  {state}  {made}  {}  {}",
                            key.id, key.prefix, key.tenant, key.name
                        ));
                    }
                }
                Action::Revoke { id } => {
                    let id: ApiKeyId = id.parse().map_err(|error| Failure::Usage(anyhow!("{error}")))?;
                    store.revoke_api_key(id).await?;
                    print(&format!("{id} is revoked"));
                }
            }
            store.close().await;
            Ok(ExitCode::SUCCESS)
        })
    }
}

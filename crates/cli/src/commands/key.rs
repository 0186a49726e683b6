//! `houston key`: manages API keys.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use houston_domain::clock::SystemClock;
use houston_domain::id::{ApiKeyId, Ids, TenantId};
use houston_store::api_key::ApiKey;
use houston_store::copies::Copies;
use houston_store::{Error, Store};

use super::agentable::{one_line, table};
use super::{Context, Failure, runtime};
use crate::connect;
use crate::output::{print, print_json, print_stderr};

/// Create, list and revoke API keys.
#[derive(Debug, Args)]
pub(crate) struct Key {
    /// Has no effect
    #[arg(long, global = true, hide = true)]
    embedded: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a key and print it; it cannot be printed again
    Create {
        /// Tenant whose data the key gives access to; created if it does not exist
        #[arg(long, default_value = "default")]
        tenant: String,
        /// Name of the key
        #[arg(long, default_value = "key")]
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the keys (never their secrets)
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key; running servers reject it within seconds
    Revoke {
        /// Id of the key, `key_…`, as `list` prints it
        id: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// A new key: `hou_` and 256 random bits in hex.
pub(crate) fn secret(ids: &Ids) -> String {
    let mut random = [0; 32];
    ids.fill(&mut random);
    random.iter().fold("hou_".to_owned(), |key, byte| key + &format!("{byte:02x}"))
}

/// Creates a key for the tenant of this name; returns the ids of the tenant and the key, and the key.
pub(crate) async fn create(
    store: &Store,
    ids: &Ids,
    tenant: &str,
    name: &str,
) -> Result<(TenantId, ApiKeyId, String), Failure> {
    let tenant = store.operator().ensure_tenant(ids.next(), tenant).await?;
    let (id, key) = (ids.next(), secret(ids));
    store.operator().create_api_key(id, tenant, name, &key).await?;
    Ok((tenant, id, key))
}

impl Key {
    pub(crate) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let settings = &context.loaded.settings;
        let addresses = connect::database(settings, &context.folder)?;
        runtime()?.block_on(async {
            let stores = connect::stores(settings, &addresses).await?;
            for store in stores.iter() {
                store.check_schema().await?;
            }
            let (store, copies) = (stores.home(), Copies::new(&stores.map(Store::api)));
            match self.action {
                Action::Create { tenant, name, json } => {
                    let ids = Ids::new(Arc::new(SystemClock));
                    let (owner, id, key) = create(store, &ids, &tenant, &name).await?;
                    copies.copy(owner).await?;
                    if json {
                        print_json(&serde_json::json!({"id": id, "tenant": tenant, "key": key}));
                    } else {
                        print_stderr(&format!("{id} for tenant `{tenant}`; the key is printed only now:"));
                        print(&key);
                    }
                }
                Action::List { json } => list(&store.operator().list_api_keys().await?, json),
                Action::Revoke { id, json } => {
                    let id: ApiKeyId = id.parse().map_err(|error| Failure::Usage(anyhow!("{error}")))?;
                    store.operator().revoke_api_key(id).await.map_err(|error| match error {
                        Error::NotFound { .. } => Failure::Other(anyhow!("there is no active key {id}")),
                        error => error.into(),
                    })?;
                    copies.copy_all().await?;
                    if json {
                        print_json(&serde_json::json!({"id": id, "status": "revoked"}));
                    } else {
                        print(&format!("{id} revoked"));
                    }
                }
            }
            for store in stores.iter() {
                store.close().await;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn list(keys: &[ApiKey], json: bool) {
    let status = |key: &ApiKey| if key.revoked_at.is_some() { "revoked" } else { "active" };
    if json {
        let data = keys.iter().map(|key| {
            serde_json::json!({
                "id": key.id, "prefix": key.prefix, "status": status(key), "created_at": key.created_at,
                "revoked_at": key.revoked_at, "tenant": key.tenant, "name": key.name,
            })
        });
        return print_json(&serde_json::json!({"data": data.collect::<Vec<_>>()}));
    }
    let row = |key: &ApiKey| {
        let created = key.created_at.format("%Y-%m-%d %H:%M").to_string();
        let begins = format!("{}…", key.prefix);
        [
            key.id.to_string(),
            begins,
            status(key).to_owned(),
            created,
            one_line(&key.tenant, 40),
            one_line(&key.name, 60),
        ]
    };
    let rows: Vec<[String; 6]> = keys.iter().map(row).collect();
    let heads = ["ID", "BEGINS WITH", "STATUS", "CREATED", "TENANT", "NAME"];
    table(&heads, &rows).iter().for_each(|line| print(line));
}

//! `houston key`: manages API keys.

mod create;

use std::process::ExitCode;

use anyhow::anyhow;
use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use houston_domain::id::ApiKeyId;
use houston_store::api_key::ApiKey;
use houston_store::copies::Copies;
use houston_store::{Error, Store};

use self::create::Create;
pub(crate) use self::create::{Limits, create};
use super::agentable::{one_line, table};
use super::{Context, Failure, audit, runtime};
use crate::connect;
use crate::output::{print, print_json};

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
    Create(Box<Create>),
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
                Action::Create(create) => create.run(store, &copies).await?,
                Action::List { json } => list(&store.operator().list_api_keys().await?, json),
                Action::Revoke { id, json } => {
                    let id: ApiKeyId = id.parse().map_err(|error| Failure::Usage(anyhow!("{error}")))?;
                    let tenant = store.operator().revoke_api_key(id).await.map_err(|error| match error {
                        Error::NotFound { .. } => Failure::Other(anyhow!("there is no active key {id}")),
                        error => error.into(),
                    })?;
                    copies.copy_all().await?;
                    audit::record(store, Some(tenant), "revoke_key", id.to_string()).await;
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
    let status = |key: &ApiKey| match key.revoked_at {
        Some(_) => "revoked",
        None if key.is_valid() => "active",
        None => "expired",
    };
    if json {
        let data = keys.iter().map(|key| {
            serde_json::json!({
                "id": key.id, "prefix": key.prefix, "status": status(key), "created_at": key.created_at,
                "revoked_at": key.revoked_at, "tenant": key.tenant, "name": key.name,
                "scopes": key.scopes.names(), "user_id": key.user, "expires_at": key.expires_at,
                "last_used_at": key.last_used_at, "issuer": key.issuer,
            })
        });
        return print_json(&serde_json::json!({"data": data.collect::<Vec<_>>()}));
    }
    let row = |key: &ApiKey| {
        let minute = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M").to_string();
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), minute);
        let begins = match &key.issuer {
            Some(issuer) => one_line(&format!("JWTs of {}", issuer.issuer), 60),
            None => format!("{}…", key.prefix),
        };
        [
            key.id.to_string(),
            begins,
            status(key).to_owned(),
            key.scopes.names().join(","),
            used,
            one_line(&key.tenant, 40),
            one_line(&key.name, 60),
        ]
    };
    let rows: Vec<[String; 7]> = keys.iter().map(row).collect();
    let heads = ["ID", "BEGINS WITH", "STATUS", "SCOPES", "LAST USED", "TENANT", "NAME"];
    table(&heads, &rows).iter().for_each(|line| print(line));
}

//! `houston key`: manages API keys.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand};
use houston_domain::api_key::{RANDOM_BYTES, SecretKind};
use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::id::{ApiKeyId, Ids, TenantId, UserId};
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::{ApiKey, NewApiKey};
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
        /// What the key allows, repeatable or with commas between; `admin` allows everything
        #[arg(long = "scope", value_delimiter = ',', value_name = "SCOPE", default_value = "admin")]
        scopes: Vec<Scope>,
        /// Bind the key to this user, `user_…`: it reaches nothing of others, and may have `read` and `post` only
        #[arg(long, value_name = "USER")]
        user: Option<UserId>,
        /// How long the key is valid, as in `90d`, `12h` or `30m`; for ever if left out
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires_in: Option<TimeDelta>,
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

/// A time such as `90d`, `12h` or `30m`.
fn duration(text: &str) -> Result<TimeDelta, String> {
    const ALLOWED: &str = "must be a number of days, hours or minutes, as in `90d`, `12h` or `30m`";
    let unit = text.chars().next_back().map_or(0, char::len_utf8);
    let (number, unit) = text.split_at(text.len() - unit);
    let number = number.parse().ok().filter(|number| (1..=36_500).contains(number)).ok_or(ALLOWED)?;
    match unit {
        "d" => Ok(TimeDelta::days(number)),
        "h" => Ok(TimeDelta::hours(number)),
        "m" => Ok(TimeDelta::minutes(number)),
        _ => Err(ALLOWED.to_owned()),
    }
}

/// What a new key may do, for whom and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    scopes: Scopes,
    user: Option<UserId>,
    expires_at: Option<DateTime<Utc>>,
}

impl Limits {
    /// Everything, for ever.
    pub(crate) const NONE: Self = Self { scopes: Scopes::ADMIN, user: None, expires_at: None };

    fn new(scopes: &[Scope], user: Option<UserId>, expires_in: Option<TimeDelta>) -> Result<Self, Failure> {
        let scopes: Scopes = scopes.iter().copied().collect();
        if let (Some(_), Some(scope)) = (user, scopes.beyond_a_user().next()) {
            let detail =
                format!("a key of one user cannot have the scope `{scope}`: add `--scope read,post`");
            return Err(Failure::Usage(anyhow!("{detail}")));
        }
        Ok(Self { scopes, user, expires_at: expires_in.map(|left| SystemClock.now() + left) })
    }
}

/// Creates a key for the tenant of this name; returns the ids of the tenant and the key, and the key.
pub(crate) async fn create(
    store: &Store,
    ids: &Ids,
    (tenant, name): (&str, &str),
    limits: Limits,
) -> Result<(TenantId, ApiKeyId, String), Failure> {
    let tenant = store.operator().ensure_tenant(ids.next(), tenant).await?;
    let mut random = [0; RANDOM_BYTES];
    ids.fill(&mut random);
    let (id, key) = (ids.next(), SecretKind::Key.secret(random));
    let Limits { scopes, user, expires_at } = limits;
    store
        .operator()
        .create_api_key(tenant, &NewApiKey { id, name, key: &key, scopes, user, expires_at })
        .await?;
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
                Action::Create { tenant, name, scopes, user, expires_in, json } => {
                    let limits = Limits::new(&scopes, user, expires_in)?;
                    let ids = Ids::new(Arc::new(SystemClock));
                    let (owner, id, key) = create(store, &ids, (&tenant, &name), limits).await?;
                    copies.copy(owner).await?;
                    let Limits { scopes, user, expires_at } = limits;
                    if json {
                        print_json(&serde_json::json!({
                            "id": id, "tenant": tenant, "key": key, "scopes": scopes.names(), "user_id": user,
                            "expires_at": expires_at,
                        }));
                    } else {
                        print_stderr(&format!(
                            "{id} for tenant `{tenant}` with the scopes `{scopes}`; the key is printed only now:"
                        ));
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
                "last_used_at": key.last_used_at,
            })
        });
        return print_json(&serde_json::json!({"data": data.collect::<Vec<_>>()}));
    }
    let row = |key: &ApiKey| {
        let minute = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M").to_string();
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), minute);
        let begins = format!("{}…", key.prefix);
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

//! `houston key`: manages API keys.

use std::sync::Arc;

use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand};
use houston_domain::clock::SystemClock;
use houston_domain::id::{ApiKeyId, Ids, UserId};
use houston_domain::issuer::Issuer;
use houston_domain::scope::Scope;
use houston_store::api_key::ApiKey;
use houston_store::copies::Copies;
use houston_store::{Error, Store};
use houston_web::ListedHost;

use super::agentable::{one_line, print_table};
use super::{Context, Failure, Result, audit, runtime};
use crate::connect;
use crate::keys::{KeyLimits, MadeKey, create};
use crate::output::{print, print_either, print_json, print_stderr};

/// Create, list and revoke API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
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
        id: ApiKeyId,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl Key {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        let settings = &context.loaded.settings;
        let addresses = connect::existing(settings, &context.folder, false)?;
        runtime()?.block_on(async {
            let stores = connect::stores(settings, &addresses).await?;
            connect::check_schemas(&stores).await?;
            let (store, copies) = (stores.home(), Copies::new(&stores.map(Store::api)));
            match self {
                Self::Create(create) => create.run(store, &copies).await?,
                Self::List { json } => list(&store.operator().list_api_keys().await?, json),
                Self::Revoke { id, json } => {
                    let tenant = store.operator().revoke_api_key(id).await.map_err(|error| match error {
                        Error::NotFound { .. } => Failure::Other(anyhow!("there is no active key {id}")),
                        error => error.into(),
                    })?;
                    copies.copy_all().await?;
                    audit::record(store, Some(tenant), "revoke_key", id.to_string()).await;
                    let done = serde_json::json!({"id": id, "status": "revoked"});
                    print_either(json, &done, &format!("{id} revoked"));
                }
            }
            connect::close(&stores).await;
            Ok(())
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
    let heads = ["ID", "BEGINS WITH", "STATUS", "SCOPES", "LAST USED", "TENANT", "NAME"];
    print_table(heads, keys.iter().map(row));
}

/// What a new key is for.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Tenant whose data the key gives access to; created if it does not exist
    #[arg(long, default_value = "default")]
    tenant: String,
    /// Name of the key
    #[arg(long, default_value = "key")]
    name: String,
    /// What the key allows, repeatable or with commas between; `admin` allows everything of the tenant, `installation`
    /// besides `operate` to see and drain workers
    #[arg(long = "scope", value_delimiter = ',', value_name = "SCOPE", default_value = "admin")]
    scopes: Vec<Scope>,
    /// Bind the key to this user, `user_…`: it reaches nothing of others, and may have `read` and `post` only
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
    /// How long the key is valid, as in `90d`, `12h` or `30m`; for ever if left out
    #[arg(long, value_name = "TIME", value_parser = duration)]
    expires_in: Option<TimeDelta>,
    /// Accept JWTs with this `iss` in place of a key; each reaches what belongs to its user
    #[arg(long, value_name = "URL", requires_all = ["jwks_url", "audience"], conflicts_with = "user")]
    issuer: Option<String>,
    /// Where the public keys of the issuer are
    #[arg(long, value_name = "URL", requires = "issuer")]
    jwks_url: Option<String>,
    /// What `aud` of the JWTs must be or contain
    #[arg(long, value_name = "NAME", requires = "issuer")]
    audience: Option<String>,
    /// The claim of the JWTs with the external id of the user
    #[arg(long, value_name = "NAME", default_value = "sub", requires = "issuer")]
    user_claim: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
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

impl Create {
    async fn run(self, store: &Store, copies: &Copies) -> Result<()> {
        let issuer = self.issuer()?;
        let limits = KeyLimits::new(&self.scopes, self.user, self.expires_in, issuer.is_some())?;
        let ids = Ids::new(Arc::new(SystemClock));
        let Self { tenant, name, json, .. } = self;
        let MadeKey { tenant: owner, id, key } =
            create(store, &ids, (&tenant, &name), limits, issuer.as_ref()).await?;
        copies.copy(owner).await?;
        audit::record(store, Some(owner), "create_key", id.to_string()).await;
        let KeyLimits { scopes, user, expires_at } = limits;
        if json {
            // The key of an issuer is no secret that anybody needs.
            let key = issuer.is_none().then_some(key);
            print_json(&serde_json::json!({
                "id": id, "tenant": tenant, "key": key, "scopes": scopes.names(), "user_id": user,
                "expires_at": expires_at, "issuer": issuer,
            }));
        } else if let Some(Issuer { issuer, audience, user_claim, .. }) = issuer {
            print(&format!(
                "{id}: tenant `{tenant}` accepts JWTs of {issuer} for `{audience}` with the scopes `{scopes}`; their claim \
                 `{user_claim}` is the external id of the user"
            ));
        } else {
            print_stderr(&format!(
                "{id} for tenant `{tenant}` with the scopes `{scopes}`; the key is printed only now:"
            ));
            print(&key);
        }
        Ok(())
    }

    fn issuer(&self) -> Result<Option<Issuer>> {
        let (Some(issuer), Some(jwks_url), Some(audience)) = (&self.issuer, &self.jwks_url, &self.audience)
        else {
            return Ok(None);
        };
        let issuer = Issuer {
            issuer: issuer.clone(),
            jwks_url: jwks_url.clone(),
            audience: audience.clone(),
            user_claim: self.user_claim.clone(),
        };
        issuer.check().map_err(|error| Failure::Usage(anyhow!("{error}")))?;
        ListedHost::of(&issuer.jwks_url).map_err(|error| Failure::Usage(anyhow!("`--jwks-url`: {error}")))?;
        Ok(Some(issuer))
    }
}

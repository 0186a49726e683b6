//! Connects to the model of a choice: over HTTP, or the simulated one.

use std::sync::Arc;

use houston_domain::model::ModelError;

use crate::client::{CallContext, Endpoint, HttpModel};
use crate::http::Http;
use crate::metered::metered;
use crate::model::Model;
use crate::profile::{Changes, Profile};
use crate::protocol::Wire;
use crate::provider::{
    Address, Choice, Lookup, Provider, TokenSource, find_key, missing_key, not_configured,
};
use crate::scrub::redacted_address;
use crate::simulated::Simulated;

/// Creates the model of `choice`. Sends nothing: a rejected key shows in the first call.
///
/// # Errors
/// `PROVIDER_NOT_SUPPORTED` for an unknown provider; `PROVIDER_NOT_CONFIGURED` when the key, model or base URL is
/// missing or invalid. The message names the variable to set.
pub fn connect(choice: &Choice, http: &Http, lookup: Lookup<'_>) -> Result<Arc<dyn Model>, ModelError> {
    connect_with(choice, http, lookup, None)
}

/// Like [`connect`]; if no key is set, each call uses a token from `tokens`.
pub fn connect_with(
    choice: &Choice,
    http: &Http,
    lookup: Lookup<'_>,
    tokens: Option<Arc<dyn TokenSource>>,
) -> Result<Arc<dyn Model>, ModelError> {
    let own = Changes { wire: choice.wire, ..Changes::default() };
    connect_as(choice, Connection { http, lookup, tokens, own })
}

/// What a model is connected with.
pub(crate) struct Connection<'a> {
    pub(crate) http: &'a Http,
    pub(crate) lookup: Lookup<'a>,
    pub(crate) tokens: Option<Arc<dyn TokenSource>>,
    /// Changes of its profile that take precedence over all rows.
    pub(crate) own: Changes,
}

/// Like [`connect_with`], with a profile that is changed.
pub(crate) fn connect_as(
    choice: &Choice,
    Connection { http, lookup, tokens, own }: Connection<'_>,
) -> Result<Arc<dyn Model>, ModelError> {
    let row = Provider::named(&choice.provider)?;
    if own.wire.or(row.wire).is_none() {
        return Ok(Arc::new(Simulated::new()));
    }
    if choice.model.trim().is_empty() {
        let what = if row.address == Address::Azure { "the name of a deployment" } else { "a model" };
        return Err(not_configured(format!("{0} needs {what}: write {0}/<name>", row.name)));
    }
    let key = find_key(row, choice, lookup)?;
    let tokens = tokens.filter(|_| key.is_none());
    if key.is_none() && tokens.is_none() && row.needs_key {
        return Err(missing_key(row, choice));
    }
    let named = choice.base_url.clone().or_else(|| row.url_variable(lookup));
    let base = named.as_deref().unwrap_or(row.base_url);
    if base.trim().is_empty() {
        return Err(not_configured(format!(
            "{0} needs a base URL: set {1}, or providers.{0}.base_url in jobs/providers.toml (for example {2})",
            row.name,
            row.url_variables.join(" or "),
            row.address.example(),
        )));
    }
    let profile = Profile::with(row.name, &choice.model, &own);
    let url = |wire: Wire| {
        let url = row.address.base(base, named.is_some(), &choice.model, wire, lookup)?;
        row.address.operation(&url, wire, &choice.model)
    };
    let Some(first) = url(profile.wire) else {
        return Err(not_configured(format!(
            "{}: `{}` is not an http or https URL",
            row.name,
            redacted_address(base)
        )));
    };
    let context = CallContext::new(choice.description(), key, &first);
    let endpoint = Endpoint { url: first, other: profile.wire.alternative().and_then(url) };
    HttpModel::new(context, profile, endpoint, row.auth, http)
        .map(|model| metered(Arc::new(model.with_tokens(tokens))))
}

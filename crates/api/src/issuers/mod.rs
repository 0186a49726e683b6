//! JWTs of issuers that tenants trust: from a token that anybody can have written to the authority of one user.
//!
//! The issuer is looked up like a key ([`crate::keys`]): cached, in one query with all that wait, unknown ones too. Its public
//! keys are read from its JWKS URL at most once an hour ([`key_sets`]); no request waits for the issuer otherwise. Then the
//! signature is verified, the user is looked up, and the result is cached like that of a key.

mod key_sets;

use futures_util::future::join_all;
use houston_domain::id::Shard;
use houston_domain::issuer::Issuer;
use houston_domain::jwt::{JwtError, Unverified};
use houston_store::Error;

use crate::auth::Authority;
use crate::error::ApiError;
use crate::issuers::key_sets::KeySets;
use crate::state::App;

/// The public keys of the issuers.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    key_sets: KeySets,
}

impl Issuers {
    /// What a token allows. It is cached under `hash`, that of its text.
    ///
    /// # Errors
    /// [`ApiError::InvalidJwt`] when it is not accepted, [`ApiError::NoIssuerKeys`] when the keys of its issuer are not there,
    /// [`ApiError::TooManyKeys`], [`ApiError::Unavailable`], or the store's errors.
    pub(crate) async fn authority(
        &self,
        app: &App,
        jwt: Unverified<'_>,
        hash: [u8; 32],
    ) -> Result<Authority, ApiError> {
        let verified = self.verify(app, jwt).await;
        match &verified {
            Ok(authority) => app.keys.keep(hash, authority.clone()),
            Err(ApiError::InvalidJwt(_)) => app.keys.forget(&hash),
            Err(_) => {}
        }
        verified
    }

    async fn verify(&self, app: &App, jwt: Unverified<'_>) -> Result<Authority, ApiError> {
        let of_issuer = of_issuer(app, &jwt).await?;
        let issuer = of_issuer.issuer.as_deref().ok_or(ApiError::Unauthorized)?;
        let key = self.key_sets.key(&issuer.jwks_url, jwt.key()).await?;
        let token = jwt.verify(&key).map_err(ApiError::InvalidJwt)?;
        let name = token.user(&issuer.user_claim).map_err(ApiError::InvalidJwt)?;
        let cell = app.cell_of(Shard::of_external_id(of_issuer.caller.tenant(), name));
        let store = cell.as_deref().unwrap_or(app).store(of_issuer.caller);
        let user = store.user_with_external_id(name).await.map_err(|error| match error {
            Error::NotFound { .. } => ApiError::InvalidJwt(JwtError::UnknownUser(issuer.user_claim.clone())),
            error => error.into(),
        })?;
        app.keys.note_use_of_issuer(app.api_store(), of_issuer.caller.key()).await;
        Ok(of_issuer.of_token(&token, user, app.now()))
    }
}

/// The authority of the key of the issuer and one of the audiences of a token.
async fn of_issuer(app: &App, jwt: &Unverified<'_>) -> Result<Authority, ApiError> {
    const UNKNOWN: ApiError = ApiError::InvalidJwt(JwtError::Issuer);
    let found = join_all(jwt.audiences().iter().map(async |audience| {
        let hash = Issuer::hash(jwt.issuer(), audience);
        match app.keys.trusted(&hash) {
            Some(authority) => Ok(authority),
            None => app.keys.look_up(app.api_store(), Issuer::prefix(jwt.issuer()), hash).await,
        }
    }));
    let mut accepted = None;
    for found in found.await {
        match found {
            Ok(authority) if authority.issuer.is_none() => return Err(ApiError::Unauthorized),
            // A token for several tenants, or with the same audience twice, says of none that it is meant.
            Ok(_) if accepted.is_some() => return Err(UNKNOWN),
            Ok(authority) => accepted = Some(authority),
            Err(ApiError::Unauthorized) => {}
            Err(error) => return Err(error),
        }
    }
    accepted.ok_or(UNKNOWN)
}

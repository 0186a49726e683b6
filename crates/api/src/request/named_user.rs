//! The user whom a request names: in the header [`USER_HEADER`], or in the words of its protocol (`user`, `tenant`, …).
//!
//! - A caller of one user may name this user only: another one is 404, whether there is one or not, and never ignored.
//! - Any other caller becomes one of the user whom it names ([`narrowed`]): for this request it reaches what a key of this user does.
//!
//! [Authentication](crate::request::auth) asks here for every route that is not of the whole tenant, and
//! [`Asker`](crate::dialects::threads::Asker) for what protocols name besides. No handler reads the header.

use axum::http::HeaderMap;
use houston_domain::ensure;
use houston_domain::id::{Shard, UserId};
use houston_store::client_thread::ThreadUser;

use crate::caller::{Caller, USER_HEADER};
use crate::error::{ApiError, Result, if_found};
use crate::request::checks::check_line;
use crate::state::App;

/// The most characters of an external id.
const MAX_CHARS: usize = 255;

const NOT_FOUND: ApiError = ApiError::NotFound("user");

/// The user in the header; external ids may have other characters than ASCII.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it cannot be one.
pub(crate) fn in_header(headers: &HeaderMap) -> Result<Option<String>> {
    let mut values = headers.get_all(USER_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let wrong = |reason: &'static str| Err(ApiError::parameter(USER_HEADER.as_str(), reason));
    if values.next().is_some() {
        return wrong("must be sent once");
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok(user) if !user.trim().is_empty() => Ok(Some(user.trim().to_owned())),
        _ => wrong("must be the id of a user, or your own id for one, as UTF-8"),
    }
}

/// A name as what it is: Houston's id, or an external id.
pub(crate) fn read(name: &str) -> ThreadUser<'_> {
    name.parse::<UserId>().map_or(ThreadUser::External(name), ThreadUser::Id)
}

/// The user with this name, if there is one; an id of Houston is taken as it is.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when it cannot be a name, or the store's errors.
pub(crate) async fn known(app: &App, caller: Caller, name: &str) -> Result<Option<UserId>> {
    let external = match read(name) {
        ThreadUser::Id(id) => return Ok(Some(id)),
        ThreadUser::External(id) => id,
    };
    check_line("/user", external, MAX_CHARS)?;
    let cell = app.cell_of(Shard::of_external_id(caller.tenant(), external));
    if_found(cell.as_deref().unwrap_or(app).store(caller).user_with_external_id(external).await)
}

/// The caller, for the user with this name alone.
///
/// # Errors
/// [`ApiError::NotFound`] when the caller is of another user, or there is no such user; or as [`known`].
pub(crate) async fn narrowed(app: &App, caller: Caller, name: &str) -> Result<Caller> {
    let user = known(app, caller, name).await?.ok_or(NOT_FOUND)?;
    ensure!(caller.user().is_none_or(|own| own == user), NOT_FOUND);
    Ok(caller.for_user(user))
}

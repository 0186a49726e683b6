//! Threads of clients that speak another protocol: what all their endpoints share.
//!
//! A request names a target (a kind that is conversational, or an agent of the tenant by name or id), a thread in the words of
//! its client, and a user. [`find_or_create`] turns them into a [`Thread`], which posts, answers, cancels and streams; the
//! endpoint only translates.
//!
//! - The thread id is any text of at most [`MAX_THREAD_CHARS`] characters: the same tenant, user, target and id always find the
//!   same agentable, in one query. Houston's own ids, such as `goal_…`, are used as they are.
//! - The user is the one of the key, for client tokens, JWTs and keys of one user; or else the one in the header
//!   [`USER_HEADER`], or the one that the protocol names ([`Asker::or_user`]): by Houston's id, or by an external id, for which
//!   a user is created.
//! - A caller of one user reaches that user's threads only, and a client token for some agentables only these.
//!
//! ```text
//! Asker (extractor) → find_or_create(app, asker, target, (pointer, thread id)) → Thread::post → Thread::open
//! ```
//!
//! Routes that use it are added with [`THREAD`](crate::access::THREAD): the scope is checked there, and whose thread it is here.

mod create;
mod find;
mod handle;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use houston_domain::id::UserId;
use houston_store::client_thread::ThreadUser;

use crate::auth::{Authority, Caller, authenticate};
use crate::error::ApiError;
use crate::state::App;

pub(crate) use self::find::{find, find_or_create};
pub(crate) use self::handle::{NewMessage, Thread};

/// The header that names the user of a request: Houston's id, or the external id.
pub(crate) const USER_HEADER: HeaderName = HeaderName::from_static("houston-user");

/// The most characters of a client's thread id.
pub(crate) const MAX_THREAD_CHARS: usize = 200;

/// Who asks for a thread: the caller, and whom the request is for. Taking it checks the access of the route.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    authority: Authority,
    /// What the header says.
    named: Option<String>,
    /// What the protocol says.
    in_protocol: Option<String>,
}

impl Asker {
    pub(crate) fn caller(&self) -> Caller {
        self.authority.caller
    }

    /// With the user that the protocol of the request names, in case nothing else does.
    pub(crate) fn or_user(self, in_protocol: Option<&str>) -> Self {
        Self { in_protocol: in_protocol.map(str::to_owned), ..self }
    }

    /// The user whom the request is for.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] when nothing names one, [`ApiError::NotFound`] when the caller is bound to another user.
    pub(crate) fn user(&self) -> Result<ThreadUser<'_>, ApiError> {
        let named = self.named.as_deref().map(named);
        match (self.caller().user(), named) {
            (Some(own), Some(ThreadUser::Id(id))) => {
                self.caller().check_user(id).map(|()| ThreadUser::Id(own))
            }
            (Some(own), _) => Ok(ThreadUser::Id(own)),
            (None, Some(named)) => Ok(named),
            (None, None) => self.in_protocol.as_deref().map(self::named).ok_or_else(|| {
                let missing = "is missing: this key is of no user. Send the id of a user (`user_…`), or your own id for the user, \
                               which creates the user if there is none; or use a client token or a JWT";
                ApiError::parameter(USER_HEADER.as_str(), missing)
            }),
        }
    }
}

fn named(user: &str) -> ThreadUser<'_> {
    user.parse::<UserId>().map_or(ThreadUser::External(user), ThreadUser::Id)
}

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        // Checks the access of the route.
        Caller::from_request_parts(parts, app).await?;
        let authority = authenticate(parts, app).await?;
        Ok(Self { authority, named: user_header(&parts.headers)?, in_protocol: None })
    }
}

/// The user in the header; external ids may have other characters than ASCII.
fn user_header(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(USER_HEADER) else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(user) if !user.trim().is_empty() => Ok(Some(user.trim().to_owned())),
        _ => Err(ApiError::parameter(
            USER_HEADER.as_str(),
            "must be the id of a user, or your own id for one, as UTF-8",
        )),
    }
}

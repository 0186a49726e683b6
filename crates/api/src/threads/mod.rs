//! Threads of clients that speak another protocol: what all their endpoints share.
//!
//! A request names a target (a kind that is conversational, or an agent of the tenant by name or id), a thread in the words of
//! its client, and a user. [`find_or_create`] turns them into a [`Thread`], which posts, answers, cancels and streams; the
//! endpoint only translates.
//!
//! - The thread id is any text of at most [`MAX_THREAD_CHARS`] characters: the same tenant, user, target and id always find the
//!   same agentable, in one query. Houston's own ids, such as `goal_…`, are used as they are.
//! - The user is the one of the key, for client tokens, JWTs and keys of one user; or else the one in the header
//!   [`USER_HEADER`], or the one that the protocol names ([`Asker::for_user`]): by Houston's id, or by an external id, for which
//!   a user is created. All that is named must be the same user ([`named_user`]); the thread, too, must be this user's.
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
use houston_store::client_thread::ThreadUser;

use crate::auth::{Authority, Caller, authenticate};
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::named_user::{self, USER_HEADER};
use crate::state::App;

pub(crate) use self::find::{find, find_or_create};
pub(crate) use self::handle::{NewMessage, Thread};

/// The most characters of a client's thread id.
pub(crate) const MAX_THREAD_CHARS: usize = 200;

/// Who asks for a thread: the caller, and whom the request is for. Taking it checks the access of the route.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    authority: Authority,
    /// The user whom header or protocol name, for a caller of no user.
    named: Option<String>,
}

impl Asker {
    pub(crate) fn caller(&self) -> Caller {
        self.authority.caller
    }

    /// With the user whom the protocol of the request names besides, if it does. `pointer` says where.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller is bound to another user, [`ApiError::InvalidRequest`] when the request has
    /// named another one before; the store's errors.
    pub(crate) async fn for_user(
        mut self,
        app: &App,
        (pointer, name): (&str, Option<&str>),
    ) -> Result<Self, ApiError> {
        let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else { return Ok(self) };
        if self.caller().user().is_some() {
            named_user::narrowed(app, self.caller(), name).await?;
            return Ok(self);
        }
        if let Some(before) = self.named.as_deref().filter(|before| *before != name) {
            let same = named_user::are_same(app, self.caller(), [before, name]).await?;
            if !same {
                let reason =
                    "names another user than the rest of the request (a field, or the header `Houston-User`)";
                return Err(ApiError::field(pointer, reason));
            }
            return Ok(self);
        }
        self.named = Some(name.to_owned());
        Ok(self)
    }

    /// The idempotency key of the request, as one of the user whom it is for.
    pub(crate) fn own_key(&self, key: Option<Key>) -> Option<Key> {
        // That of a caller of one user is, already.
        let named = self.named.as_deref().filter(|_| self.caller().user().is_none());
        match named {
            Some(user) => key.map(|key| key.of_user(user)),
            None => key,
        }
    }

    /// The user whom the request is for, if anything says it.
    pub(crate) fn named_user(&self) -> Option<ThreadUser<'_>> {
        let own = self.caller().user().map(ThreadUser::Id);
        own.or_else(|| self.named.as_deref().map(named_user::read))
    }

    /// The user whom the request is for.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] when nothing names one.
    pub(crate) fn user(&self) -> Result<ThreadUser<'_>, ApiError> {
        self.named_user().ok_or_else(|| {
            let missing = "is missing: this key is of no user. Send the id of a user (`user_…`), or your own id for the user, \
                           which creates the user if there is none; or use a client token or a JWT";
            ApiError::parameter(USER_HEADER.as_str(), missing)
        })
    }
}

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        // Checks the access of the route, and that the header names no other user than the caller's.
        let caller = Caller::from_request_parts(parts, app).await?;
        let authority = authenticate(parts, app).await?;
        let named = match caller.user() {
            Some(_) => None,
            None => named_user::in_header(&parts.headers)?,
        };
        Ok(Self { authority, named })
    }
}

//! What an endpoint needs of the key of a request: a scope, and for a key that is bound to one user, that what the path
//! names is this user's.
//!
//! Each route of [`crate::router`] is added with its [`Access`]; [`Caller`](crate::auth::Caller) checks it before
//! the handler runs: the scope, for whom the request is ([`crate::named_user`]), and whose resource the path names. What is another
//! user's is 404 with the words for what does not exist; a missing scope is 403.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Method;
use axum::http::request::Parts;
use houston_domain::id::{AgentableId, TenantId, UserId};
use houston_domain::scope::Scope;
use uuid::Uuid;

use crate::agentable_path::{AgentablePath, params};
use crate::auth::{Authority, Caller};
use crate::error::ApiError;
use crate::named_user;
use crate::state::App;

/// What an endpoint needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    subject: Subject,
    /// The scope of GET and HEAD.
    read: Scope,
    /// The scope of the other methods.
    change: Scope,
    delete: Scope,
    /// Whether a client token may stand in the query, for clients that cannot send headers.
    query_token: bool,
    /// Whether it answers with what is never shown to users: client tokens and JWTs are refused, whatever their scopes.
    unshown: bool,
}

/// Whose resource the path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// That of the whole tenant: not for keys of one user.
    Tenant,
    /// That of the whole installation: for keys with the scope [`Scope::Installation`].
    Installation,
    /// That of the user `{id}`.
    User,
    /// That of the agentable `{id}`.
    Agentable,
    /// The row `{id}`, which belongs to an agentable or a user.
    Row,
    /// The path names no user: the handler keeps to [`Caller::user`](crate::auth::Caller::user).
    Named,
    /// A thread of a client, which the request names: [`threads`](crate::threads) keep to the caller's user and agentables.
    Thread,
}

/// Agents, teams and other things of the tenant.
pub(crate) const TENANT: Access = Access::of(Subject::Tenant).change(Scope::ManageAgents);
/// Workers and other things of the installation.
pub(crate) const INSTALLATION: Access = Access::of(Subject::Installation).all(Scope::Operate);
/// A user, and what a user has.
pub(crate) const USER: Access = Access::of(Subject::User);
/// An agentable, and what it has.
pub(crate) const AGENTABLE: Access = Access::of(Subject::Agentable);
/// One row of an agentable or a user.
pub(crate) const ROW: Access = Access::of(Subject::Row);
/// What the query or the body names.
pub(crate) const NAMED: Access = Access::of(Subject::Named);
/// A thread in the words of a client: the handler takes an [`Asker`](crate::threads::Asker).
pub(crate) const THREAD: Access = Access::of(Subject::Thread);

impl Access {
    const fn of(subject: Subject) -> Self {
        Self {
            subject,
            read: Scope::Read,
            change: Scope::Post,
            delete: Scope::Post,
            query_token: false,
            unshown: false,
        }
    }

    /// The scope of all methods.
    pub(crate) const fn all(self, scope: Scope) -> Self {
        Self { read: scope, change: scope, delete: scope, ..self }
    }

    /// The scope of all methods that change something.
    pub(crate) const fn change(self, change: Scope) -> Self {
        Self { change, delete: change, ..self }
    }

    /// The scope of DELETE.
    pub(crate) const fn delete(self, delete: Scope) -> Self {
        Self { delete, ..self }
    }

    /// A client token may stand in the query.
    pub(crate) const fn with_query_token(self) -> Self {
        Self { query_token: true, ..self }
    }

    /// It answers with what models read, or what operators see of it: never shown to users, so browsers and phones have none of it.
    pub(crate) const fn unshown(self) -> Self {
        Self { unshown: true, ..self }
    }

    #[cfg(feature = "openapi")]
    pub(crate) fn is_unshown(self) -> bool {
        self.unshown
    }

    /// Whether the path names what belongs to a user.
    fn is_of_user(self) -> bool {
        !matches!(self.subject, Subject::Tenant | Subject::Installation)
    }

    pub(crate) fn takes_query_token(self) -> bool {
        self.query_token
    }

    /// The scope that a request with this method needs.
    pub(crate) fn scope(self, method: &Method) -> Scope {
        match *method {
            Method::DELETE => self.delete,
            ref method if method.is_safe() => self.read,
            _ => self.change,
        }
    }

    /// Checks the scope, and for a caller of one user, whose resource it is. Returns the caller: one of the user whom the request
    /// names, if it does and the route is of a user.
    ///
    /// # Errors
    /// [`ApiError::MissingScope`], [`ApiError::NeverShown`], [`ApiError::BoundKey`], [`ApiError::NotFound`] for what is another
    /// user's, or the store's errors.
    pub(crate) async fn check(
        self,
        authority: &Authority,
        parts: &mut Parts,
        app: &App,
    ) -> Result<Caller, ApiError> {
        let caller = authority.caller;
        let scope = self.scope(&parts.method);
        let is_whole = self.subject == Subject::Installation && caller.scopes().allow(scope);
        let scope = if is_whole { Scope::Installation } else { scope };
        if !caller.scopes().allow(scope) {
            return Err(ApiError::MissingScope { needed: scope, scopes: caller.scopes() });
        }
        if self.unshown && caller.is_for_client() {
            return Err(ApiError::NeverShown);
        }
        let caller = if self.is_of_user() { self.of_named(caller, parts, app).await? } else { caller };
        match caller.user() {
            Some(user) => self.check_owner(authority, user, parts, app).await.map(|()| caller),
            None => Ok(caller),
        }
    }

    /// The caller, as one of the user in the header. Threads may be of a user who is created with them.
    async fn of_named(self, caller: Caller, parts: &Parts, app: &App) -> Result<Caller, ApiError> {
        let Some(name) = named_user::in_header(&parts.headers)? else { return Ok(caller) };
        if self.subject == Subject::Thread && caller.user().is_none() {
            return Ok(caller);
        }
        named_user::narrowed(app, caller, &name).await
    }

    async fn check_owner(
        self,
        authority: &Authority,
        user: UserId,
        parts: &mut Parts,
        app: &App,
    ) -> Result<(), ApiError> {
        let id = path_id(parts).await;
        let (owner, agentable) = match self.subject {
            Subject::Tenant | Subject::Installation => return Err(ApiError::BoundKey),
            Subject::User if authority.agentables.is_some() => return Err(ApiError::BoundKey),
            Subject::Named if authority.agentables.is_some() => return Err(ApiError::BoundKey),
            Subject::Named => (user, None),
            Subject::Thread => return Ok(()),
            Subject::User => (id.and_then(|id| id.parse().ok()).ok_or(NOT_FOUND)?, None),
            Subject::Agentable => {
                let kinds = &app.state.agent_types;
                let path = AgentablePath::of_params(kinds, &params(parts).ok_or(NOT_FOUND)?);
                let path = path.ok_or(NOT_FOUND)?;
                (app.owners.user_of(authority, path.id, app).await.map_err(unless_missing)?, Some(path.id))
            }
            Subject::Row => {
                let id = id.as_deref().and_then(uuid_of).ok_or(NOT_FOUND)?;
                let owner = app.store(authority.caller).owner_of_row(id).await;
                let owner = owner.map_err(|error| unless_missing(error.into()))?;
                (owner.user, owner.agentable)
            }
        };
        let is_allowed = |allowed: &Arc<[AgentableId]>| agentable.is_some_and(|id| allowed.contains(&id));
        let is_own = owner == user && authority.agentables.as_ref().is_none_or(is_allowed);
        if is_own { Ok(()) } else { Err(NOT_FOUND) }
    }
}

/// What a caller of one user is told of another's and of what does not exist: in the same words, so that nobody learns which it is.
const NOT_FOUND: ApiError = ApiError::NotFound { what: "resource" };

fn unless_missing(error: ApiError) -> ApiError {
    if matches!(error, ApiError::NotFound { .. }) { NOT_FOUND } else { error }
}

/// The parameter `id` of the path.
async fn path_id(parts: &mut Parts) -> Option<String> {
    let params = params(parts)?;
    params.iter().find(|(name, _)| *name == "id").map(|(_, id)| id.to_owned())
}

/// The UUID of a public id such as `run_0190…`.
fn uuid_of(id: &str) -> Option<Uuid> {
    let (_, digits) = id.rsplit_once('_')?;
    Uuid::try_parse(digits).ok()
}

/// Caches the users of agentables, which never change, to save keys of one user a query per request.
#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<AgentableId, (TenantId, UserId)>>);

/// Maximum number of cached agentables. The cache is cleared when it is full.
const MAX_CACHED_OWNERS: usize = 50_000;

impl Owners {
    /// The user of an agentable.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller's tenant has no such agentable, or the store's errors.
    pub(crate) async fn user_of(
        &self,
        authority: &Authority,
        agentable: AgentableId,
        app: &App,
    ) -> Result<UserId, ApiError> {
        let caller = authority.caller;
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&agentable).copied();
        if let Some((_, user)) = cached.filter(|(tenant, _)| *tenant == caller.tenant()) {
            return Ok(user);
        }
        let user = app.store(caller).user_of_agentable(agentable).await?;
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_CACHED_OWNERS {
            cached.clear();
        }
        cached.insert(agentable, (caller.tenant(), user));
        Ok(user)
    }
}

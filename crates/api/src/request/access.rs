//! What an endpoint needs of the key of a request: a scope, and for a key that is bound to one user, that what the path
//! names is this user's.
//!
//! Each endpoint states its [`Access`], which [`crate::request::auth`] checks before the handler runs.

use axum::http::Method;
pub(crate) use houston_domain::scope::Scope;

/// What an endpoint needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) subject: Subject,
    /// The scope of GET and HEAD.
    read: Scope,
    /// The scope of the other methods.
    change: Scope,
    delete: Scope,
    /// Whether a client token may stand in the query, for clients that cannot send headers.
    pub(crate) query_token: bool,
    /// Whether it answers with what is never shown to users: client tokens and JWTs are refused, whatever their scopes.
    pub(crate) unshown: bool,
}

/// Whose resource the path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
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
    /// The path names no user: the handler keeps to [`Caller::user`](crate::caller::Caller::user).
    Named,
    /// A thread of a client, which the request names: [`threads`](crate::dialects::threads) keep to the caller's user and agentables.
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
/// A thread in the words of a client: the handler takes an [`Asker`](crate::dialects::threads::Asker).
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

    /// Whether the path names what belongs to a user.
    pub(crate) fn is_of_user(self) -> bool {
        !matches!(self.subject, Subject::Tenant | Subject::Installation)
    }

    /// The scope that a request with this method needs.
    pub(crate) fn scope(self, method: &Method) -> Scope {
        match *method {
            Method::DELETE => self.delete,
            ref method if method.is_safe() => self.read,
            _ => self.change,
        }
    }
}

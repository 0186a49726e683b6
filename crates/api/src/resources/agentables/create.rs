//! `POST /v1/{kinds}`: creates an agentable of a kind that users may create, a goal or a kind of `jobs/agents`; with its
//! user and its first message, if the request has them, in one transaction.

use houston_domain::agentable::{AgentType, MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS};
use houston_domain::event::Live;
use houston_domain::id::{UserId, shard};
use houston_domain::run::RunStatus;
use houston_protocol::agentable::{AgentableResponse, CreateAgentable, CreateFirstMessage};
use houston_protocol::user::CreateUser;
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::creation::{Creation, NewUser};
use houston_store::idempotency::IdempotencyKey;
use houston_store::message::NewPost;
use houston_store::rate::Whose;
use houston_store::serving::ServedBy;
use houston_store::user::User;
use rust_decimal::Decimal;
use serde_json::Value;

use crate::request::body;
use crate::request::prelude::*;
use crate::request::rates::ask;
use crate::request::request_trace::Posting;
use crate::resources::agentables::{check_serving, tools};
use crate::resources::messages::{accepted, check_content, check_metadata};
use crate::resources::users::{new_user, own_agentables};

endpoints! {
    post "/v1/{kinds}" for NAMED => create,
    "create_agentable" in "agentables": "Create an agentable, with its user and its first message if they are given.",
    params(Keyed),
    body [CreateAgentable],
    201 "The new agentable." [AgentableResponse],
    409 "`not_creatable`: agentables of this kind are created by agents or with their user. `already_exists`: the user was created meanwhile by another request.",
    429 "`rate_limited`: the user sends too many requests. `too_many_pending`: the user has too many unread messages.";
}

/// The title of the new agentable; empty if the kind generates titles and none is given.
///
/// # Errors
/// [`ApiError::InvalidRequest`] when the title is missing and the kind generates none, or when it is too long.
fn title<'t>(kind: &AgentType, given: Option<&'t str>) -> Result<&'t str> {
    match given {
        None | Some("") if kind.titles => Ok(""),
        None => Err(ApiError::field("/title", "missing field `title`")),
        Some(title) => check_line("/title", title, MAX_TITLE_CHARS).map(|()| title),
    }
}

pub(crate) async fn create(
    ctx: Ctx,
    KindPath(kind): KindPath,
    request: body::Creation<CreateAgentable>,
) -> Result<Response> {
    let body::Creation { value: body, key } = request;
    check_creatable(&kind)?;
    body.message.as_ref().map_or(Ok(()), |first| check_message(&kind, first))?;
    let title = title(&kind, body.title.as_deref())?;
    check_bytes("/description", &body.description, MAX_DESCRIPTION_BYTES)?;
    let served_by = check_serving(&ctx, &kind.kind, (body.agent_id, body.team_id)).await?;
    if let Some(names) = &body.tools {
        tools::check(&ctx, &kind.kind, "/tools", names).await?;
    }
    let stored_key = key.as_ref().map(Key::as_stored);
    let mut owner = owner(&ctx, (body.user_id, body.user), stored_key).await?;
    let ctx = ctx.with_shard(shard(owner.id()));
    if body.message.is_some() {
        let whose = match &owner {
            Owner::Existing(user) => Whose::User(*user),
            Owner::New(user) => Whose::NewUser(user.id),
        };
        ask(&ctx, whose, key.as_ref()).await?;
    }
    let key = stored_key;
    let posting = body.message.as_ref().map_or_else(Posting::default, |_| Posting::begin(kind.urgency));
    let mut message = body.message.map(|first| {
        let (ids, user, metadata) = (&ctx.state.ids, owner.id(), Value::Object(first.metadata));
        let mut post = NewPost::new(ids.beside(user), ids.beside(user), first.content, metadata);
        post.traceparent.clone_from(&posting.traceparent);
        post
    });
    let created_at = ctx.now();
    // Creates the agentable under a new id.
    let create = async |owner: &Owner, message: Option<&NewPost>| {
        let (user, new_user) = match owner {
            Owner::Existing(id) => (*id, None),
            Owner::New(user) => (user.id, Some(user)),
        };
        let path = AgentablePath::new(&kind, ctx.state.ids.beside(user));
        let agentable = NewAgentable {
            id: path.id,
            user,
            kind: &kind.kind,
            title,
            description: &body.description,
            status: kind.initial_status(),
            tools: body.tools.as_deref(),
            created_at,
        };
        let own = new_user.map_or_else(Vec::new, |user| own_agentables(&ctx, user));
        let user = new_user.map(|user| NewUser { user, own: &own });
        let creation = Creation { user, agentable: Some(&agentable), served_by, message };
        let response = stored_body(&response(&ctx, &agentable, &path, served_by, message));
        let done = ctx.store().create(&creation, (key, &response)).await?;
        Ok::<_, Error>((path, done))
    };
    let mut made = create(&owner, message.as_ref()).await;
    if let (Err(Error::Exists { .. }), Owner::New(user)) = (&made, &owner) {
        // Another request has created the user meanwhile.
        owner = owner_of(&ctx, user.clone()).await?;
        if let Some(message) = &mut message {
            (message.id, message.run) = (ctx.state.ids.beside(owner.id()), ctx.state.ids.beside(owner.id()));
        }
        made = create(&owner, message.as_ref()).await;
    }
    let (path, done) = made.map_err(ApiError::taken("external_id"))?;
    let (stored, replayed) = unless_key_reused(done)?;
    if let (false, Some(message)) = (replayed, message) {
        let events = message.events(&message.opened(NewPost::FIRST_SEQ, created_at));
        ctx.state.bus.publish(path.id, Live::Committed(events));
        ctx.state.metrics.runs.enqueued(path.urgency.into());
        posting.end(message.id, message.run);
        ctx.send_hint(path.id, path.urgency);
    }
    created((stored, replayed), &format!("/v1/{}s", kind.kind))
}

/// # Errors
/// [`ApiError::NotCreatable`] when users may not create agentables of the kind.
pub(crate) fn check_creatable(kind: &AgentType) -> Result<()> {
    if kind.user_creatable() {
        return Ok(());
    }
    Err(ApiError::NotCreatable { kind: kind.kind.clone(), made_with_user: kind.made_with_user })
}

/// # Errors
/// [`ApiError`] when agentables of the kind accept no messages, or the message is invalid.
fn check_message(kind: &AgentType, first: &CreateFirstMessage) -> Result<()> {
    ensure!(kind.conversational, ApiError::field("/message", "agentables of this kind accept no messages"));
    check_content("/message/content", &first.content, false)?;
    check_metadata("/message/metadata", &first.metadata)
}

/// The user for whom an agentable is created.
enum Owner {
    Existing(UserId),
    New(User),
}

impl Owner {
    fn id(&self) -> UserId {
        match self {
            Self::Existing(id) => *id,
            Self::New(user) => user.id,
        }
    }
}

async fn owner(
    ctx: &Ctx,
    user: (Option<UserId>, Option<CreateUser>),
    key: Option<IdempotencyKey<'_>>,
) -> Result<Owner> {
    match user {
        (Some(id), None) => ctx.caller.check_user(id).map(|()| Owner::Existing(id)),
        (None, Some(_)) if ctx.caller.user().is_some() => Err(ApiError::BoundKey),
        (None, Some(user)) => {
            let new = new_user(ctx, "/user", user, key)?;
            Ok(owner_of(&ctx.with_shard(shard(new.id)), new).await?)
        }
        (None, None) => Err(ApiError::field("/user_id", "missing field `user_id`, or `user`")),
        (Some(_), Some(_)) => Err(ApiError::field("/user", "either `user_id` or `user`, not both")),
    }
}

/// The user with the external id of `new`, or else `new`.
async fn owner_of(ctx: &Ctx, new: User) -> Result<Owner, Error> {
    let Some(external_id) = &new.external_id else { return Ok(Owner::New(new)) };
    let existing = ctx.store().users(Some(external_id), None, 1).await?;
    Ok(existing.first().map(|user| Owner::Existing(user.id)).unwrap_or(Owner::New(new)))
}

fn response(
    app: &App,
    agentable: &NewAgentable<'_>,
    path: &AgentablePath,
    served_by: ServedBy,
    message: Option<&NewPost>,
) -> AgentableResponse {
    let run_status = message.map(|_| RunStatus::Queued);
    let status = app.state.agent_types.get(&path.kind).map(|kind| kind.status(agentable.status, run_status));
    let made = made(agentable, served_by);
    AgentableResponse {
        last_seq: Some(message.map_or(0, |_| NewPost::FIRST_SEQ)),
        read_seq: path.conversational.then_some(0),
        unread: path.conversational.then_some(0),
        status: status.unwrap_or(made.status),
        run_id: message.map(|message| message.run),
        message: message.map(|message| {
            let posted = message.opened(NewPost::FIRST_SEQ, agentable.created_at);
            Box::new(accepted(path, &posted, message.clone()))
        }),
        ..made
    }
}

/// The response for an agentable that is created, as far as it follows from what is stored of it.
pub(crate) fn made(agentable: &NewAgentable<'_>, served_by: ServedBy) -> AgentableResponse {
    AgentableResponse {
        id: agentable.id.public_id(agentable.kind),
        user_id: agentable.user,
        parent_id: None,
        title: agentable.title.to_owned(),
        description: agentable.description.to_owned(),
        status: agentable.status.map(str::to_owned),
        run_id: None,
        agent_id: served_by.agent,
        team_id: served_by.team,
        tools: agentable.tools.map(<[String]>::to_vec),
        result: None,
        message: None,
        cost: Some(Decimal::ZERO),
        unpriced_calls: 0,
        last_seq: None,
        read_seq: None,
        unread: None,
        created_at: Time(agentable.created_at),
    }
}

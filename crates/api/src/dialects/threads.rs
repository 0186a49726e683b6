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
//! Asker (extractor) → find_or_create(asker, target, (pointer, thread id)) → Thread::post → Thread::open
//! ```
//!
//! Routes that use it are added with [`THREAD`](crate::request::access::THREAD): the scope is checked there, and
//! whose thread it is here.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use houston_domain::agentable::{AgentType, DoubleTexting};
use houston_domain::client_offer::ClientOffer;
use houston_domain::id::{AgentId, AgentableId, QuestionId, Shard, shard};
use houston_domain::question::Question;
use houston_protocol::message::MessageImage;
use houston_protocol::user::CreateUser;
use houston_store::Error;
use houston_store::agentable::NewAgentable;
use houston_store::client_thread::{ClientThread, FoundThread, ThreadTarget, ThreadUser};
use houston_store::creation::{Creation, NewUser};
use houston_store::message::Posted;
use houston_store::rate::Whose;
use houston_store::serving::ServedBy;
use houston_store::user::User;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::caller::{Caller, USER_HEADER};
use crate::events::position::Position;
use crate::events::stream::Dialect;
use crate::events::{Options, open_as};
use crate::request::auth::authenticate;
use crate::request::named_user;
use crate::request::prelude::*;
use crate::request::rates::ask;
use crate::resources::messages::{check_content, new_post, store_offering, with_images};
use crate::resources::questions::closed_otherwise;
use crate::resources::users::{new_user, own_agentables};

/// The most characters of a client's thread id.
const MAX_THREAD_CHARS: usize = 200;

/// Who asks for a thread: the caller, and whom the request is for. Taking it checks the access of the route.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) ctx: Ctx,
    /// The only agentables that the key is for.
    agentables: Option<Arc<[AgentableId]>>,
    /// The user whom header or protocol name, for a caller of no user.
    named: Option<String>,
}

impl Asker {
    pub(crate) fn caller(&self) -> Caller {
        self.ctx.caller
    }

    /// With the user whom the protocol of the request names besides, if it does. `pointer` says where.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when the caller is bound to another user, [`ApiError::InvalidRequest`] when the request has
    /// named another one before; the store's errors.
    pub(crate) async fn for_user(mut self, (pointer, name): (&str, Option<&str>)) -> Result<Self> {
        let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else { return Ok(self) };
        if self.caller().user().is_some() {
            named_user::narrowed(&self.ctx, self.caller(), name).await?;
            return Ok(self);
        }
        if let Some(before) = self.named.as_deref().filter(|before| *before != name) {
            let known = async |name| named_user::known(&self.ctx, self.caller(), name).await;
            let (earlier, this) = (known(before).await?, known(name).await?);
            if earlier.is_none() || earlier != this {
                let reason =
                    "names another user than the rest of the request (a field, or the header `Houston-User`)";
                return Err(ApiError::field(pointer, reason));
            }
            return Ok(self);
        }
        self.named = Some(name.to_owned());
        Ok(self)
    }

    /// The idempotency key of the request, as one of the user whom it is for, and of this attempt ([`Key::of_attempt`]).
    pub(crate) async fn own_key(&self, key: Option<Key>) -> Result<Option<Key>> {
        let Some(key) = key else { return Ok(None) };
        // That of a caller of one user is, already.
        let key = match self.named.as_deref().filter(|_| self.caller().user().is_none()) {
            Some(user) => key.of_user(user),
            None => key,
        };
        key.of_attempt(&self.ctx).await.map(Some)
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
    pub(crate) fn user(&self) -> Result<ThreadUser<'_>> {
        self.named_user().ok_or_else(|| {
            let missing = "is missing: this key is of no user. Send the id of a user (`user_…`), or your own id for the user, \
                           which creates the user if there is none; or use a client token or a JWT";
            ApiError::parameter(USER_HEADER.as_str(), missing)
        })
    }

    /// # Errors
    /// [`ApiError::NotFound`] when the caller's token is for other agentables.
    fn check_agentable(&self, id: AgentableId) -> Result<()> {
        let is_allowed = self.agentables.as_ref().is_none_or(|allowed| allowed.contains(&id));
        if is_allowed { Ok(()) } else { Err(NOT_FOUND) }
    }
}

impl FromRequestParts<Arc<App>> for Asker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        // Checks the access of the route, and that the header names no other user than the caller's.
        let caller = Caller::from_request_parts(parts, app).await?;
        let agentables = authenticate(parts, app).await?.agentables;
        let named = if caller.user().is_some() { None } else { named_user::in_header(&parts.headers)? };
        Ok(Self { ctx: Ctx { app: Arc::clone(app), caller }, agentables, named })
    }
}

/// A thread that the caller may read and post to. `ctx` is that of its cell.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) ctx: Ctx,
    pub(crate) path: AgentablePath,
}

/// A message to a thread.
#[derive(Debug, Default)]
pub(crate) struct NewMessage<'a> {
    /// Where the request has the text and the images, for errors: JSON Pointers.
    pub(crate) pointers: (&'a str, &'a str),
    pub(crate) content: String,
    pub(crate) images: &'a [MessageImage],
    pub(crate) metadata: Map<String, Value>,
    /// What it does to an open run; `None`: what its kind says.
    pub(crate) double_texting: Option<DoubleTexting>,
    /// What the client offers the run that answers it, if anything; checked ([`Thread::check_offer`]).
    pub(crate) offer: Option<&'a ClientOffer>,
    /// Makes it safe to repeat ([`Key::of_message`]).
    pub(crate) key: Option<&'a Key>,
}

/// Where answers are in the event stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnsweredAt {
    /// The event with the first of them; `None`: there are none.
    pub(crate) closed: Option<i64>,
    /// Where the run had begun to wait for it; `None`: it came before that.
    pub(crate) wait: Option<i64>,
}

impl Thread {
    /// Posts a message, as `POST /v1/{kinds}/{id}/messages` does. Its run is open or queued then; its stream begins after
    /// `run_seq - 1`. Also whether it was posted before.
    ///
    /// # Errors
    /// Those of a message that is not accepted.
    pub(crate) async fn post(&self, message: NewMessage<'_>) -> Result<(Posted, bool)> {
        let NewMessage { pointers: (at_text, at_images), content, images, offer, key, .. } = message;
        check_content(at_text, &content, !images.is_empty())?;
        let Self { ctx, path } = self;
        if !images.is_empty() {
            // Before images are fetched and stored.
            ask(ctx, Whose::Agentable(path.id), key).await?;
        }
        let content = with_images(ctx, path, at_images, (content, images), key).await?;
        let mut post = new_post(ctx, path, content, Value::Object(message.metadata), message.double_texting);
        let offer = offer.filter(|offer| !offer.is_empty());
        store_offering(ctx, path, &mut post, offer, key).await
    }

    /// Checks what a client offers: counts, sizes, names, and that the agent has no tool with one of the names.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] with the JSON Pointer.
    pub(crate) fn check_offer(&self, offer: &ClientOffer) -> Result<()> {
        if offer.is_empty() {
            return Ok(());
        }
        let own = self.ctx.state.agent_types.get(&self.path.kind).map_or(&[][..], |kind| &kind.tools);
        let all = &self.ctx.state.agents.tools;
        let is_taken = |name: &str| own.iter().chain(all).any(|tool| tool == name);
        offer.check(is_taken)?;
        for tool in &offer.tools {
            check_text("/tools", &tool.description)?;
            check_storable_value("/tools", &tool.parameters)?;
        }
        if let Some(output) = &offer.output {
            check_storable_value("/output", &output.schema)?;
        }
        if let Some(data) = offer.focus.as_ref().and_then(|focus| focus.data.as_ref()) {
            check_storable_value("/context", data)?;
        }
        for item in &offer.context {
            check_text("/context", &item.description)?;
            check_text("/context", &item.value)?;
        }
        Ok(())
    }

    /// Answers questions of the thread, all of them or none; the same answer again is accepted. The answers were checked
    /// ([`check_answer`](houston_domain::question::NewQuestion::check_answer)), and that the questions are of this thread.
    ///
    /// # Errors
    /// [`ApiError::QuestionClosed`].
    pub(crate) async fn answer(&self, answers: &[(QuestionId, Value)]) -> Result<AnsweredAt> {
        let Self { ctx, path } = self;
        let Some((first, _)) = answers.first() else { return Ok(AnsweredAt::default()) };
        if let Some(closed) = ctx.store().answer_questions(answers).await? {
            return Err(closed_otherwise(closed));
        }
        ctx.publish_nudge(path.id);
        ctx.send_hint(path.id, path.urgency);
        let closed = ctx.store().closed_at(path.id, *first).await?;
        let wait = match closed {
            Some(closed) => ctx.store().wait_before(path.id, closed).await?,
            None => None,
        };
        Ok(AnsweredAt { closed, wait })
    }

    /// Opens a stream in the protocol of the endpoint; see [`open_as`].
    pub(crate) async fn open<D: Dialect>(
        self,
        at: Option<Position>,
        options: &Options,
        written: (D, impl FnOnce(Position) -> String),
    ) -> Result<Response> {
        open_as(self.ctx, self.path, at, options, written).await
    }

    /// Reads a stream as its client would: to its end, or for so long. Whether it has ended.
    pub(crate) async fn follow(
        self,
        at: Position,
        options: &Options,
        dialect: impl Dialect,
        within: Duration,
    ) -> Result<bool> {
        let mut body = self.open(Some(at), options, (dialect, |_| String::new())).await?.into_body();
        let read = async { while let Some(Ok(_)) = body.frame().await {} };
        Ok(timeout(within, read).await.is_ok())
    }

    /// The question with this id; `None` if the thread has none.
    pub(crate) async fn question(&self, id: QuestionId) -> Result<Option<Question>> {
        let asked = if_found(self.ctx.store().question(id).await)?;
        Ok(asked.filter(|asked| asked.agentable == self.path.id).map(|asked| asked.question))
    }
}

/// The most characters of a target; names of agents have no more.
const MAX_TARGET_CHARS: usize = 100;

/// A thread that was looked for.
struct Looked<'a> {
    ctx: Ctx,
    asker: &'a Asker,
    of: ClientThread<'a>,
    found: FoundThread,
}

/// The thread of the client; `None`: there is none yet. `pointer`: where the request has its id.
///
/// # Errors
/// As [`find_or_create`], without those of creating.
pub(crate) async fn find(
    asker: &Asker,
    target: &str,
    (pointer, thread): (&str, &str),
) -> Result<Option<Thread>> {
    match look(asker, target, (pointer, thread)).await? {
        Ok(thread) => Ok(Some(thread)),
        Err(looked) => looked.thread(),
    }
}

/// The thread of the client, which is created if there is none. Of several requests at once, one creates it.
///
/// # Errors
/// [`ApiError::NotFound`] when there is no such target, or the thread or the user is not the caller's;
/// [`ApiError::InvalidRequest`] when the thread id is wrong or no user is named; [`ApiError::BoundKey`] when the caller may not
/// create one; [`ApiError::NotCreatable`]; the store's errors.
pub(crate) async fn find_or_create(
    asker: &Asker,
    target: &str,
    (pointer, thread): (&str, &str),
) -> Result<Thread> {
    let mut looked = match look(asker, target, (pointer, thread)).await? {
        Ok(thread) => return Ok(thread),
        Err(looked) => looked,
    };
    // Another request may create the user, and then the thread, at the same time.
    for _ in 0..3 {
        if let Some(thread) = looked.thread()? {
            return Ok(thread);
        }
        if let Some(created) = create(&looked).await? {
            return Ok(created);
        }
        looked.found = looked.ctx.store().client_thread(&looked.of).await?;
    }
    looked.thread()?.ok_or(ApiError::Unavailable(None))
}

/// A thread that Houston's own id names, or else what there is of it.
async fn look<'a>(
    asker: &'a Asker,
    target: &'a str,
    (pointer, thread): (&str, &'a str),
) -> Result<Result<Thread, Looked<'a>>> {
    let types = &asker.ctx.state.agent_types;
    let target = target_of(types, target)?;
    if let Some(path) = AgentablePath::of_public_id(types, thread) {
        return of_public_id(asker, target, (pointer, path)).await.map(Ok);
    }
    check_line(pointer, thread, MAX_THREAD_CHARS)?;
    let user = asker.user()?;
    let shard = match user {
        ThreadUser::Id(id) => shard(id),
        ThreadUser::External(id) => {
            check_line("/user", id, 255)?;
            Shard::of_external_id(asker.caller().tenant(), id)
        }
    };
    let (ctx, of) = (asker.ctx.with_shard(shard), ClientThread { user, target, thread });
    let found = ctx.store().client_thread(&of).await?;
    Ok(Err(Looked { ctx, asker, of, found }))
}

fn target_of<'t>(types: &BTreeMap<String, AgentType>, target: &'t str) -> Result<ThreadTarget<'t>> {
    if let Some(kind) = types.get(target) {
        let accepts = kind.conversational.then_some(ThreadTarget::Kind(target));
        return accepts.ok_or(ApiError::NotFound("conversation"));
    }
    if target.chars().count() > MAX_TARGET_CHARS || check_text("", target).is_err() {
        return Err(ApiError::NotFound("agent"));
    }
    Ok(target.parse::<AgentId>().map_or(ThreadTarget::AgentNamed(target), ThreadTarget::Agent))
}

/// The thread with Houston's own id.
async fn of_public_id(
    asker: &Asker,
    target: ThreadTarget<'_>,
    (pointer, path): (&str, AgentablePath),
) -> Result<Thread> {
    let ctx = asker.ctx.with_shard(shard(path.id));
    let is_there = match target {
        ThreadTarget::Kind(kind) if kind == path.kind => true,
        ThreadTarget::Kind(kind) => {
            let reason = format!("is a `{}`; this address is that of `{kind}`", path.kind);
            return Err(ApiError::field(pointer, reason));
        }
        ThreadTarget::Agent(id) => !ctx.store().agents_among(&[id]).await?.is_empty(),
        ThreadTarget::AgentNamed(name) => ctx.store().id_of_name("agent", name).await?.is_some(),
    };
    ensure!(is_there, ApiError::NotFound("agent"));
    ensure!(path.conversational, ApiError::NotFound("conversation"));
    if let Some(user) = asker.named_user() {
        let owner = ctx.owners.user_of(ctx.store(), ctx.caller.tenant(), path.id).await;
        let owner = if_found(owner)?.ok_or(NOT_FOUND)?;
        let user = match user {
            ThreadUser::Id(id) => Some(id),
            ThreadUser::External(id) => named_user::known(&ctx, ctx.caller, id).await?,
        };
        ensure!(user == Some(owner), NOT_FOUND);
    }
    asker.check_agentable(path.id)?;
    Ok(Thread { ctx, path })
}

/// What is said of another user's thread and of what does not exist.
const NOT_FOUND: ApiError = ApiError::NotFound("agentable");

impl Looked<'_> {
    /// The thread, if there is one.
    fn thread(&self) -> Result<Option<Thread>> {
        self.kind()?;
        let Some((id, kind)) = &self.found.agentable else { return Ok(None) };
        self.asker.check_agentable(*id)?;
        self.at(kind, *id).map(Some)
    }

    fn at(&self, kind: &str, id: AgentableId) -> Result<Thread> {
        let path = AgentablePath::of_kind(&self.ctx.state.agent_types, kind, id).ok_or(NOT_FOUND)?;
        Ok(Thread { ctx: self.ctx.clone(), path })
    }

    /// The kind of the target.
    ///
    /// # Errors
    /// [`ApiError::NotFound`] when there is no such agent, or its kind accepts no messages.
    fn kind(&self) -> Result<&AgentType> {
        let types = &self.ctx.state.agent_types;
        let kind = match (self.of.target, &self.found.agent) {
            (ThreadTarget::Kind(kind), _) => types.get(kind),
            (_, Some(agent)) => types.get(&agent.kind),
            (_, None) => return Err(ApiError::NotFound("agent")),
        };
        kind.filter(|kind| kind.conversational).ok_or(ApiError::NotFound("conversation"))
    }
}

/// Creates the thread; `None`: another request has created it, or its user, meanwhile.
async fn create(looked: &Looked<'_>) -> Result<Option<Thread>> {
    let kind = looked.kind()?;
    ensure!(looked.asker.agentables.is_none(), ApiError::BoundKey);
    if let Some(agent) = looked.found.agent.as_ref().filter(|agent| !agent.enabled) {
        let detail = format!("{} is disabled; enable it first", agent.id);
        return Err(ApiError::parameter("target", detail));
    }
    let (user, new) = match looked.found.user {
        Some(user) => (user, None),
        None => new_owner(looked).map(|new| (new.id, Some(new)))?,
    };
    let ctx = &looked.ctx;
    let store = ctx.store();
    let target = target(looked);
    let own = new.as_ref().map_or_else(Vec::new, |user| own_agentables(ctx, user));
    let id = if kind.made_with_user {
        if let Some(user) = &new {
            match store.create_user(user, &own, (None, &Value::Null)).await {
                Err(Error::Exists { .. }) => return Ok(None),
                created => created?,
            };
        }
        store.own_client_thread(user, &kind.kind, (&target, looked.of.thread)).await?
    } else if kind.user_creatable() {
        let agentable = NewAgentable {
            id: ctx.state.ids.beside(user),
            user,
            kind: &kind.kind,
            title: if kind.titles { "" } else { looked.of.thread },
            description: "",
            status: kind.initial_status(),
            tools: None,
            created_at: ctx.now(),
        };
        let agent = looked.found.agent.as_ref().map(|agent| agent.id);
        let creation = Creation {
            user: new.as_ref().map(|user| NewUser { user, own: &own }),
            agentable: Some(&agentable),
            served_by: ServedBy { agent, team: None },
            message: None,
        };
        match store.create_client_thread(&creation, &target, looked.of.thread).await {
            Ok(true) => agentable.id,
            Ok(false) | Err(Error::Exists { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    } else {
        return Err(ApiError::NotCreatable { kind: kind.kind.clone(), made_with_user: false });
    };
    looked.at(&kind.kind, id).map(Some)
}

/// The user who is created with the thread.
fn new_owner(looked: &Looked<'_>) -> Result<User> {
    let ThreadUser::External(external_id) = looked.of.user else {
        return Err(ApiError::NotFound("user"));
    };
    let body = CreateUser {
        external_id: Some(external_id.to_owned()),
        name: external_id.chars().take(200).collect(),
        time_zone: None,
    };
    new_user(&looked.ctx, "/user", body, None)
}

/// The target as it is stored: an agent by its id, because names change.
fn target(looked: &Looked<'_>) -> String {
    match (looked.of.target, &looked.found.agent) {
        (_, Some(agent)) => agent.id.0.to_string(),
        (ThreadTarget::Kind(target) | ThreadTarget::AgentNamed(target), None) => target.to_owned(),
        (ThreadTarget::Agent(id), None) => id.0.to_string(),
    }
}

//! The operations of both bindings, except sending messages ([`send`](super::send)).

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use houston_domain::id::{RunId, Shard, shard};
use houston_domain::question::NewQuestion;
use houston_domain::run::{Run, RunStatus};
use houston_domain::scope::Scope;
use houston_protocol::a2a::{A2AError, GetTaskRequest, ListTasksRequest, ListTasksResponse, Task};
use houston_store::client_thread::ThreadUser;

use super::error::Refusal;
use super::stream::{Binding, stream, task_only, wait};
use super::task::{TaskIds, Written, keep, task, written};
use crate::deadline::Deadline;
use crate::dialects::threads::{Asker, Thread, find};
use crate::events::Options;
use crate::events::position::Position;
use crate::request::prelude::*;

/// Tasks on a page of a list, if the request does not say, and at most if it does.
const USUAL_PAGE: i32 = 20;
const MAX_PAGE: i32 = 50;
/// How long the answer to a cancellation waits for the end of the run.
const CANCEL_WAIT: Duration = Duration::from_secs(5);

/// A request to one target.
pub(super) struct Ask {
    pub(super) asker: Asker,
    pub(super) target: String,
    pub(super) deadline: Deadline,
}

/// A task that the caller may see.
pub(super) struct Found {
    pub(super) thread: Thread,
    pub(super) ids: TaskIds,
    pub(super) run: Run,
    /// The questions it waits for.
    pub(super) questions: Vec<NewQuestion>,
}

impl Found {
    /// The task with what was written in it, and the position up to which.
    pub(super) async fn task(&self) -> Result<(Task, i64)> {
        let Thread { ctx, path } = &self.thread;
        let written: Written = written(ctx, path, &self.run, &self.ids).await?;
        let at = written.last_seq;
        Ok((task(&self.run, &self.ids, &self.questions, Some(written)), at))
    }

    pub(super) fn is_over(&self) -> bool {
        self.run.status.is_terminal()
    }
}

impl Ask {
    /// What answers the request, if the caller has the scope.
    pub(super) fn ctx(&self, needed: Scope) -> Result<&Ctx> {
        self.asker.ctx.caller.needs(needed)?;
        Ok(&self.asker.ctx)
    }

    /// The same request for the user that A2A names in `tenant`, wherever a request has it.
    pub(super) async fn of_tenant(mut self, tenant: Option<&str>) -> Result<Self> {
        self.asker = self.asker.for_user(("/tenant", tenant)).await?;
        Ok(self)
    }

    /// Finds a task by its id.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND` when there is none that the caller may see.
    pub(super) async fn find(&self, id: &str) -> Result<Found, Refusal> {
        self.look_up(id.to_owned()).await.map_err(|refusal| refusal.of_task(id))
    }

    async fn look_up(&self, id: String) -> Result<Found, Refusal> {
        let ctx = self.ctx(Scope::Read)?;
        let run: RunId = id.parse().map_err(|_| ApiError::NotFound("run"))?;
        let run = ctx.with_shard(shard(run)).store().run(run).await?;
        let public = run.owner.id.public_id(&run.owner.kind);
        let thread = find(&self.asker, &self.target, ("/id", &public)).await?;
        let thread = thread.ok_or(ApiError::NotFound("run"))?;
        self.found(thread, run, None).await
    }

    /// The task of a run in a thread. `context`: as the client calls the thread, if it has said so.
    pub(super) async fn found(
        &self,
        thread: Thread,
        run: Run,
        context: Option<&str>,
    ) -> Result<Found, Refusal> {
        let store = thread.ctx.store();
        let questions = match run.status {
            RunStatus::Waiting => {
                let user = store.user_of_agentable(run.owner.id).await?;
                let open = store.open_questions(Some(user), None, None, 100).await?;
                let own = open.into_iter().filter(|asked| asked.run == run.id);
                own.map(|asked| asked.question.asked).collect()
            }
            _ => Vec::new(),
        };
        let context = match context {
            Some(context) => context.to_owned(),
            None => {
                let named = store.client_name_of_thread(run.owner.id).await?;
                named.unwrap_or_else(|| thread.path.public_id())
            }
        };
        let ids = TaskIds { run: run.id, context };
        Ok(Found { thread, ids, run, questions })
    }

    /// `GetTask`.
    pub(super) async fn get(&self, request: GetTaskRequest) -> Result<Task, Refusal> {
        let found = self.find(&request.id).await?;
        let (mut task, _) = found.task().await?;
        keep(&mut task, request.history_length);
        Ok(task)
    }

    /// `ListTasks`: those of one context, or of the user, newest first.
    pub(super) async fn list(&self, request: ListTasksRequest) -> Result<ListTasksResponse, Refusal> {
        self.ctx(Scope::Read)?;
        let size = request.page_size.unwrap_or(USUAL_PAGE);
        if !(1..=100).contains(&size) {
            return Err(ApiError::field("/pageSize", "must be a number from 1 to 100").into());
        }
        let limit = usize::try_from(size.min(MAX_PAGE)).unwrap_or(1);
        let context = request.context_id.as_deref().filter(|context| !context.is_empty());
        let Some(context) = context else { return self.list_of_user(&request, size, limit).await };
        let thread = find(&self.asker, &self.target, ("/contextId", context)).await?;
        let Some(thread) = thread else { return Ok(listed(Vec::new(), String::new(), size)) };
        let cursor = request.page_token.clone().filter(|token| !token.is_empty());
        let before = PageQuery { limit: None, cursor }.position(List::Runs)?;
        let mut runs = thread.ctx.store().runs(thread.path.id, None, before, rows(limit)).await?;
        let next = NextPage::of(List::Runs, limit, &mut runs, |run| run.first_seq).0;
        let found = runs.into_iter().map(|run| self.found(thread.clone(), run, Some(context)));
        let mut tasks = Vec::new();
        for found in try_join_all(found).await? {
            tasks.extend(listed_task(found, &request).await?);
        }
        Ok(listed(tasks, next.unwrap_or_default(), size))
    }

    /// The tasks of the user, in all contexts.
    async fn list_of_user(
        &self,
        request: &ListTasksRequest,
        size: i32,
        limit: usize,
    ) -> Result<ListTasksResponse, Refusal> {
        let ctx = self.ctx(Scope::Read)?;
        let user = match self.asker.user()? {
            ThreadUser::Id(id) => Some(id),
            ThreadUser::External(id) => {
                let ctx = ctx.with_shard(Shard::of_external_id(ctx.caller.tenant(), id));
                ctx.store().users(Some(id), None, 1).await?.first().map(|user| user.id)
            }
        };
        let Some(user) = user else { return Ok(listed(Vec::new(), String::new(), size)) };
        let cursor = request.page_token.clone().filter(|token| !token.is_empty());
        let before = PageQuery { limit: None, cursor }.id(List::Runs)?.map(RunId);
        let kind = ctx.state.agent_types.get(&self.target).map(|kind| kind.kind.as_str());
        let mut runs =
            ctx.with_shard(shard(user)).store().runs_of_user(user, kind, before, rows(limit)).await?;
        let next = NextPage::of(List::Runs, limit, &mut runs, |run| run.0.as_u128()).0;
        let mut tasks = Vec::new();
        for found in join_all(runs.iter().map(|run| self.look_up(run.to_string()))).await {
            match found {
                Ok(found) => tasks.extend(listed_task(found, request).await?),
                // Erased meanwhile, or in a thread for which the token is not.
                Err(Refusal::Api(ApiError::NotFound(_))) => {}
                Err(refusal) => return Err(refusal),
            }
        }
        Ok(listed(tasks, next.unwrap_or_default(), size))
    }

    /// `CancelTask`: waits shortly for the end of the run.
    pub(super) async fn cancel(&self, id: &str) -> Result<Task, Refusal> {
        self.ctx(Scope::Post)?;
        let found = self.find(id).await?;
        let ctx = &found.thread.ctx;
        ctx.streams.reserve(ctx.caller)?;
        if !ctx.cancel_run(found.run.id).await? {
            let mut error = A2AError::task_not_cancelable(id);
            error.message = format!("{id} has ended as `{}`", found.run.status.as_str());
            return Err(error.into());
        }
        let (_, at) = found.task().await?;
        self.deadline.restart_after(CANCEL_WAIT);
        let at = (Position::after(at), true);
        let until = (&Options::default(), CANCEL_WAIT);
        wait(found.thread.clone(), found.ids.clone(), at, until).await?;
        self.deadline.restart_after(Duration::ZERO);
        Ok(self.find(id).await?.task().await?.0)
    }

    /// `SubscribeToTask`: the task as it is, and its updates.
    pub(super) async fn subscribe(&self, id: &str, binding: Binding) -> Result<Response, Refusal> {
        let found = self.find(id).await?;
        if found.is_over() {
            let error = format!("{id} has ended as `{}`: get it instead", found.run.status.as_str());
            return Err(A2AError::unsupported_operation(error).into());
        }
        let (task, at) = found.task().await?;
        let at = Position::after(at);
        if !found.questions.is_empty() {
            return Ok(task_only(task, &binding, at, found.thread.ctx.state.config.retry_ms));
        }
        Ok(stream(found.thread, (task, found.ids), binding, (at, true)).await?)
    }
}

/// The task of a list, if it has the state that the request asks for.
async fn listed_task(found: Found, request: &ListTasksRequest) -> Result<Option<Task>> {
    let with_texts = request.include_artifacts == Some(true) || request.history_length.unwrap_or(0) > 0;
    let mut task =
        if with_texts { found.task().await?.0 } else { task(&found.run, &found.ids, &found.questions, None) };
    keep(&mut task, Some(request.history_length.unwrap_or(0)));
    if request.include_artifacts != Some(true) {
        task.artifacts = None;
    }
    let has_state = request.status.as_ref().is_none_or(|wanted| *wanted == task.status.state);
    let after = request.status_timestamp_after;
    let is_after = after.is_none_or(|after| task.status.timestamp.is_some_and(|at| at > after));
    Ok((has_state && is_after).then_some(task))
}

/// `total_size` counts what is listed: the tasks of a thread are not counted for each page.
fn listed(tasks: Vec<Task>, next_page_token: String, page_size: i32) -> ListTasksResponse {
    let total_size = i32::try_from(tasks.len()).unwrap_or(i32::MAX);
    ListTasksResponse { tasks, next_page_token, page_size, total_size }
}

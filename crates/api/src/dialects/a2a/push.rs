//! Push notifications: where updates of a task are sent while its client is away. They are webhooks that are bound to a run
//! ([`houston_store::task_push`]), so they come in order, are sent again, and end with the task.

use axum::http::HeaderValue;
use houston_domain::id::{RunId, WebhookId};
use houston_domain::scope::Scope;
use houston_protocol::a2a::{
    A2AError, AuthenticationInfo, ListTaskPushNotificationConfigsResponse, PushSecrets,
    TaskPushNotificationConfig,
};
use houston_store::task_push::{NewTaskPush, StoredPush, TaskPush};

use super::error::Refusal;
use super::operations::{Ask, Found};
use super::task::TaskIds;
use crate::dialects::threads::Thread;
use crate::request::prelude::*;
use crate::resources::webhooks::secret;

/// Most bytes of an address, of an id, and of a token or credentials.
const MAX_URL: usize = 2_000;
const MAX_ID: usize = 200;
const MAX_SECRET: usize = 4_000;

/// A configuration that was checked, before anything is stored.
pub(super) struct Push<'a> {
    config: &'a TaskPushNotificationConfig,
    secrets: PushSecrets,
}

impl<'a> Push<'a> {
    /// Checks a configuration at this place of the request.
    ///
    /// # Errors
    /// [`ApiError::InvalidRequest`] when updates must not be sent there, or could not be.
    pub(super) fn new(app: &App, at: &str, config: &'a TaskPushNotificationConfig) -> Result<Self> {
        let field = |name: &str| format!("{at}/{name}");
        check_size(&field("url"), config.url.len(), MAX_URL)?;
        check_text(&field("url"), &config.url)?;
        app.state.sinks.judge(&config.url).map_err(|reason| ApiError::field(&field("url"), reason))?;
        let id = config.id.as_deref().unwrap_or_default();
        check_size(&field("id"), id.len(), MAX_ID)?;
        check_text(&field("id"), id)?;
        let token = config.token.clone().filter(|token| !token.is_empty());
        check_header(&field("token"), token.as_deref().unwrap_or_default())?;
        let authorization = config.authentication.as_ref().and_then(authorization);
        check_header(&field("authentication"), authorization.as_deref().unwrap_or_default())?;
        let secrets = PushSecrets { token, authorization };
        if !secrets.is_empty() {
            secret::keys(app, "")?;
        }
        Ok(Self { config, secrets })
    }

    /// The id under which it is stored: one without an id is the only one of its task.
    fn id(&self, run: RunId) -> String {
        let given = self.config.id.clone().filter(|id| !id.is_empty());
        given.unwrap_or_else(|| WebhookId(run.0).to_string())
    }

    /// Stores it for a task. `after`: events of the task after this position are sent, too.
    ///
    /// # Errors
    /// `UNSUPPORTED_OPERATION` when the task has ended, and those of the store.
    pub(super) async fn store(
        &self,
        thread: &Thread,
        ids: &TaskIds,
        after: Option<i64>,
    ) -> Result<TaskPushNotificationConfig, Refusal> {
        let ctx = &thread.ctx;
        let push_id = self.id(ids.run);
        let webhook = match &self.config.id {
            Some(id) if *id == push_id => ctx.state.ids.beside(thread.path.id),
            _ => WebhookId(ids.run.0),
        };
        let sealed = if self.secrets.is_empty() {
            Vec::new()
        } else {
            let text = serde_json::to_string(&self.secrets).unwrap_or_default();
            secret::seal(ctx, ctx.caller.tenant(), &PushSecrets::purpose(ids.run, &push_id), &text)?
        };
        let new = NewTaskPush {
            id: webhook,
            run: ids.run,
            push_id: &push_id,
            context: &ids.context,
            url: &self.config.url,
            sealed: &sealed,
            after,
        };
        match ctx.store().put_task_push(&ctx.state.ids, &new).await? {
            StoredPush::Stored => {}
            StoredPush::RunIsOver => return Err(over(ids.run)),
        }
        Ok(TaskPushNotificationConfig {
            id: Some(push_id),
            task_id: ids.run.to_string(),
            tenant: None,
            ..self.config.clone()
        })
    }
}

fn over(run: RunId) -> Refusal {
    A2AError::unsupported_operation(format!("{run} has ended: there are no more updates")).into()
}

/// The value of `Authorization`; none without credentials.
fn authorization(authentication: &AuthenticationInfo) -> Option<String> {
    let credentials = authentication.credentials.as_deref().filter(|credentials| !credentials.is_empty())?;
    Some(format!("{} {credentials}", authentication.scheme))
}

fn check_header(at: &str, value: &str) -> Result<()> {
    check_size(at, value.len(), MAX_SECRET)?;
    let is_sendable = HeaderValue::from_str(value).is_ok() && value.is_ascii() && value.trim() == value;
    let wrong = "must be visible ASCII characters: it is sent as a header";
    if is_sendable { Ok(()) } else { Err(ApiError::field(at, wrong)) }
}

/// A configuration as clients read it again: without its secrets.
fn stored(push: TaskPush, task: &str) -> TaskPushNotificationConfig {
    TaskPushNotificationConfig {
        url: push.url,
        id: Some(push.push_id),
        task_id: task.to_owned(),
        token: None,
        authentication: None,
        tenant: None,
    }
}

impl Ask {
    /// `CreateTaskPushNotificationConfig`: for the updates from now on.
    pub(super) async fn create_push(
        &self,
        config: &TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, Refusal> {
        self.ctx(Scope::Post)?;
        let found = self.find(&config.task_id).await?;
        let push = Push::new(&self.asker.ctx, "", config)?;
        ensure!(!found.is_over(), over(found.run.id));
        push.store(&found.thread, &found.ids, None).await
    }

    /// `ListTaskPushNotificationConfigs`: all of them, there are few.
    pub(super) async fn pushes(
        &self,
        task: &str,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Refusal> {
        let Found { thread, run, .. } = self.find(task).await?;
        let all = thread.ctx.store().task_pushes(run.id, None).await?;
        let configs = all.into_iter().map(|push| stored(push, task)).collect();
        Ok(ListTaskPushNotificationConfigsResponse { configs, next_page_token: None })
    }

    /// `GetTaskPushNotificationConfig`.
    pub(super) async fn push(&self, task: &str, id: &str) -> Result<TaskPushNotificationConfig, Refusal> {
        let Found { thread, run, .. } = self.find(task).await?;
        let found = thread.ctx.store().task_pushes(run.id, Some(id)).await?;
        let missing = ApiError::NotFound("push notification configuration");
        Ok(found.into_iter().next().map(|push| stored(push, task)).ok_or(missing)?)
    }

    /// `DeleteTaskPushNotificationConfig`: what was not sent is not sent. One that is not there is deleted already.
    pub(super) async fn delete_push(&self, task: &str, id: &str) -> Result<(), Refusal> {
        self.ctx(Scope::Post)?;
        let Found { thread, run, .. } = self.find(task).await?;
        if_found(thread.ctx.store().delete_task_push(run.id, id).await)?;
        Ok(())
    }
}

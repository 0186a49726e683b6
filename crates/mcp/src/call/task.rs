//! Tasks: what a call has begun, and is asked for later. A task may outlive the run's worker; its id identifies it.

use std::sync::Arc;
use std::time::Duration;

use houston_tools::{Acted, CallContext, Pause, Until};
use rmcp::model::{CallToolResult, DetailedTask, TaskPayload};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use super::{Call, State};
use crate::asked::Asked;
use crate::error::CallError;
use crate::server::Server;
use crate::text::cleaned;

/// How long a worker asks for a task without a pause; then the run waits, and holds no worker.
const HELD: Duration = Duration::from_secs(20);
/// The least and the most time between two questions, whatever the server says.
const POLL: [Duration; 2] = [Duration::from_millis(250), Duration::from_mins(5)];
/// The time between two questions if the server says nothing.
const USUAL: Duration = Duration::from_secs(2);
/// The least time that a run waits: being claimed again costs more than a question.
const WAIT: Duration = Duration::from_secs(10);
/// A server that cannot be reached, or has no answer, so often in a row is not asked again.
const MAX_FAILURES: u32 = 5;
/// The longest id that is kept.
const MAX_ID: usize = 4096;
/// The longest time of a task, in seconds. A server may say that it keeps tasks for ever.
const MAX_AGE_S: i64 = 24 * 60 * 60;

/// A task as it is stored with its call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begun {
    id: String,
    poll_ms: Option<u64>,
    /// Seconds since 1970 when it had begun.
    begun_at: i64,
    /// Questions in a row that were not answered.
    #[serde(default)]
    failures: u32,
    /// What it asked a person, if it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<Asked>,
}

impl Begun {
    /// # Errors
    /// Its id is too long.
    pub(crate) fn new(task: &rmcp::model::Task, context: &CallContext) -> Result<Self, String> {
        if task.task_id.is_empty() || task.task_id.len() > MAX_ID {
            return Err(format!(
                "began a task whose id has {} bytes; 1 to {MAX_ID} are kept",
                task.task_id.len()
            ));
        }
        Ok(Self {
            id: task.task_id.clone(),
            poll_ms: task.poll_interval_ms,
            begun_at: context.now.timestamp(),
            failures: 0,
            asked: None,
        })
    }

    fn interval(&self) -> Duration {
        self.poll_ms.map_or(USUAL, Duration::from_millis).clamp(POLL[0], POLL[1])
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The pause until it is asked for again.
    pub(crate) fn after(self, time: Duration) -> Acted {
        Acted::Paused(Pause { state: State::Task(self).to_value(), until: Until::Elapsed(time) })
    }
}

/// Asks for a task until it has ended, or needs a person, or has taken so long that the run had better wait.
pub(crate) async fn follow(call: &Call, mut begun: Begun, context: &CallContext) -> Acted {
    let mut cancel = CancelOnDrop { server: &call.server, id: Some(begun.id.clone()), context };
    let until = Instant::now() + HELD.min(call.server.call_limit());
    let acted = loop {
        let asked = call.server.task(&begun.id).await;
        let detailed = match asked {
            Ok(task) => task,
            Err(error) if is_passing(&error) && begun.failures < MAX_FAILURES => {
                begun.failures += 1;
                let pause = WAIT * 2_u32.pow(begun.failures);
                break begun.after(pause);
            }
            Err(error) => break Acted::Done(call.failed(CallError::TaskLost(Box::new(error)))),
        };
        begun.failures = 0;
        begun.poll_ms = detailed.task.poll_interval_ms.or(begun.poll_ms);
        if let Some(said) = &detailed.task.status_message {
            let seconds = context.now.timestamp().saturating_sub(begun.begun_at);
            context.progress.report(f64::from(u32::try_from(seconds).unwrap_or(0)), None, said);
        }
        match state_of(call, &begun, detailed) {
            Some(acted) => break acted,
            None if context.now.timestamp() - begun.begun_at > MAX_AGE_S => {
                let _ = call.server.cancel_task(&begun.id).await;
                break Acted::Done(call.failed(CallError::TaskTooOld));
            }
            None if Instant::now() + begun.interval() > until => {
                let interval = begun.interval().max(WAIT);
                break begun.after(interval);
            }
            None => tokio::time::sleep(begun.interval()).await,
        }
    };
    cancel.id = None;
    acted
}

/// What follows from the state of a task; `None`: it goes on.
fn state_of(call: &Call, begun: &Begun, task: DetailedTask) -> Option<Acted> {
    Some(match task.payload {
        TaskPayload::Working => return None,
        TaskPayload::Completed { result } => {
            match serde_json::from_value::<CallToolResult>(Value::Object(result)) {
                Ok(result) => Acted::Done(call.response(Ok(result))),
                Err(_) => Acted::Done(call.failed(CallError::Unsupported("with a task of something else"))),
            }
        }
        TaskPayload::Failed { error } => {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
            let code = i32::try_from(code).unwrap_or(0);
            let message = error.get("message").and_then(Value::as_str).unwrap_or("the task failed");
            Acted::Done(call.failed(CallError::Rpc { code, message: cleaned(message, 4000) }))
        }
        TaskPayload::Cancelled => Acted::Done(call.failed(CallError::TaskCancelled)),
        TaskPayload::InputRequired { input_requests } => {
            call.ask(input_requests, |asked| State::Task(Begun { asked: Some(asked), ..begun.clone() }))
        }
        _ => return None,
    })
}

/// Whether asking again may help.
fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::NotSent(error) => is_passing(error),
        CallError::Closed | CallError::Timeout(_) | CallError::Starting(_) => true,
        CallError::Start | CallError::OwnStart(_) | CallError::Paused(_) => true,
        CallError::Http { status, .. } => status.is_none_or(|status| status == 429 || status >= 500),
        _ => false,
    }
}

/// A task whose run was cancelled while it was asked for is cancelled at the server. One that is handed over to another worker is
/// not.
struct CancelOnDrop<'c> {
    server: &'c Arc<Server>,
    id: Option<String>,
    context: &'c CallContext,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take().filter(|_| self.context.stop.is_cancelled()) else { return };
        let server = Arc::clone(self.server);
        self.server.spawn(async move {
            if let Err(error) = server.cancel_task(&id).await {
                tracing::info!(server = server.name(), %error, "a task was not cancelled; it may go on");
            }
        });
    }
}

//! Sends requests one after the other, so that messages arrive in the order in which they were typed while the stream
//! is shown.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{Ids, QuestionId, RunId};
use houston_domain::message::Message;
use houston_protocol::message::{AcceptedMessageResponse, MessageImage};
use houston_protocol::question::QuestionResponse;
use rand::RngExt as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::error::{ChatError, Result};
use super::follow::backoff;
use super::server::Server;

/// How often a message is sent before it counts as not sent: for about 3 s in a script, and for about 30 s when a
/// person would have to type it again.
pub(crate) const SCRIPT_ATTEMPTS: u32 = 6;
const INTERACTIVE_ATTEMPTS: u32 = 40;
const MAX_DELAY: Duration = Duration::from_secs(1);

/// A request to the API.
#[derive(Debug)]
pub(crate) enum Request {
    Post {
        goal: String,
        text: String,
        images: Vec<MessageImage>,
    },
    Cancel(RunId),
    Answer(QuestionId, Value),
    History {
        goal: String,
        limit: u8,
    },
    /// What the steps of this plan ask.
    Questions(String),
}

/// The result of a [`Request`].
#[derive(Debug)]
pub(crate) enum Response {
    Posted {
        goal: String,
        accepted: Box<AcceptedMessageResponse>,
    },
    PostFailed {
        text: String,
        error: ChatError,
    },
    /// A run was cancelled or a question answered; the stream says what follows.
    Done,
    AnswerFailed {
        question: QuestionId,
        error: ChatError,
    },
    History(Vec<Message>),
    Questions(Vec<QuestionResponse>),
    Failed(ChatError),
}

/// Starts the task that sends requests; it ends when the sender is dropped.
pub(crate) fn start(
    server: Server,
    ids: Arc<Ids>,
    tasks: &TaskTracker,
) -> (mpsc::UnboundedSender<Request>, mpsc::UnboundedReceiver<Response>) {
    let (requests, mut queue) = mpsc::unbounded_channel();
    let (report, responses) = mpsc::unbounded_channel();
    tasks.spawn(async move {
        while let Some(request) = queue.recv().await {
            // The receiver is gone when the user has left; the remaining messages are sent all the same.
            let _ = report.send(run(&server, &ids, request).await);
        }
    });
    (requests, responses)
}

async fn run(server: &Server, ids: &Ids, request: Request) -> Response {
    let response = match request {
        Request::Post { goal, text, images } => {
            return match post(server, ids, &goal, (&text, &images), INTERACTIVE_ATTEMPTS).await {
                Ok(accepted) => Response::Posted { goal, accepted: Box::new(accepted) },
                Err(error) => Response::PostFailed { text, error },
            };
        }
        Request::Answer(question, answer) => {
            let answered = server.answer_question(question, &answer).await;
            return answered
                .map_or_else(|error| Response::AnswerFailed { question, error }, |()| Response::Done);
        }
        Request::Cancel(run) => server.cancel(run).await.map(|()| Response::Done),
        Request::Questions(plan) => server.plan(&plan).await.map(|plan| Response::Questions(plan.questions)),
        Request::History { goal, limit } => server.messages(&goal, limit).await.map(Response::History),
    };
    response.unwrap_or_else(Response::Failed)
}

/// Posts a message once: every attempt has the same idempotency key.
pub(crate) async fn post(
    server: &Server,
    ids: &Ids,
    goal: &str,
    message: (&str, &[MessageImage]),
    max_attempts: u32,
) -> Result<AcceptedMessageResponse> {
    let key = ids.next::<Uuid>().simple().to_string();
    let mut tries = 0;
    loop {
        tries += 1;
        match server.post(goal, message, &key).await {
            Err(error) if error.is_transient() && tries < max_attempts => {
                let chance = rand::rng().random();
                tokio::time::sleep(backoff(tries, MAX_DELAY, chance)).await;
            }
            answered => return answered,
        }
    }
}

//! What is asked of the server beside the stream: one errand after the other, so that messages arrive in the order
//! they were typed, while the stream goes on being shown.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::Ids;
use rand::Rng as _;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::error::ChatError;
use super::follow::pause;
use super::message::{Accepted, Message};
use super::server::Server;

/// How often a message is sent before it counts as not sent: some three seconds for a program, half a minute for a
/// person, whose words would have to be typed again.
pub(crate) const TRIES_OF_A_PROGRAM: u32 = 6;
const TRIES_OF_A_PERSON: u32 = 40;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Debug)]
pub(crate) enum Errand {
    Say { goal: String, text: String },
    Cancel { run: String },
    History { goal: String, limit: u8 },
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Done {
    Said { goal: String, accepted: Accepted },
    NotSaid { text: String, error: ChatError },
    Cancelled,
    History(Vec<Message>),
    Failed(ChatError),
}

/// Whoever does errands; ends when no more can come.
pub(crate) fn runner(
    server: Server,
    ids: Arc<Ids>,
    tasks: &TaskTracker,
) -> (mpsc::UnboundedSender<Errand>, mpsc::UnboundedReceiver<Done>) {
    let (errands, mut todo) = mpsc::unbounded_channel();
    let (report, done) = mpsc::unbounded_channel();
    tasks.spawn(async move {
        while let Some(errand) = todo.recv().await {
            // Whoever left does not care, but what was typed is sent.
            let _ = report.send(run(&server, &ids, errand).await);
        }
    });
    (errands, done)
}

async fn run(server: &Server, ids: &Ids, errand: Errand) -> Done {
    let done = match errand {
        Errand::Say { goal, text } => {
            return match post(server, ids, &goal, &text, TRIES_OF_A_PERSON).await {
                Ok(accepted) => Done::Said { goal, accepted },
                Err(error) => Done::NotSaid { text, error },
            };
        }
        Errand::Cancel { run } => server.cancel(&run).await.map(|()| Done::Cancelled),
        Errand::History { goal, limit } => server.messages(&goal, limit).await.map(Done::History),
    };
    done.unwrap_or_else(Done::Failed)
}

/// Posts a message, once, however often it must be sent.
pub(crate) async fn post(
    server: &Server,
    ids: &Ids,
    goal: &str,
    text: &str,
    most_tries: u32,
) -> Result<Accepted, ChatError> {
    let key = ids.next::<Uuid>().simple().to_string();
    let mut tries = 0;
    loop {
        tries += 1;
        match server.post(goal, text, &key).await {
            Err(error) if error.may_pass() && tries < most_tries => {
                let chance = rand::rng().random();
                tokio::time::sleep(pause(tries, LONGEST_PAUSE, chance)).await;
            }
            answered => return answered,
        }
    }
}

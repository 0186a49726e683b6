//! Simulated clients: they post messages, retry, post twice and cancel runs. Each message has an idempotency key and
//! is sent until it is accepted.

use std::sync::Arc;

use houston_protocol::message::AcceptedMessageResponse;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::apis::{Apis, Request};
use super::message_script::MessageScript;
use super::seed::Seed;

/// Mean pause between two posts of one client, in ms: 22 clients post about 9 messages a second, double texts included.
const PAUSE: u64 = 1_900;
/// Share of the messages whose answer is a JSON object, and of those whose answers come later, per thousand.
const TYPED: u64 = 80;
const PATIENT: u64 = 60;

/// A message, as its sender sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Post {
    pub(crate) number: usize,
    pub(crate) goal: usize,
    pub(crate) content: String,
    /// The 202 response; `None` until the message was accepted.
    pub(crate) accepted: Option<AcceptedMessageResponse>,
    /// A response that must not happen: a 4xx, an unreadable body, or a replay with other ids.
    pub(crate) rejected: Option<String>,
    /// Requests sent.
    pub(crate) tries: u32,
}

/// All messages of the clients, and the number of cancels.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    pub(crate) posts: Vec<Post>,
    /// Cancel requests answered with 202.
    pub(crate) cancels: usize,
}

/// What all clients share.
#[derive(Debug, Clone)]
pub(crate) struct ClientPool {
    pub(crate) apis: Apis,
    pub(crate) goals: Arc<Vec<String>>,
    pub(crate) posts: Arc<Mutex<Posts>>,
    /// No new messages after this time.
    pub(crate) last_post: Instant,
    /// No more retries after this time.
    pub(crate) last_try: Instant,
    /// Share of the messages that make a plan, per thousand.
    pub(crate) plans: u64,
    /// Whether some messages kill the worker that handles them.
    pub(crate) has_poison: bool,
}

impl ClientPool {
    /// Runs one client: posts messages one after the other until `last_post`.
    pub(crate) async fn run_client(self, mut seed: Seed) {
        while Instant::now() < self.last_post {
            sleep(seed.millis(PAUSE / 4, PAUSE * 7 / 4)).await;
            let goal = seed.below(self.goals.len());
            let Some(accepted) = self.send_message(goal, &mut seed).await else { continue };
            if seed.permille(100) {
                // Double texting: the first message's run may be in any state.
                sleep(seed.millis(0, 800)).await;
                self.send_message(goal, &mut seed).await;
            }
            if seed.permille(40) {
                sleep(seed.millis(0, 1500)).await;
                self.cancel(&accepted, &mut seed).await;
            }
        }
    }

    async fn send_message(&self, goal: usize, seed: &mut Seed) -> Option<AcceptedMessageResponse> {
        let mut script = MessageScript::draw(seed, self.plans);
        while script.is_poison() && !self.has_poison {
            script = MessageScript::draw(seed, self.plans);
        }
        let (number, content) = {
            let mut posts = self.posts.lock();
            let number = posts.posts.len();
            let content = script.text(number);
            posts.posts.push(Post { number, goal, content: content.clone(), ..Post::default() });
            (number, content)
        };
        let mut body = json!({ "content": content });
        if seed.permille(TYPED) {
            body["output"] = json!({"schema": {"type": "object", "properties": {"answer": {"type": "string"}},
                "required": ["answer"]}});
        }
        if seed.permille(PATIENT) {
            body["model_policy"] = json!({"latency": "batch"});
        }
        let request = Request {
            path: &format!("/v1/goals/{}/messages", self.goals[goal]),
            body: &body.to_string(),
            once: Some(&format!("post-{number}")),
        };
        let accepted = self.post_until_accepted(number, &request, seed).await?;
        if seed.permille(50) {
            // A client that lost the response sends the request again: the same key must give the same ids.
            let again = self.post_until_accepted(number, &request, seed).await;
            let ids = |response: &AcceptedMessageResponse| (response.message.id, response.message.run_id);
            if again.as_ref().is_some_and(|again| ids(again) != ids(&accepted)) {
                self.reject(number, format!("a replay was answered {again:?} after {accepted:?}"));
            }
        }
        Some(accepted)
    }

    async fn post_until_accepted(
        &self,
        number: usize,
        request: &Request<'_>,
        seed: &mut Seed,
    ) -> Option<AcceptedMessageResponse> {
        let count = || self.posts.lock().posts[number].tries += 1;
        let answer = self.apis.post_until_answered(request, Some(self.last_try), seed, count).await?;
        match answer.json::<AcceptedMessageResponse>() {
            Ok(accepted) => {
                self.posts.lock().posts[number].accepted = Some(accepted.clone());
                Some(accepted)
            }
            Err(error) => {
                self.reject(number, format!("{error:#}"));
                None
            }
        }
    }

    fn reject(&self, number: usize, reason: String) {
        self.posts.lock().posts[number].rejected = Some(reason);
    }

    /// Requests a cancel until an API answers. The run may already have ended.
    async fn cancel(&self, accepted: &AcceptedMessageResponse, seed: &mut Seed) {
        let Some(run) = accepted.message.run_id else { return };
        let request = Request { path: &format!("/v1/runs/{run}/cancel"), body: "", once: None };
        let answer = self.apis.post_until_answered(&request, Some(self.last_post), seed, || ()).await;
        self.posts.lock().cancels += usize::from(answer.is_some_and(|answer| answer.status == 202));
    }
}

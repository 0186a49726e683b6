//! People who post, post again, and change their minds: each message with a key, sent until it is accepted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::seed::Seed;
use super::wish::Wish;
use crate::http::{Connection, Response};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(6);

/// A message, and what its sender knows of it.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) number: usize,
    pub(crate) goal: usize,
    pub(crate) content: String,
    /// What it was answered with; nothing while it was not accepted.
    pub(crate) accepted: Option<Accepted>,
    /// An answer that should not have been.
    pub(crate) refused: Option<String>,
    pub(crate) tries: u32,
}

/// The answer to a post.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) id: String,
    pub(crate) run_id: String,
}

/// Everything that was posted.
#[derive(Debug, Default)]
pub(crate) struct Posts {
    pub(crate) posts: Vec<Post>,
    pub(crate) cancels: usize,
}

/// What all people share.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    pub(crate) apis: Vec<SocketAddr>,
    pub(crate) key: String,
    pub(crate) goals: Arc<Vec<String>>,
    pub(crate) posts: Arc<Mutex<Posts>>,
    /// When people stop to post, and when they stop to try.
    pub(crate) last_post: Instant,
    pub(crate) last_try: Instant,
    /// Between two posts of one person, on average, in ms.
    pub(crate) pause: u64,
}

impl Crowd {
    pub(crate) fn posts(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One person's messages, one after the other.
    pub(crate) async fn person(self, mut seed: Seed) {
        while Instant::now() < self.last_post {
            sleep(seed.millis(self.pause / 4, self.pause * 7 / 4)).await;
            let goal = seed.below(self.goals.len());
            let Some(accepted) = self.say(goal, &mut seed).await else { continue };
            if seed.permille(100) {
                // Double texting: the run of the first may be anywhere.
                sleep(seed.millis(0, 800)).await;
                self.say(goal, &mut seed).await;
            }
            if seed.permille(40) {
                sleep(seed.millis(0, 1500)).await;
                self.cancel(&accepted, &mut seed).await;
            }
        }
    }

    async fn say(&self, goal: usize, seed: &mut Seed) -> Option<Accepted> {
        let wish = Wish::draw(seed);
        let (number, content) = {
            let mut posts = self.posts();
            let number = posts.posts.len();
            let content = wish.text(number);
            posts.posts.push(Post {
                number,
                goal,
                content: content.clone(),
                accepted: None,
                refused: None,
                tries: 0,
            });
            (number, content)
        };
        let path = format!("/v1/goals/{}/messages", self.goals[goal]);
        let body = json!({ "content": content }).to_string();
        let key = format!("post-{number}");
        let accepted = self.try_to_post(number, &path, &body, &key, seed).await?;
        if seed.permille(50) {
            // A client that did not hear the answer: the same key must bring the same one.
            let again = self.try_to_post(number, &path, &body, &key, seed).await;
            if again.as_ref().is_some_and(|again| *again != accepted) {
                self.posts().posts[number].refused =
                    Some(format!("a replay was answered {again:?} after {accepted:?}"));
            }
        }
        Some(accepted)
    }

    async fn try_to_post(
        &self,
        number: usize,
        path: &str,
        body: &str,
        key: &str,
        seed: &mut Seed,
    ) -> Option<Accepted> {
        while Instant::now() < self.last_try {
            self.posts().posts[number].tries += 1;
            let api = seed.one_of(&self.apis);
            let answer = timeout(PATIENCE, self.post_once(api, path, body, key)).await;
            match answer {
                Ok(Ok(answer)) if answer.status < 300 => match answer.json::<Accepted>() {
                    Ok(accepted) => {
                        self.posts().posts[number].accepted = Some(accepted.clone());
                        return Some(accepted);
                    }
                    Err(error) => self.refuse(number, &format!("{error:#}")),
                },
                Ok(Ok(answer)) if answer.status < 500 => {
                    let said = String::from_utf8_lossy(&answer.body).into_owned();
                    self.refuse(number, &format!("{} {said}", answer.status));
                    return None;
                }
                _ => sleep(seed.millis(50, 400)).await,
            }
        }
        None
    }

    fn refuse(&self, number: usize, why: &str) {
        self.posts().posts[number].refused = Some(why.to_owned());
    }

    async fn post_once(&self, api: SocketAddr, path: &str, body: &str, key: &str) -> Result<Response> {
        Connection::open(api, &self.key).await?.post_once(path, body, key).await
    }

    /// Asks a run to stop, until somebody hears it. It may be over.
    async fn cancel(&self, accepted: &Accepted, seed: &mut Seed) {
        let path = format!("/v1/runs/{}/cancel", accepted.run_id);
        while Instant::now() < self.last_post {
            let api = seed.one_of(&self.apis);
            let asked = async { Connection::open(api, &self.key).await?.post(&path, "").await };
            match timeout(PATIENCE, asked).await {
                Ok(Ok(answer)) if answer.status < 500 => {
                    self.posts().cancels += usize::from(answer.status == 202);
                    return;
                }
                _ => sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

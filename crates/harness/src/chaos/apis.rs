//! The API processes, as clients see them: each request goes to one of them, over a connection of its own, and may get no
//! answer.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep, timeout};

use super::seed::Seed;
use crate::http::{Connection, Response};

/// Timeout of one request.
const PATIENCE: Duration = Duration::from_secs(6);

/// The addresses, and a key for all of them.
#[derive(Debug, Clone)]
pub(crate) struct Apis {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) key: String,
}

/// What is posted.
#[derive(Debug)]
pub(crate) struct Request<'r> {
    pub(crate) path: &'r str,
    pub(crate) body: &'r str,
    /// With an idempotency key it takes effect once.
    pub(crate) once: Option<&'r str>,
}

impl Apis {
    pub(crate) async fn get(&self, api: SocketAddr, path: &str) -> Result<Response> {
        let answer = async { Connection::open(api, &self.key).await?.get(path).await };
        timeout(PATIENCE, answer).await?
    }

    async fn post(&self, api: SocketAddr, Request { path, body, once }: &Request<'_>) -> Result<Response> {
        let answer = async {
            let mut connection = Connection::open(api, &self.key).await?;
            match once {
                Some(key) => connection.post_once(path, body, key).await,
                None => connection.post(path, body).await,
            }
        };
        timeout(PATIENCE, answer).await?
    }

    /// Posts until an API has answered with something better than a 5xx, or until `end`. `on_try` is called before each try.
    pub(crate) async fn post_until_answered(
        &self,
        request: &Request<'_>,
        end: Option<Instant>,
        seed: &mut Seed,
        mut on_try: impl FnMut(),
    ) -> Option<Response> {
        while end.is_none_or(|end| Instant::now() < end) {
            on_try();
            let api = seed.one_of(&self.addresses);
            match self.post(api, request).await {
                Ok(answer) if answer.status < 500 => return Some(answer),
                _ => sleep(seed.millis(50, 400)).await,
            }
        }
        None
    }
}

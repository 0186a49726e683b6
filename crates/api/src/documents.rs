//! Whole conversations on their way in and out. They are long, and held in memory: this bounds how many bytes of them
//! there are at once in the process, and how many of one tenant.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use houston_domain::id::TenantId;
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::auth::Caller;
use crate::body::{Creation, announced, is_json, parse_pieces, receive};
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::state::App;

/// How long a request waits for room.
const WAITS: Duration = Duration::from_secs(10);
/// How long a client may take to read a document, from when it is ready.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// Bytes of a document that are handed to the connection at once.
const PIECE: usize = 64 * 1024;

/// The bytes of documents that are held in memory.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    held: Mutex<HashMap<TenantId, usize>>,
    freed: Notify,
}

/// Room for a document, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Room {
    documents: Arc<Documents>,
    tenant: TenantId,
    bytes: usize,
}

impl Room {
    /// Waits until there is room for `bytes` more of `tenant`, who may hold half of all.
    ///
    /// # Errors
    /// [`ApiError::TooManyDocuments`] when there is none in time.
    pub(crate) async fn new(app: &App, tenant: TenantId, bytes: usize) -> Result<Self, ApiError> {
        Self::within(&app.documents, app.state.config.conversation.max_bytes_at_once, tenant, bytes).await
    }

    async fn within(
        documents: &Arc<Documents>,
        limit: usize,
        tenant: TenantId,
        bytes: usize,
    ) -> Result<Self, ApiError> {
        let wait = async {
            loop {
                let freed = documents.freed.notified();
                if documents.take(tenant, bytes, limit) {
                    return;
                }
                freed.await;
            }
        };
        match timeout(WAITS, wait).await {
            Ok(()) => Ok(Self { documents: Arc::clone(documents), tenant, bytes }),
            Err(_) => Err(ApiError::TooManyDocuments { limit }),
        }
    }

    /// Gives back all but `bytes`.
    fn shrink_to(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.documents.give_back(self.tenant, spare);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl Documents {
    /// A document that is longer than a share has it alone.
    fn take(&self, tenant: TenantId, bytes: usize, limit: usize) -> bool {
        let mut held = self.lock();
        let all: usize = held.values().sum();
        let own = held.get(&tenant).copied().unwrap_or(0);
        let fits = (all == 0 || all + bytes <= limit) && (own == 0 || own + bytes <= limit / 2);
        if fits {
            held.insert(tenant, own + bytes);
        }
        fits
    }

    fn give_back(&self, tenant: TenantId, bytes: usize) {
        let mut held = self.lock();
        let left = held.get(&tenant).copied().unwrap_or(0).saturating_sub(bytes);
        if left == 0 {
            held.remove(&tenant);
        } else {
            held.insert(tenant, left);
        }
        drop(held);
        self.freed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A document that was received and not read yet, with room for it.
#[derive(Debug)]
pub(crate) struct Received {
    parts: Parts,
    pieces: Vec<Bytes>,
    _room: Room,
}

impl FromRequest<Arc<App>> for Received {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let limit = app.state.config.conversation.max_bytes;
        let bytes = announced(&parts.headers, limit)?.unwrap_or(limit);
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        let room = Room::new(app, caller.tenant, bytes).await?;
        let pieces = receive(&parts, body, limit).await?;
        Ok(Self { parts, pieces, _room: room })
    }
}

impl Received {
    /// Parses it, and returns the room that what came of it takes. It takes long: not for the runtime's threads.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<(Creation<T>, Room), ApiError> {
        let key = Key::of(&self.parts, self.pieces.iter().map(|piece| &**piece))?;
        let value = parse_pieces(self.pieces)?;
        Ok((Creation { value, key }, self._room))
    }
}

/// A document that is sent, and the room for it until it is read.
#[derive(Debug)]
pub(crate) struct Sent {
    json: Bytes,
    _room: Room,
    until: Instant,
}

/// The client took too long to read a document.
#[derive(Debug, thiserror::Error)]
#[error("the client is too slow")]
pub(crate) struct TooSlow;

impl Sent {
    /// Renders it. It takes long: not for the runtime's threads.
    pub(crate) fn new(document: &impl Serialize, mut room: Room) -> Self {
        // Strings, numbers and maps with names always become JSON.
        let json = Bytes::from(serde_json::to_vec(document).unwrap_or_default());
        room.shrink_to(json.len());
        Self { json, _room: room, until: Instant::now() + READ_WITHIN }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        if self.json.is_empty() {
            return Poll::Ready(None);
        }
        if Instant::now() > self.until {
            return Poll::Ready(Some(Err(TooSlow)));
        }
        let piece = self.json.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.json.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.json.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.json.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    const LIMIT: usize = 100;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn documents_wait_for_room_and_not_for_ever() {
        let documents = Arc::new(Documents::default());
        let room = |tenant, bytes| Room::within(&documents, LIMIT, tenant, bytes);
        let mut first = room(tenant(1), 40).await.unwrap();
        assert!(room(tenant(1), 20).now_or_never().is_none(), "a tenant has half");
        let second = room(tenant(2), 50).await.unwrap();
        let refused = room(tenant(3), 20).await;
        assert!(matches!(refused, Err(ApiError::TooManyDocuments { limit: LIMIT })), "{refused:?}");

        let waiting = tokio::join!(room(tenant(3), 20), async {
            tokio::task::yield_now().await;
            first.shrink_to(30);
        });
        drop((waiting, first, second));
        assert!(room(tenant(1), 2 * LIMIT).await.is_ok(), "what is longer than all has it alone");
        assert!(documents.lock().is_empty(), "all is given back");
    }
}

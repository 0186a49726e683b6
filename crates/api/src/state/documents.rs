//! Memory for whole conversations that are imported, exported or forked. They are long and held in memory, so the bytes
//! held at once are limited, for the process and for each tenant.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use houston_domain::id::TenantId;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::admission;
use crate::error::{ApiError, Result};
use crate::state::caches::take_off;

/// How long a request waits for memory.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to read an exported document, from when it is ready.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Length of the chunks in which a document is sent, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// The bytes reserved for documents, by tenant.
#[derive(Debug)]
pub(crate) struct DocumentMemory {
    /// The bytes that may be reserved at once.
    limit: usize,
    reserved: Mutex<HashMap<TenantId, usize>>,
    released: Notify,
}

/// Bytes reserved for one document, until this is dropped.
#[derive(Debug)]
pub(crate) struct DocumentPermit {
    documents: Arc<DocumentMemory>,
    tenant: TenantId,
    bytes: usize,
}

impl DocumentPermit {
    /// Reserves `bytes` for `tenant`, who may hold half of the total; waits until they are free.
    ///
    /// # Errors
    /// [`ApiError::TooManyDocuments`] when they are not free within 10 s.
    pub(crate) async fn new(documents: &Arc<DocumentMemory>, tenant: TenantId, bytes: usize) -> Result<Self> {
        // The client is told that memory is short, and not that the database is slow.
        admission::untimed(Self::within(documents, tenant, bytes)).await
    }

    /// As [`Self::new`], within the time of the request.
    pub(crate) async fn within(
        documents: &Arc<DocumentMemory>,
        tenant: TenantId,
        bytes: usize,
    ) -> Result<Self> {
        let wait = async {
            loop {
                let released = documents.released.notified();
                if documents.take(tenant, bytes) {
                    return;
                }
                released.await;
            }
        };
        match timeout(PERMIT_TIMEOUT, wait).await {
            Ok(()) => Ok(Self { documents: Arc::clone(documents), tenant, bytes }),
            Err(_) => Err(ApiError::TooManyDocuments(documents.limit)),
        }
    }

    /// Releases all but `bytes`.
    fn shrink_to(&mut self, bytes: usize) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.documents.release(self.tenant, spare);
    }
}

impl Drop for DocumentPermit {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl DocumentMemory {
    /// Memory of which `limit` bytes may be reserved at once.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, reserved: Mutex::default(), released: Notify::new() }
    }

    /// Reserves `bytes` if they fit. A document larger than the limit fits when nothing else is reserved.
    fn take(&self, tenant: TenantId, bytes: usize) -> bool {
        let limit = self.limit;
        let mut reserved = self.reserved.lock();
        let all: usize = reserved.values().sum();
        let own = reserved.get(&tenant).copied().unwrap_or(0);
        let fits = (all == 0 || all + bytes <= limit) && (own == 0 || own + bytes <= limit / 2);
        if fits {
            reserved.insert(tenant, own + bytes);
        }
        fits
    }

    fn release(&self, tenant: TenantId, bytes: usize) {
        take_off(&mut self.reserved.lock(), tenant, bytes);
        self.released.notify_waiters();
    }
}

/// The body of an export, with its reserved memory until the client has read it.
#[derive(Debug)]
pub(crate) struct DocumentBody {
    json: Bytes,
    _permit: DocumentPermit,
    until: Instant,
}

/// The client did not read the document in time.
#[derive(Debug, thiserror::Error)]
#[error("the client is too slow")]
pub(crate) struct ClientTooSlow;

impl DocumentBody {
    pub(crate) fn new(json: impl Into<Bytes>, mut permit: DocumentPermit) -> Self {
        let json = json.into();
        permit.shrink_to(json.len());
        Self { json, _permit: permit, until: Instant::now() + READ_TIMEOUT }
    }
}

impl Body for DocumentBody {
    type Data = Bytes;
    type Error = ClientTooSlow;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientTooSlow>>> {
        if self.json.is_empty() {
            return Poll::Ready(None);
        }
        if Instant::now() > self.until {
            return Poll::Ready(Some(Err(ClientTooSlow)));
        }
        let chunk = self.json.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(self.json.split_to(chunk)))))
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
    async fn documents_wait_for_memory_and_time_out() {
        let documents = Arc::new(DocumentMemory::new(LIMIT));
        let permit = |tenant, bytes| DocumentPermit::within(&documents, tenant, bytes);
        let mut first = permit(tenant(1), 40).await.unwrap();
        assert!(permit(tenant(1), 20).now_or_never().is_none(), "a tenant may hold half");
        let second = permit(tenant(2), 50).await.unwrap();
        let refused = permit(tenant(3), 20).await;
        assert!(matches!(refused, Err(ApiError::TooManyDocuments(LIMIT))), "{refused:?}");

        let waiting = tokio::join!(permit(tenant(3), 20), async {
            tokio::task::yield_now().await;
            first.shrink_to(30);
        });
        drop((waiting, first, second));
        assert!(permit(tenant(1), 2 * LIMIT).await.is_ok(), "a document above the limit is admitted alone");
        assert!(documents.reserved.lock().is_empty(), "everything is released");
    }
}

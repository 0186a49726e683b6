//! Streams that end before their last event: the connection is aborted, because clients take a clean end for the end of
//! the run.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use houston_metrics::streams::Dropped;
use houston_store::Error;
use http_body::{Body, Frame};

/// Why a stream was aborted. Clients reconnect and resume.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Abort {
    /// The process is shutting down.
    #[error("the server is draining")]
    Draining,
    /// The API key of the stream was revoked, or has expired.
    #[error("the API key was revoked or has expired")]
    Revoked,
    /// The agentable was erased.
    #[error("the agentable was erased")]
    Gone,
    /// The user was moved to another cell, where the stream goes on.
    #[error("the user was moved to another cell")]
    Moved,
    /// The client reads too slowly.
    #[error("the client is too slow")]
    TooSlow,
    /// An event in Postgres cannot be decoded, or events were deleted by age before the client got them: it is refused when
    /// it resumes.
    #[error(transparent)]
    Unreadable(#[from] Error),
}

impl Abort {
    /// The reason, for metrics.
    pub(crate) fn reason(&self) -> Dropped {
        match self {
            Self::Draining => Dropped::Draining,
            Self::Revoked => Dropped::Revoked,
            Self::Gone => Dropped::Erased,
            Self::Moved => Dropped::Moved,
            Self::TooSlow => Dropped::TooSlow,
            Self::Unreadable(Error::EventsExpired { .. } | Error::EventsDeleted) => Dropped::Expired,
            Self::Unreadable(_) => Dropped::Unreadable,
        }
    }
}

/// A body that aborts the connection.
#[derive(Debug)]
pub(crate) struct Aborted;

impl Body for Aborted {
    type Data = Bytes;
    type Error = Abort;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Abort>>> {
        Poll::Ready(Some(Err(Abort::Draining)))
    }
}

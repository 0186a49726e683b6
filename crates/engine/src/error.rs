//! Why a drive ended early. None of it loses anything: Postgres holds what was committed.

use houston_store::Error as StoreError;

/// Why this worker stops driving a run that is not over.
#[derive(Debug, thiserror::Error)]
pub enum Interrupted {
    /// Another worker has taken over, or this one's lease has run out: write nothing more.
    #[error("the lock was lost")]
    Lost,
    /// An earlier try of a commit had landed: the run's state must be read anew.
    #[error("a commit had landed before")]
    Landed,
    /// Postgres refused, and waiting does not mend it.
    #[error(transparent)]
    Store(StoreError),
}

impl From<houston_faults::Broken> for Interrupted {
    fn from(broken: houston_faults::Broken) -> Self {
        Self::Store(broken.into())
    }
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced => Self::Lost,
            other => Self::Store(other),
        }
    }
}

//! Why a drive ended early. Nothing is lost: Postgres has everything that was committed.

use houston_store::Error as StoreError;

/// What a part of a drive makes, or why the drive ends early.
pub type Result<T, E = Interrupted> = std::result::Result<T, E>;

/// Why this worker stops driving a run that has not ended.
#[derive(Debug, thiserror::Error)]
pub enum Interrupted {
    /// Another worker has taken over, or this worker's lease has expired: nothing more may be written.
    #[error("the lock was lost")]
    Lost,
    /// An earlier attempt at the same commit had succeeded, or a person's decision came before it: the run's state must be
    /// read again.
    #[error("the run has changed since it was read")]
    Landed,
    /// The plan must be read again, and what was decided is void: something else may have changed the plan, or a decision was
    /// cut short.
    #[error("the plan has changed since it was read")]
    PlanChanged,
    /// Postgres refused a statement, and waiting does not help.
    #[error(transparent)]
    Store(StoreError),
}

impl From<houston_faults::ConnectionBroken> for Interrupted {
    fn from(broken: houston_faults::ConnectionBroken) -> Self {
        Self::Store(broken.into())
    }
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced => Self::Lost,
            StoreError::Answered => Self::Landed,
            StoreError::PlanChanged => Self::PlanChanged,
            other => Self::Store(other),
        }
    }
}

//! How the runs of the last day ended, hour by hour.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The runs that ended in an hour, by how they ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = HourResponse))]
pub struct EndedInHour {
    /// When the hour begins.
    pub hour: Time,
    /// Their agents had finished.
    pub finished: i64,
    pub failed: i64,
    pub dead_lettered: i64,
    pub cancelled: i64,
    /// A limit ended them.
    pub stopped: i64,
}

impl EndedInHour {
    /// With so many more runs that ended with this status.
    #[must_use]
    pub fn with(mut self, status: &str, runs: i64) -> Self {
        let count = match status {
            "completed" | "message_sent" => &mut self.finished,
            "failed" => &mut self.failed,
            "dead_lettered" => &mut self.dead_lettered,
            "cancelled" => &mut self.cancelled,
            _ => &mut self.stopped,
        };
        *count += runs;
        self
    }
}

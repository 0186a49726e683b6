//! 9: today.

use chrono::{DateTime, Utc};

use crate::prompt::section::{List, Section, Stability};

/// By the day, not the minute: whoever needs more asks its tool.
#[must_use]
pub fn time(now: DateTime<Utc>) -> Section {
    let list = List::fixed(format!("Today is {} (UTC).", now.format("%A, %Y-%m-%d")));
    Section::new("time", Stability::Changing, "time_context", vec![list])
}

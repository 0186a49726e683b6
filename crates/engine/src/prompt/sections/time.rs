//! 9: today.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::prompt::section::{List, Section, Stability};

/// Where the user lives. By the day, not the minute: whoever needs more asks its tool.
#[must_use]
pub fn time(now: DateTime<Utc>, zone: Tz) -> Section {
    let today = now.with_timezone(&zone);
    let list = List::fixed(format!("Today is {} ({zone}).", today.format("%A, %Y-%m-%d")));
    Section::new("time", Stability::Changing, "time_context", vec![list])
}

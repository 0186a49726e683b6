//! Section 9: the date.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::prompt::section::{List, Section, Stability};

/// The date in the user's time zone. Not the time of day, which would change with each run: a tool returns it.
#[must_use]
pub fn time(now: DateTime<Utc>, zone: Tz) -> Section {
    let today = now.with_timezone(&zone);
    let list = List::fixed(format!("Today is {} ({zone}).", today.format("%A, %Y-%m-%d")));
    Section::new("time", Stability::Changing, "time_context", vec![list])
}

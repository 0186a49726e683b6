//! Section 5: when the agentable wakes up by itself.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::prompt::section::{List, Section, Stability};
use houston_domain::frame::indented;

/// One line per check-in, the next first: time in the user's time zone, and reason. Empty when there are none.
#[must_use]
pub fn automation(check_ins: &[(DateTime<Utc>, String)], zone: Tz) -> Section {
    let line = |(wanted_at, reason): &(DateTime<Utc>, String)| {
        let at = wanted_at.with_timezone(&zone).format("%Y-%m-%d %H:%M");
        format!("- {at} ({zone}): {}", indented(reason))
    };
    let list = List {
        head: "What you set to happen without a message:".to_owned(),
        items: check_ins.iter().map(line).collect(),
        others: "- …".to_owned(),
        ..List::default()
    };
    let lists = if list.items.is_empty() { Vec::new() } else { vec![list] };
    Section::new("automation", Stability::Agentable, "automation", lists)
}

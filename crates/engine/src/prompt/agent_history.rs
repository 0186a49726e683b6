//! Summaries of the last closed sessions. They change when a session is closed, and no conversation goes on then: so
//! they stand at the end of what is cached for the agentable, after its aim.

use std::fmt::Write as _;

use houston_store::history::KnownSession;

use super::sections::escape;

/// The sessions, oldest first: as they came.
#[must_use]
pub fn agent_history(sessions: &[KnownSession]) -> String {
    if sessions.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<agent_history>\nSummaries of your last sessions, the latest at the end. search_agent_history finds older \
         ones, and what was said.\n",
    );
    for KnownSession { id, day, summary } in sessions.iter().rev() {
        let _ = writeln!(text, "<session id=\"{id}\" day=\"{day}\">{}</session>", escape(summary));
    }
    text + "</agent_history>\n"
}

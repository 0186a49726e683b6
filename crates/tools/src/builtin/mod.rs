//! The tools that come with Houston, one file each.

mod create_note;
mod get_current_time;
mod list_notes;
mod manage_learning;
mod send_message;

use std::sync::Arc;

use crate::tool::SharedTool;

/// All of them.
#[must_use]
pub fn all() -> Vec<SharedTool> {
    vec![
        Arc::new(send_message::SendMessage::default()),
        Arc::new(create_note::CreateNote::default()),
        Arc::new(list_notes::ListNotes::default()),
        Arc::new(manage_learning::ManageLearning::default()),
        Arc::new(get_current_time::GetCurrentTime::default()),
    ]
}

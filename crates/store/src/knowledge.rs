//! What agents know: notes, learnings and files of an agentable; memories, custom instructions, feed items, snippets, todos,
//! custom tables, images, attachments and the profile of a user.
//! Requests of a tenant write them, and so do runs, in the fenced transaction of a step.

pub mod attachment;
pub mod custom_record;
pub mod custom_table;
pub mod excerpt;
pub mod image;
pub mod knowledge_item;
pub(crate) mod profile;
pub mod snippet;
pub mod todo;
pub mod workspace_file;

//! What agents know: notes, learnings and files of an agentable; memories, custom instructions, feed items, snippets and
//! the profile of a user.
//! Requests of a tenant write them, and so do runs, in the fenced transaction of a step.

pub mod excerpt;
pub mod knowledge_item;
pub(crate) mod profile;
pub mod snippet;
pub mod workspace_file;

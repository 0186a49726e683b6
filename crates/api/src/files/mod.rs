//! `/v1/{kinds}/{id}/files`: the files of an agentable's workspace, which its agent writes.

pub(crate) mod get;
pub(crate) mod list;

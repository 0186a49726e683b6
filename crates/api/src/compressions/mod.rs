//! `/v1/{kinds}/{id}/compressions`: where summaries took the place of the beginning of a long conversation.

pub(crate) mod list;

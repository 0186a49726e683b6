//! `/v1/{kinds}/{id}/compressions`: summaries that replace the beginning of a long conversation in what the model is sent.

pub(crate) mod list;

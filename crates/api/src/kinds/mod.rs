//! `/v1/kinds`: the kinds of agentables, which the files of the installation define.

pub(crate) mod list;

//! `/v1/goals`: long-lived conversations about one aim. Reading one is the same for every kind: `agentables`.

pub(crate) mod create;

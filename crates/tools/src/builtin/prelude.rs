//! What nearly every tool uses.

pub(super) use houston_domain::capability::Capability;
pub(super) use houston_domain::ensure;
pub(super) use houston_domain::tool_call::{EffectClass, ToolErrorCode, ToolResponse};
pub(super) use houston_store::record::RecordTx;
pub(super) use schemars::JsonSchema;
pub(super) use serde::Deserialize;

pub(super) use crate::input::{Refusal, failed, invalid, limit, line, text};
pub(super) use crate::outside::Outside;
pub(super) use crate::record::{keep, not_found};
pub(super) use crate::tool::{CallContext, Plan};
pub(super) use crate::typed::{About, Access, BuiltIn, Needs};
pub(super) use crate::untrusted;

/// What a tool returns, or why it refuses.
pub(super) type Result<T, E = Refusal> = std::result::Result<T, E>;

//! Erasures: what was erased at somebody's request.

use std::collections::BTreeMap;

use houston_domain::id::{ApiKeyId, ErasureId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::time::Time;

/// An erasure. It is kept, and has no content of what was erased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErasureResponse {
    #[schema(value_type = schema::ErasureId)]
    pub id: ErasureId,
    /// `running` while rows are deleted, then `completed`.
    pub status: String,
    /// `user`, or the kind of the agentable.
    pub resource: String,
    pub resource_id: String,
    /// The key that asked; null: nobody over HTTP.
    #[schema(value_type = Option<schema::ApiKeyId>)]
    pub api_key_id: Option<ApiKeyId>,
    /// How many rows were deleted so far, by table.
    pub deleted: BTreeMap<String, i64>,
    #[schema(value_type = schema::Time)]
    pub requested_at: Time,
    #[schema(value_type = Option<schema::Time>)]
    pub completed_at: Option<Time>,
}

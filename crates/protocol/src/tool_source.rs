//! Tool sources: where the tools of a tenant's own come from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Time;

/// A document of HTTP endpoints: `{"document": "base = \"https://crm.example.com\"\n…", "kinds": ["goal"],
/// "secrets": {"crm": "…"}}`.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutEndpoints {
    /// The text of a TOML file of endpoints, an OpenAPI 3 document, or an object of the shape of the TOML file.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::AnyJson))]
    pub document: Value,
    /// The kinds whose agents are offered all of its tools. Agents of other kinds name tools under `tools`.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// The secrets that the document names. Given, they replace all that are stored; without, those stay. They cannot be
    /// read.
    pub secrets: Option<BTreeMap<String, String>>,
}

/// A document of HTTP endpoints, without its secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointsResponse {
    pub name: String,
    /// As it was sent; an object as JSON text.
    pub document: String,
    pub kinds: Vec<String>,
    /// The names of its tools.
    pub tools: Vec<String>,
    /// The names of its secrets that are set.
    pub secrets: Vec<String>,
    /// The names of secrets that the document needs and that are not set: calls fail without them.
    pub missing_secrets: Vec<String>,
    /// Operations of an OpenAPI document that are no tools, with the reason.
    pub skipped: Vec<String>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// All documents of HTTP endpoints of the tenant, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EndpointsList {
    pub data: Vec<EndpointsResponse>,
}

//! Snippets: code that agents keep for a user, and the tools that some of them are.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "openapi")]
use crate::schema;
use crate::time::Time;

/// A snippet without its code.
///
/// ```json
/// {"name": "monthly_report", "language": "javascript", "description": "Sums the orders of a month.", "chars": 420,
///  "tool": "snippet__monthly_report", "untrusted": false, "created_at": "2026-11-22T09:00:02.000Z",
///  "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnippetResponse {
    pub name: String,
    /// `javascript` or `typescript`.
    pub language: String,
    /// What it does: one line.
    pub description: String,
    /// Length of its code in characters.
    pub chars: u32,
    /// The name of the tool that it is; null: it is none.
    pub tool: Option<String>,
    /// Whether the agent that wrote it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

/// A snippet with its code.
///
/// ```json
/// {"name": "monthly_report", "language": "javascript", "description": "Sums the orders of a month.",
///  "code": "return input.orders.length", "tool": null, "input_schema": null, "untrusted": false,
///  "created_at": "2026-11-22T09:00:02.000Z", "updated_at": "2026-11-22T09:00:02.000Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnippetCodeResponse {
    pub name: String,
    /// `javascript` or `typescript`.
    pub language: String,
    /// What it does: one line.
    pub description: String,
    /// The body of an async function, which reads its argument as `input`.
    pub code: String,
    /// The name of the tool that it is; null: it is none.
    pub tool: Option<String>,
    /// The JSON schema of the tool's arguments; null: it is no tool.
    #[cfg_attr(feature = "openapi", schema(value_type = schema::AnyJson, required = false))]
    pub input_schema: Option<Value>,
    /// Whether the agent that wrote it had read what strangers wrote.
    pub untrusted: bool,
    pub created_at: Time,
    pub updated_at: Time,
}

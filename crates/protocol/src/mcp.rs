//! Houston as an MCP server: the JSON-RPC messages of the Model Context Protocol, over streamable HTTP without sessions.
//!
//! The servers whose tools agents call are in [`mcp_server`](crate::mcp_server).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The protocol's revision whose requests each say their own version, without `initialize`.
pub const STATELESS_VERSION: &str = "2026-07-28";

/// The revisions that begin with `initialize`; the first is offered to a client that asks for one that is not here.
pub const HANDSHAKE_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What a client posts: a request, or a notification, which has no `id` and gets no answer.
///
/// ```json
/// {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_thread", "arguments": {}}}
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct McpMessage {
    #[serde(default)]
    pub jsonrpc: String,
    /// Text or a number.
    pub id: Option<Value>,
    /// Absent in the answer of a client to a request of a server, which Houston never sends.
    pub method: Option<String>,
    #[serde(default)]
    pub params: Map<String, Value>,
}

/// The answer to a request.
///
/// ```json
/// {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
/// {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "there is no method `tools/run`"}}
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpAnswer {
    pub jsonrpc: String,
    /// That of the request; null if it cannot be read.
    pub id: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<McpError>,
}

impl McpAnswer {
    /// The answer to the request with this id.
    pub fn new(id: Option<Value>, outcome: Result<Value, McpError>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        Self { jsonrpc: "2.0".to_owned(), id: id.unwrap_or(Value::Null), result, error }
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpError {
    pub code: i32,
    /// For people: what is wrong and what is allowed.
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl McpError {
    /// The body is not JSON.
    pub const PARSE: i32 = -32700;
    /// It is JSON, and no request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The parameters do not fit the method; also: there is no such tool.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A header says something else than the body.
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The server does not speak this revision of the protocol.
    pub const UNSUPPORTED_VERSION: i32 = -32022;

    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The HTTP status that the stateless revision has for the error.
    pub fn status(&self) -> u16 {
        if self.code == Self::METHOD_NOT_FOUND { 404 } else { 400 }
    }
}

/// The result of a tool: what a model reads, and the same for programs.
///
/// ```json
/// {"content": [{"type": "text", "text": "{…}"}], "structuredContent": {"run_id": "run_0190…"}, "isError": false}
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutcome {
    pub text: String,
    /// Fits the tool's `outputSchema`; absent for an error.
    pub structured: Option<Value>,
}

impl ToolOutcome {
    /// The `CallToolResult`.
    pub fn into_json(self) -> Value {
        let content = json!([{"type": "text", "text": self.text}]);
        match self.structured {
            Some(structured) => {
                json!({"content": content, "structuredContent": structured, "isError": false})
            }
            None => json!({"content": content, "isError": true}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_without_an_id_are_notifications() {
        let read = |text: &str| serde_json::from_str::<McpMessage>(text).unwrap();
        let request = read(r#"{"jsonrpc": "2.0", "id": 0, "method": "ping"}"#);
        assert_eq!((request.id, request.method.as_deref()), (Some(json!(0)), Some("ping")));
        assert!(read(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#).id.is_none());
        assert!(read(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#).method.is_none());
    }

    #[test]
    fn answers_have_a_result_or_an_error() {
        let answer = |outcome| serde_json::to_value(McpAnswer::new(Some(json!("a")), outcome)).unwrap();
        assert_eq!(answer(Ok(json!({}))), json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
        let error = McpError::new(McpError::METHOD_NOT_FOUND, "no");
        assert_eq!(error.status(), 404);
        let expected = json!({"jsonrpc": "2.0", "id": "a", "error": {"code": -32601, "message": "no"}});
        assert_eq!(answer(Err(error)), expected);
    }
}

//! Errors.

use serde::{Deserialize, Serialize};

/// The body of an error response.
///
/// ```json
/// {"error": {"message": "input: must not be empty", "type": "invalid_request_error", "param": "input", "code": "invalid_request"}}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetails,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetails {
    /// For developers.
    pub message: String,
    /// `invalid_request_error`, `authentication_error`, `permission_error`, `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The parameter that is wrong, as in `input[0].content`.
    pub param: Option<String>,
    /// Houston's code of the error.
    pub code: Option<String>,
}

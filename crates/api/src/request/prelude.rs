//! What nearly every handler uses: its request and its answer, and how its endpoint is declared.

pub(crate) use crate::error::{ApiError, Result};
pub(crate) use crate::request::agentable_path::{AgentablePath, Id};
pub(crate) use crate::request::body::{Creation, Sent};
pub(crate) use crate::request::checks::{check_line, check_size, check_text};
pub(crate) use crate::request::endpoint::{Endpoint, endpoint};
pub(crate) use crate::request::idempotency::{Key, created, stored_body, unless_key_reused};
pub(crate) use crate::request::page::{List, Page, PageQuery, rows};
pub(crate) use crate::request::query::Query;
pub(crate) use crate::state::{App, Ctx};
pub(crate) use axum::Json;
pub(crate) use axum::http::StatusCode;
pub(crate) use axum::response::{IntoResponse, Response};
pub(crate) use houston_protocol::time::Time;

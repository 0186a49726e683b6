//! What nearly every handler uses: its request and its answer, and how its endpoint is declared.

pub(crate) use crate::error::{ApiError, Result, if_found};
pub(crate) use crate::request::agentable_path::{AgentablePath, Id, KindPath, param};
pub(crate) use crate::request::body::{Change, Creation, OptionalBody, Sent, WithImages};
pub(crate) use crate::request::checks::{
    check_bytes, check_line, check_size, check_storable_value, check_text,
};
pub(crate) use crate::request::endpoint::{endpoints, found, gone};
pub(crate) use crate::request::idempotency::{Key, created, once, stored_body, unless_key_reused};
pub(crate) use crate::request::missing_cells::across;
pub(crate) use crate::request::page::{HexText, List, NextPage, Page, PageQuery, rows};
pub(crate) use crate::request::query::Query;
pub(crate) use crate::state::{App, Ctx};
pub(crate) use axum::Json;
pub(crate) use axum::http::StatusCode;
pub(crate) use axum::response::{IntoResponse, Response};
pub(crate) use houston_domain::ensure;
pub(crate) use houston_protocol::time::Time;
pub(crate) use serde::Deserialize;
pub(crate) use std::sync::Arc;

//! Request bodies: reads JSON within limits of size and time, and reports errors with line and column or JSON Pointer.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Buf as _, Bytes};
use houston_domain::ensure;
use houston_domain::field::Entity;
use houston_protocol::problem::FieldError;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

use crate::admission;
use crate::caller::Caller;
use crate::deadline::Deadline;
use crate::error::{ApiError, Result};
use crate::request::idempotency::Key;
use crate::state::App;
use crate::state::documents::DocumentPermit;

/// The media type of most bodies.
pub(crate) const JSON: &str = "application/json";

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer bodies, in bytes, are parsed on a blocking thread; parsing this much takes about a millisecond.
const MAX_INLINE_PARSE_BYTES: usize = 64 * 1024;

/// The JSON body of a request, with its idempotency key if it has one.
#[derive(Debug)]
pub(crate) struct Creation<T> {
    pub(crate) value: T,
    pub(crate) key: Option<Key>,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for Creation<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        creation(request, app, app.state.config.max_body_bytes, None).await
    }
}

/// The JSON body of a request that may be repeated as it is: its idempotency key is ignored.
#[derive(Debug)]
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for Sent<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        Creation::from_request(request, app).await.map(|body| Self(body.value))
    }
}

/// A body with images in it, which may be longer than others.
#[derive(Debug)]
pub(crate) struct WithImages<T> {
    pub(crate) creation: Creation<T>,
    /// The memory of a long one.
    pub(crate) permit: Option<DocumentPermit>,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for WithImages<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let config = &app.state.config;
        let (usual, most) = (config.max_body_bytes, config.max_body_bytes + config.images.max_body_bytes());
        // Without a length it is taken for a usual one.
        let length = content_length(request.headers(), most)?.filter(|length| *length > usual);
        let Some(length) = length else {
            return Ok(Self { creation: creation(request, app, usual, None).await?, permit: None });
        };
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        let permit = DocumentPermit::new(&app.documents, caller.tenant(), length).await?;
        let request = Request::from_parts(parts, body);
        Ok(Self { creation: creation(request, app, length, None).await?, permit: Some(permit) })
    }
}

/// The body of an import: received, not parsed yet, with its reserved memory.
#[derive(Debug)]
pub(crate) struct ReceivedDocument {
    parts: Parts,
    pieces: Vec<Bytes>,
    _permit: DocumentPermit,
}

impl FromRequest<Arc<App>> for ReceivedDocument {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        ensure!(is_json(&parts.headers), ApiError::UnsupportedMediaType(JSON));
        let limit = app.state.config.conversation.max_bytes;
        let bytes = content_length(&parts.headers, limit)?.unwrap_or(limit);
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        let permit = DocumentPermit::new(&app.documents, caller.tenant(), bytes).await?;
        let pieces = receive(&parts, body, limit).await?;
        Ok(Self { parts, pieces, _permit: permit })
    }
}

impl ReceivedDocument {
    /// Parses the document. Returns the reserved memory, too, since the parsed document needs it. Takes long: do not
    /// call it on a thread of the runtime.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<(Creation<T>, DocumentPermit)> {
        let key = Key::from_request(&self.parts, self.pieces.iter().map(|piece| &**piece))?;
        let value = deserialize(serde_json::Deserializer::from_reader(Pieces(self.pieces.into())))?;
        Ok((Creation { value, key }, self._permit))
    }
}

/// Like [`Creation`], but an empty body or `null` means `T::default()`.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) Creation<T>);

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<Arc<App>> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        creation(request, app, app.state.config.max_body_bytes, Some(T::default)).await.map(Self)
    }
}

/// A body that changes the fields of an [`Entity`]. A PATCH is idempotent, so an Idempotency-Key is ignored.
#[derive(Debug)]
pub(crate) struct Change<T>(pub(crate) T);

/// What a body changes.
pub(crate) trait Changes {
    /// `None`: it has no table.
    const ENTITY: Option<Entity>;
}

impl<T: Changes + DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for Change<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let body = Creation::<T>::from_request(request, app).await;
        body.map(|body| Self(body.value)).map_err(|error| match T::ENTITY {
            Some(entity) => refusal(entity, error),
            None => error,
        })
    }
}

/// An error that says what may be changed, if an unknown field was to be.
fn refusal(entity: Entity, mut error: ApiError) -> ApiError {
    if let ApiError::InvalidRequest(errors) = &mut error {
        for field in errors.iter_mut().filter(|field| field.detail.starts_with("unknown field")) {
            field.detail += &format!("; {}; see GET /v1/fields/{}", entity.updatable(), entity.as_str());
        }
    }
    error
}

/// Reads a body of at most `limit` bytes. With `empty`, an empty body or `null` is replaced by its result; without, it is an error.
async fn creation<T: DeserializeOwned + Send + 'static>(
    request: Request,
    app: &Arc<App>,
    limit: usize,
    empty: Option<fn() -> T>,
) -> Result<Creation<T>> {
    let parse = move |body: Option<&[u8]>| match (body, empty) {
        (Some(body), _) => value::<T>(body).map(boxed),
        (None, Some(empty)) => Ok(boxed(empty())),
        (None, None) => Err(ApiError::UnsupportedMediaType(JSON)),
    };
    let read = read(request, Arc::clone(app), limit, empty.is_some(), Box::new(parse)).await?;
    // `parse` makes nothing but a `T`.
    let value = read.value.downcast().map_err(|_| ApiError::Unavailable(None))?;
    Ok(Creation { value: *value, key: read.key })
}

/// Makes a value of a body; `None` stands for a missing one.
type Parse = Box<dyn FnOnce(Option<&[u8]>) -> Result<Box<dyn Any + Send>> + Send>;

/// What [`read`] returns: what the body became, and its idempotency key.
struct Read {
    value: Box<dyn Any + Send>,
    key: Option<Key>,
}

fn boxed<T: Send + 'static>(value: T) -> Box<dyn Any + Send> {
    Box::new(value)
}

fn value<T: DeserializeOwned + 'static>(body: &[u8]) -> Result<T> {
    // serde would take a list for the fields of a struct, in their order.
    if body.trim_ascii_start().starts_with(b"[") && TypeId::of::<T>() != TypeId::of::<Value>() {
        return Err(ApiError::field("", "must be an object".to_owned()));
    }
    parse(body)
}

/// Receives a body and parses it, on a blocking thread if it is long. Its type does not name that of the value, so that the
/// compiler makes one such function and not one for each kind of body.
fn read(
    request: Request,
    app: Arc<App>,
    limit: usize,
    is_optional: bool,
    parse: Parse,
) -> Pin<Box<dyn Future<Output = Result<Read>> + Send>> {
    Box::pin(async move {
        let json = is_json(request.headers());
        if !json && !is_optional {
            return Err(ApiError::UnsupportedMediaType(JSON));
        }
        let (parts, body) = request.into_parts();
        content_length(&parts.headers, limit)?;
        let pieces = receive(&parts, body, limit).await?;
        let is_long = pieces.iter().map(Bytes::len).sum::<usize>() > MAX_INLINE_PARSE_BYTES;
        let read = move || {
            let bytes = pieces.concat();
            let key = Key::from_request(&parts, [bytes.as_slice()])?;
            let is_missing = is_optional && (bytes.is_empty() || (json && bytes.trim_ascii() == b"null"));
            if !json && !is_missing {
                return Err(ApiError::UnsupportedMediaType(JSON));
            }
            Ok(Read { value: parse((!is_missing).then_some(&bytes))?, key })
        };
        if is_long { app.offload.compute(read).await? } else { read() }
    })
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    is_of_type(headers, JSON)
}

/// Whether the body is of this media type, whatever its parameters.
pub(crate) fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(wanted)
}

/// The value of `Content-Length` in bytes, if the request has one.
///
/// # Errors
/// [`ApiError::BodyTooLarge`] when it is more than `limit`.
pub(crate) fn content_length(headers: &HeaderMap, limit: usize) -> Result<Option<usize>> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match length {
        Some(length) if length > limit => Err(ApiError::BodyTooLarge(limit)),
        length => Ok(length),
    }
}

/// Receives the body, in the chunks in which it arrives. The request's deadline starts when the body is complete.
///
/// # Errors
/// [`ApiError::BodyTooLarge`] when it is longer than `limit` bytes, [`ApiError::BodyMissing`] when it is not complete
/// in time, [`ApiError::BrokenBody`] when it is not framed as it must be.
pub(crate) async fn receive(parts: &Parts, body: axum::body::Body, limit: usize) -> Result<Vec<Bytes>> {
    let mut body = Limited::new(body, limit);
    let all = async {
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await.transpose()? {
            pieces.extend(frame.into_data());
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(pieces)
    };
    let deadline = parts.extensions.get::<Deadline>();
    if let Some(deadline) = deadline {
        deadline.restart_after(BODY_TIMEOUT);
    }
    let received = tokio::time::timeout(BODY_TIMEOUT, all).await;
    if let Some(deadline) = deadline {
        deadline.restart_after(Duration::ZERO);
    }
    match received {
        Ok(Ok(pieces)) => {
            admission::admit().await;
            Ok(pieces)
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge(limit)),
        Ok(Err(_)) => Err(ApiError::BrokenBody),
        Err(_) => Err(ApiError::BodyMissing),
    }
}

/// Parses JSON with the same errors as a request body.
///
/// # Errors
/// [`ApiError::InvalidJson`] when it is not JSON, [`ApiError::InvalidRequest`] with the JSON Pointer when it is not a
/// `T`.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    deserialize(serde_json::Deserializer::from_slice(bytes))
}

struct Pieces(VecDeque<Bytes>);

impl io::Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.0.front().is_some_and(Bytes::is_empty) {
            self.0.pop_front();
        }
        let Some(first) = self.0.front_mut() else { return Ok(0) };
        let count = first.len().min(buffer.len());
        first.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

fn deserialize<'de, T, R>(mut json: serde_json::Deserializer<R>) -> Result<T>
where
    T: DeserializeOwned,
    R: serde_json::de::Read<'de>,
{
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().iter().map(segment).collect::<String>();
        parse_error(error.inner(), path)
    })?;
    json.end().map_err(|error| parse_error(&error, String::new()))?;
    Ok(value)
}

fn segment(segment: &serde_path_to_error::Segment) -> String {
    use serde_path_to_error::Segment;
    match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    }
}

fn parse_error(error: &serde_json::Error, mut pointer: String) -> ApiError {
    let text = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let detail = text.strip_suffix(&suffix).unwrap_or(&text).to_owned();
    if error.classify() != Category::Data {
        return ApiError::InvalidJson { line: error.line(), column: error.column(), reason: detail };
    }
    // serde reports a missing field at its parent.
    if let Some(field) = detail.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        pointer = format!("{pointer}/{field}");
    }
    ApiError::InvalidRequest(vec![FieldError::at(pointer, without_parser_jargon(detail))])
}

/// Rewrites serde's "unknown variant" as the value that was sent and the allowed values.
fn without_parser_jargon(detail: String) -> String {
    let unknown = detail.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "));
    match unknown {
        Some((sent, allowed)) => {
            format!("{sent} is not allowed; allowed: {}", allowed.trim_start_matches("one of "))
        }
        None => detail,
    }
}

#[cfg(test)]
mod tests {
    use houston_domain::agentable::DoubleTexting;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Shape {
        #[expect(dead_code, reason = "only its type matters")]
        name: String,
        #[expect(dead_code, reason = "only its type matters")]
        #[serde(default)]
        list: Vec<u8>,
        #[expect(dead_code, reason = "only its type matters")]
        policy: Option<DoubleTexting>,
    }

    fn fault(body: &str) -> (String, String) {
        match parse::<Shape>(body.as_bytes()).unwrap_err() {
            ApiError::InvalidRequest(errors) => {
                (errors[0].pointer.clone().unwrap(), errors[0].detail.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_shape_is_reported_with_its_json_pointer() {
        assert_eq!(fault("{}"), ("/name".into(), "missing field `name`".into()));
        assert_eq!(fault(r#"{"name": 1}"#).0, "/name");
        assert_eq!(fault(r#"{"name": "a", "list": [1, "b"]}"#).0, "/list/1");
        let (pointer, detail) = fault(r#"{"name": "a", "nmae": 1}"#);
        assert!(pointer == "/nmae" && detail.contains("unknown field `nmae`"), "{pointer} {detail}");
        assert_eq!(fault("[]").0, "");
        assert_eq!(
            fault(r#"{"name": "a", "policy": "merge"}"#),
            (
                "/policy".into(),
                "`merge` is not allowed; allowed: `enqueue`, `interrupt`, `reject`, `rollback`".into()
            )
        );
    }

    #[test]
    fn invalid_json_is_reported_with_line_and_column() {
        for (body, at) in [("", (1, 0)), ("{\n\"name\" 1}", (2, 8)), (r#"{"name": "a"} x"#, (1, 15))] {
            match parse::<Shape>(body.as_bytes()).unwrap_err() {
                ApiError::InvalidJson { line, column, .. } => assert_eq!((line, column), at, "{body}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(parse::<Shape>(b"{\"name\": \"\xff\"}"), Err(ApiError::InvalidJson { .. })));
    }
}

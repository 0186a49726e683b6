//! Request bodies: JSON of a known shape, read within limits, with every way to get it wrong named.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Buf as _, Bytes};
use houston_protocol::problem::FieldError;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::deadline::Deadline;
use crate::error::ApiError;
use crate::idempotency::Key;
use crate::state::App;

/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// Longer bodies are parsed on a thread of their own; this much takes about a millisecond.
const PARSED_HERE: usize = 64 * 1024;

/// The body of a request that makes something, with the key under which it may be repeated.
#[derive(Debug)]
pub(crate) struct Creation<T> {
    pub(crate) value: T,
    pub(crate) key: Option<Key>,
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<App>> for Creation<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        creation(request, app, None).await
    }
}

/// The same where a request without a body says all there is to say.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) Creation<T>);

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<Arc<App>> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        creation(request, app, Some(T::default)).await.map(Self)
    }
}

/// Reads a body; one that is empty, or `null`, is `nothing`, where that is allowed.
async fn creation<T: DeserializeOwned + Send + 'static>(
    request: Request,
    app: &App,
    nothing: Option<fn() -> T>,
) -> Result<Creation<T>, ApiError> {
    let json = is_json(request.headers());
    if !json && nothing.is_none() {
        return Err(ApiError::UnsupportedMediaType);
    }
    let (parts, body) = request.into_parts();
    let limit = app.state.config.max_body_bytes;
    announced(&parts.headers, limit)?;
    let pieces = receive(&parts, body, limit).await?;
    let is_long = pieces.iter().map(Bytes::len).sum::<usize>() > PARSED_HERE;
    let read = move || {
        let bytes = pieces.concat();
        let key = Key::of(&parts, [bytes.as_slice()])?;
        let value = match nothing {
            Some(nothing) if bytes.is_empty() || (json && bytes.trim_ascii() == b"null") => nothing(),
            _ if !json => return Err(ApiError::UnsupportedMediaType),
            _ => parse(&bytes)?,
        };
        Ok(Creation { value, key })
    };
    if is_long { app.offload.compute(read).await? } else { read() }
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The length of the body, if the head says it.
///
/// # Errors
/// [`ApiError::BodyTooLarge`] when it is more than `limit`.
pub(crate) fn announced(headers: &HeaderMap, limit: usize) -> Result<Option<usize>, ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match length {
        Some(length) if length > limit => Err(ApiError::BodyTooLarge { limit }),
        length => Ok(length),
    }
}

/// The body as it comes, in pieces. The request's deadline begins when it has arrived.
pub(crate) async fn receive(
    parts: &Parts,
    body: axum::body::Body,
    limit: usize,
) -> Result<Vec<Bytes>, ApiError> {
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
        deadline.begin_after(ARRIVES_WITHIN);
    }
    let received = tokio::time::timeout(ARRIVES_WITHIN, all).await;
    if let Some(deadline) = deadline {
        deadline.begin_after(Duration::ZERO);
    }
    match received {
        Ok(Ok(pieces)) => Ok(pieces),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge { limit }),
        _ => Err(ApiError::BodyMissing),
    }
}

/// Reads JSON as bodies are read.
///
/// # Errors
/// [`ApiError::InvalidJson`], or [`ApiError::InvalidRequest`] with the JSON Pointer of what has another shape.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    deserialize(serde_json::Deserializer::from_slice(bytes))
}

/// Reads the JSON of pieces that follow each other, and drops each when it is read.
pub(crate) fn parse_pieces<T: DeserializeOwned>(pieces: Vec<Bytes>) -> Result<T, ApiError> {
    deserialize(serde_json::Deserializer::from_reader(Pieces(pieces.into())))
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

fn deserialize<'de, T, R>(mut json: serde_json::Deserializer<R>) -> Result<T, ApiError>
where
    T: DeserializeOwned,
    R: serde_json::de::Read<'de>,
{
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().iter().map(segment).collect::<String>();
        refusal(error.inner(), path)
    })?;
    json.end().map_err(|error| refusal(&error, String::new()))?;
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

fn refusal(error: &serde_json::Error, mut pointer: String) -> ApiError {
    let told = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let detail = told.strip_suffix(&place).unwrap_or(&told).to_owned();
    if error.classify() != Category::Data {
        return ApiError::InvalidJson { line: error.line(), column: error.column(), reason: detail };
    }
    // What is missing has no place of its own.
    if let Some(field) = detail.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        pointer = format!("{pointer}/{field}");
    }
    ApiError::InvalidRequest { errors: vec![FieldError::at(pointer, in_plain_words(detail))] }
}

/// What was sent for one of a few names, and the names, without the parser's own words.
fn in_plain_words(detail: String) -> String {
    let unknown = detail.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", expected "));
    match unknown {
        Some((sent, allowed)) => {
            format!("{sent} is not allowed; allowed: {}", allowed.trim_start_matches("one of "))
        }
        None => detail,
    }
}

/// Postgres stores every character but this one.
pub(crate) fn check_text(pointer: &str, text: &str) -> Result<(), ApiError> {
    if text.contains('\0') {
        return Err(ApiError::field(pointer, "the character U+0000 cannot be stored"));
    }
    Ok(())
}

/// Something that takes room: `bytes` of it.
pub(crate) fn check_size(pointer: &str, bytes: usize, most_bytes: usize) -> Result<(), ApiError> {
    if bytes > most_bytes {
        return Err(ApiError::field(pointer, format!("has {bytes} bytes; {most_bytes} are allowed")));
    }
    Ok(())
}

/// A short text that must say something.
pub(crate) fn check_line(pointer: &str, text: &str, most_chars: usize) -> Result<(), ApiError> {
    check_text(pointer, text)?;
    if text.trim().is_empty() {
        return Err(ApiError::field(pointer, "may not be empty"));
    }
    if text.chars().count() > most_chars {
        return Err(ApiError::field(pointer, format!("may have {most_chars} characters at most")));
    }
    Ok(())
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
            ApiError::InvalidRequest { errors } => {
                (errors[0].pointer.clone().unwrap(), errors[0].detail.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wrong_shape_is_shown_where_it_is_wrong() {
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
    fn what_is_no_json_says_where() {
        for (body, at) in [("", (1, 0)), ("{\n\"name\" 1}", (2, 8)), (r#"{"name": "a"} x"#, (1, 15))] {
            match parse::<Shape>(body.as_bytes()).unwrap_err() {
                ApiError::InvalidJson { line, column, .. } => assert_eq!((line, column), at, "{body}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(parse::<Shape>(b"{\"name\": \"\xff\"}"), Err(ApiError::InvalidJson { .. })));
    }
}

//! JSON of clients: parsed with errors that name line and column, or the JSON Pointer of what is wrong.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf as _, Bytes};
use houston_protocol::problem::FieldError;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::error::ApiError;

/// Parses JSON with the same errors as a request body.
///
/// # Errors
/// [`ApiError::InvalidJson`] when it is not JSON, [`ApiError::InvalidRequest`] with the JSON Pointer when it is not a
/// `T`.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    deserialize(serde_json::Deserializer::from_slice(bytes))
}

/// Parses JSON from consecutive chunks and frees each chunk once it is read.
///
/// # Errors
/// As [`parse`].
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
    ApiError::InvalidRequest { errors: vec![FieldError::at(pointer, without_parser_jargon(detail))] }
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
            ApiError::InvalidRequest { errors } => {
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

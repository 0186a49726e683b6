//! [`read`]: the JSON Schema of a tool's arguments, in one form, whoever wrote it.
//!
//! MCP servers, OpenAPI documents and clients write schemas in several drafts of JSON Schema, in the dialect of OpenAPI 3.0, and
//! with mistakes. Providers refuse a whole request for one schema that they do not accept, so no tool is offered whose schema
//! was not read here. The crate `llm` writes what was read in the form that each provider accepts.
//!
//! What is read is a schema of draft 2020-12 with these properties:
//! - the root has the type `object`, and `properties`; it has no `anyOf`, `oneOf`, `allOf`, `not`, `enum` or `const`;
//! - there are no references and no definitions: what was referred to is in its place;
//! - an array has `items`, a list of types has at least two, and each name in `required` is a property;
//! - `allOf` and conditions are nowhere: the former is merged, the latter are described in words;
//! - reading it again changes nothing.
//!
//! What is lost is lost towards allowing more: the tool itself checks the arguments.

mod form;
mod merge;
mod reader;

use std::sync::Arc;

use serde_json::{Map, Value};

/// The most bytes of JSON of a schema as it is written outside, with its definitions.
pub const MAX_WRITTEN_BYTES: usize = 512 * 1024;
/// The most bytes of JSON of a schema that was read: about 16,000 tokens of each call.
pub const MAX_BYTES: usize = 64 * 1024;
/// The most levels of schemas in a schema; what is deeper may be any value.
pub const MAX_DEPTH: usize = 16;
/// The most schemas in a schema.
pub const MAX_SCHEMAS: usize = 4096;

/// Why a schema cannot be read. Each continues "the tool cannot be offered: …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is another JSON value than an object.
    #[error("its schema is {0}; it must be a JSON Schema, an object")]
    NotASchema(&'static str),
    /// It describes something else than an object.
    #[error("the schema of its arguments is not that of an object, but has the type `{0}`")]
    NotAnObject(String),
    /// It is too long.
    #[error("its schema has {bytes} bytes; at most {MAX_WRITTEN_BYTES} are allowed")]
    TooLong {
        /// Its bytes of JSON.
        bytes: usize,
    },
    /// Without its references it is too large, even if they are followed only once.
    #[error(
        "its schema has more than {MAX_SCHEMAS} parts or {MAX_BYTES} bytes when what it refers to is put in its place"
    )]
    TooLarge,
}

/// How far references are followed. The first that makes a schema that is small enough is used.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// How often a schema may contain itself.
    repeats: usize,
    /// How many references are followed inside of each other.
    references: usize,
}

const LIMITS: [Limits; 4] = [
    Limits { repeats: 1, references: MAX_DEPTH },
    Limits { repeats: 0, references: MAX_DEPTH },
    Limits { repeats: 0, references: 4 },
    Limits { repeats: 0, references: 2 },
];

/// The schema in the one form. One that cannot be read is kept as it is: a tool with it is not offered, and says why.
#[must_use]
pub fn in_form(schema: &Arc<Value>) -> Arc<Value> {
    match read(schema) {
        Ok(read) if read != **schema => Arc::new(read),
        Ok(_) | Err(_) => Arc::clone(schema),
    }
}

/// The schema in the one form.
///
/// # Errors
/// [`Unreadable`] when it is not the schema of an object, or too large.
pub fn read(schema: &Value) -> Result<Value, Unreadable> {
    match schema {
        // Tools without arguments are written so.
        Value::Null | Value::Bool(true) => return Ok(Value::Object(form::root(Map::new())?)),
        Value::Object(_) => {}
        other => return Err(Unreadable::NotASchema(form::kind(other))),
    }
    let bytes = form::bytes(schema);
    if bytes > MAX_WRITTEN_BYTES {
        return Err(Unreadable::TooLong { bytes });
    }
    for limits in LIMITS {
        let Some(read) = reader::Reader::new(schema, limits).read() else { continue };
        let read = Value::Object(form::root(read)?);
        if form::bytes(&read) <= MAX_BYTES {
            return Ok(read);
        }
    }
    Err(Unreadable::TooLarge)
}

#[cfg(test)]
mod tests;

//! What schemas for the OpenAPI document are built from.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

pub(crate) fn object() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object)
}

/// A text.
#[must_use]
pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// An object that is not described further.
#[must_use]
pub fn anything(description: &str) -> ObjectBuilder {
    object().description(Some(description)).additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

/// A text that is one of `names`.
#[must_use]
pub fn one_of(names: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(names))
}

/// An id, `<prefix>_<32 hex digits>`. That of an agentable has the name of its kind as prefix.
#[must_use]
pub fn id(prefix: &str) -> ObjectBuilder {
    let (pattern, example) = if prefix == "agentable" { ("[a-z][a-z_]*", "goal") } else { (prefix, prefix) };
    let example = format!("{example}_019ab3c4d5e67f8091a2b3c4d5e6f708");
    text().pattern(Some(format!("^{pattern}_[0-9a-f]{{32}}$"))).examples([example])
}

/// A decimal number as a string.
#[derive(Debug)]
pub enum Decimal {}

impl PartialSchema for Decimal {
    fn schema() -> RefOr<Schema> {
        text().pattern(Some("^-?[0-9]+(\\.[0-9]+)?$")).examples(["0.0123"]).into()
    }
}

impl ToSchema for Decimal {}

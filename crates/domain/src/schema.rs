//! What schemas for the OpenAPI document are built from, and those of values that have no type of their own: they are named with
//! `value_type` where they are used.

use utoipa::openapi::schema::{
    AdditionalProperties, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type,
};

pub(crate) fn object() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object)
}

/// A text.
pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// An object that is not described further.
pub fn anything(description: &str) -> ObjectBuilder {
    object().description(Some(description)).additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

/// A text that is one of `names`.
pub fn one_of(names: impl IntoIterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(names))
}

/// An id, `<prefix>_<32 hex digits>`. That of an agentable has the name of its kind as prefix.
pub fn id(prefix: &str) -> ObjectBuilder {
    let (pattern, example) = if prefix == "agentable" { ("[a-z][a-z_]*", "goal") } else { (prefix, prefix) };
    let example = format!("{example}_019ab3c4d5e67f8091a2b3c4d5e6f708");
    text().pattern(Some(format!("^{pattern}_[0-9a-f]{{32}}$"))).examples([example])
}

/// Gives types a schema, each with its name in the document.
macro_rules! described {
    ($($type:ty as $name:expr => $schema:expr;)*) => {$(
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> { $schema.into() }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> { $name.into() }
        }
    )*};
}
pub(crate) use described;

macro_rules! without_type {
    ($($(#[$doc:meta])+ $name:ident => $schema:expr;)*) => {$(
        $(#[$doc])+
        #[derive(Debug)]
        pub enum $name {}

        described! { $name as stringify!($name) => $schema; }
    )*};
}

without_type! {
    /// A decimal number as a string.
    Decimal => text().pattern(Some("^-?[0-9]+(\\.[0-9]+)?$")).examples(["0.0123"]);
    /// A CSV text, as bytes.
    Csv => text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)));
    /// Any JSON value, also null: a field that may be missing is `required = false`, not an `Option`.
    AnyJson => ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON value."));
    /// Statistics of a conversation.
    Statistics => anything("Statistics of a conversation: runs, messages, tokens, costs.");
    /// The runtime state of an agentable, with a diagnosis.
    RuntimeState => anything("The lock, the run, what it waits for, and a diagnosis.");
    /// The prompt of the next model call.
    Prompt => anything("The prompt of the next model call, by parts and by sections.");
    /// All tools, and whether they may be called.
    Tools => anything("All tools, whether each may be called, and why not.");
    /// What the guards would say of a call.
    GuardExplanation => anything("The decision with what decided (`by`), and each step that was looked at (`steps`).");
    /// Guards of one layer.
    Guards => anything("What agents may do with their tools, of the same shape as jobs/guards.toml; each key is optional.");
    /// Metadata of a message.
    MessageMetadata => anything("Metadata of a message: client data, or details of a tool call or an error.");
}

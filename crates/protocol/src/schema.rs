//! Schemas of values that have no type of their own: they are named with `value_type` where they are used.

pub use houston_domain::schema::Decimal;
use houston_domain::schema::{anything, text};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, SchemaType};

macro_rules! described {
    ($($(#[$doc:meta])+ $name:ident => $schema:expr;)*) => {$(
        $(#[$doc])+
        #[derive(Debug)]
        pub enum $name {}

        $crate::schema::described_as! { $name => $schema; }
    )*};
}

/// Says the schema of a type.
macro_rules! described_as {
    ($($type:ident => $schema:expr;)*) => {$(
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> { $schema.into() }
        }

        impl utoipa::ToSchema for $type {}
    )*};
}
pub(crate) use described_as;

described! {
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

//! Schemas that the OpenAPI document has of types of the domain, where it says another thing than a derived schema would.

use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat, SchemaType, Type,
};

use crate::agent::limits::{KindLimits, LimitChanges, Limits};
use crate::answering::{Effort, Output, Sampling};
use crate::conversation::Conversation;
use crate::custom_table::{Field, FieldType};
use crate::focus::{Focus, FocusRef};
use crate::history::Block;
use crate::model_policy::{CachePolicy, Latency, ModelPolicy};
use crate::schema::{anything, described, object, one_of, text};
use crate::time::Time;

/// An object without other properties than those that are described.
fn closed() -> ObjectBuilder {
    object().additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

/// The limits of a run, each with its description; `is_change`: each may be left out.
fn limits(description: &str, is_change: bool) -> ObjectBuilder {
    Limits::ALL.iter().fold(object().description(Some(description)), |limits, limit| {
        let no_limit = if limit.is_optional && !is_change { "; 0: no limit." } else { "." };
        let format = if limit.bits > 32 { KnownFormat::Int64 } else { KnownFormat::Int32 };
        let number = ObjectBuilder::new()
            .schema_type(if is_change {
                SchemaType::from_iter([Type::Integer, Type::Null])
            } else {
                Type::Integer.into()
            })
            .format(Some(SchemaFormat::KnownFormat(format)))
            .minimum(Some(0))
            .description(Some(limit.what.replace('.', no_limit)));
        let limits = limits.property(limit.name, number);
        if is_change { limits } else { limits.required(limit.name) }
    })
}

described! {
    Field as "TableField" => object()
        .property("name", text().description(Some("1 to 40 small letters, digits and `_`.")))
        .property("type", FieldType::schema())
        .property("required", ObjectBuilder::new().schema_type(Type::Boolean))
        .property("enum", ArrayBuilder::new().items(text()))
        .property("description", text())
        .required("name")
        .required("type");
    ModelPolicy as "ModelPolicy" => closed()
        .property("cache", one_of(CachePolicy::ALL.map(CachePolicy::as_str)).description(Some(
            "How long the provider keeps what the next request begins with. `auto`: what would have cost least with the pauses so far.")))
        .property("latency", one_of(Latency::ALL.map(Latency::as_str)).description(Some(
            "How soon the answer is needed. `fast`: the provider's fast lane; `relaxed` and `batch`: its cheap tier.")));
    Focus as "Focus" => closed()
        .property("type", text().max_length(Some(64)).description(Some("Its type: letters, digits, `_`, `-` and `.`.")))
        .property("id", text().max_length(Some(128)).description(Some("Its id: printable ASCII without spaces.")))
        .property("data", ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("What the client knows of it; at most 4 KiB as JSON.")))
        .required("type")
        .required("id");
    FocusRef as "FocusRef" => object().property("type", text()).property("id", text()).required("type").required("id");
    Sampling as "Sampling" => {
        let number = || ObjectBuilder::new().schema_type(Type::Number);
        closed()
            .property("temperature", number().description(Some("How freely it chooses, from 0 to 2.")))
            .property("top_p", number().description(Some("The share of the likeliest words it chooses from, above 0, at most 1.")))
            .property("effort", Effort::schema())
            .property("stop", ArrayBuilder::new().items(text()).max_items(Some(4)).description(Some("Texts that end the answer.")))
    };
    KindLimits as "KindLimits" => limits(
        "What a run of a kind may use at most; an agent may have lower limits.\n\n```json\n{\"max_iterations\": 20, \"max_same_tool\": 5, \"max_duration_s\": 300, \"max_history_entries\": 0, \"max_output_tokens\": 4000}\n```",
        false,
    );
    LimitChanges as "LimitChanges" => limits(
        "The limits of its kind that an agent overrides; never above those. `{\"max_iterations\": 10}`.",
        true,
    );
    Output as "Output" => closed()
        .property("name", text().max_length(Some(64)).description(Some("Its name, for providers that want one: letters, digits, `_` and `-`.")))
        .property("schema", object().description(Some("The JSON Schema of an object, at most 32 KiB.")))
        .property("strict", ObjectBuilder::new().schema_type(Type::Boolean).description(Some("Whether a provider that can is to guarantee it. The answer is checked in any case.")))
        .required("schema");
    Block as "Block" => anything("A block of the type `type`.")
        .property("type", one_of(["text", "tool_use", "tool_result", "thinking", "opaque"]))
        .required("type");
    Conversation as "Conversation" => anything("A conversation document: `export` writes it, `import` reads it.");
    Time as "Time" => text()
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .examples(["2026-11-22T09:00:00.000Z"]);
}

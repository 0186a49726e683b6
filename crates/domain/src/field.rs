//! Which fields of a thing may be changed, by whom, and to what: one table for requests, tools and documentation.
//!
//! A test of crate `tools` compares the tables with the OpenAPI document, which is made of the bodies of requests, and with the
//! schemas of the tools.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value, json};

names! {
    /// Something that users can change.
    pub enum Entity {
        /// A conversation: a goal, or an agentable of another kind that users create.
        Goal = "goal",
        /// A task of an agentable.
        Task = "task",
        /// An agent.
        Agent = "agent",
        /// A team of agents.
        Team = "team",
        /// A user.
        User = "user",
        /// The profile of a user.
        Profile = "profile",
        /// A todo of a user.
        Todo = "todo",
        /// A note of an agentable.
        Note = "note",
        /// An item of a user's feed.
        FeedItem = "feed_item",
        /// A webhook of a tenant.
        Webhook = "webhook",
        /// A trigger of a user.
        Trigger = "trigger",
    }
}

names! {
    /// The type of a field's values.
    pub enum FieldType {
        /// A text.
        String = "string",
        /// `true` or `false`.
        Boolean = "boolean",
        /// A list of texts.
        StringList = "string_list",
        /// An object.
        Object = "object",
    }
}

names! {
    /// Who may change a field.
    pub enum UpdatableBy {
        /// Requests.
        Api = "api",
        /// Tools.
        Agent = "agent",
        /// Requests and tools.
        Both = "both",
    }
}

/// The most that a value may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Max {
    /// Characters of a text.
    Chars(usize),
    /// Bytes of a text.
    Bytes(usize),
    /// Items of a list.
    Items(usize),
}

/// A field that may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = FieldResponse))]
pub struct Field {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: &'static str,
    /// `string`, `boolean`, `string_list` or `object`.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: FieldType,
    /// The values that are allowed; empty: all of its type.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub values: &'static [&'static str],
    /// The most that a value may have: `chars`, `bytes` or `items`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, usize>>))]
    pub max: Option<Max>,
    /// Whether a value must not be empty.
    pub required: bool,
    /// Whether null is a value: it restores the default.
    pub nullable: bool,
    /// `api`: requests may change it; `agent`: tools; `both`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub updatable_by: UpdatableBy,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub description: &'static str,
}

impl UpdatableBy {
    /// Whether tools may change the field.
    pub fn is_agent(self) -> bool {
        self != Self::Api
    }
}

/// A field with a value of any length.
pub(crate) const fn field(
    name: &'static str,
    kind: FieldType,
    by: UpdatableBy,
    description: &'static str,
) -> Field {
    Field {
        name,
        kind,
        values: &[],
        max: None,
        required: false,
        nullable: false,
        updatable_by: by,
        description,
    }
}

impl Field {
    pub(crate) const fn at_most(self, max: Max) -> Self {
        Self { max: Some(max), ..self }
    }

    pub(crate) const fn not_empty(self) -> Self {
        Self { required: true, ..self }
    }

    pub(crate) const fn or_null(self) -> Self {
        Self { nullable: true, ..self }
    }

    pub(crate) const fn one_of(self, values: &'static [&'static str]) -> Self {
        Self { values, ..self }
    }

    /// The JSON Schema of its values, for a tool.
    pub fn schema(&self) -> Value {
        let mut schema = match self.kind {
            FieldType::String => json!({"type": "string"}),
            FieldType::Boolean => json!({"type": "boolean"}),
            FieldType::StringList => json!({"type": "array", "items": {"type": "string"}}),
            FieldType::Object => json!({"type": "object"}),
        };
        schema["description"] = json!(self.description);
        if !self.values.is_empty() {
            schema["enum"] = json!(self.values);
        }
        schema
    }
}

impl Entity {
    /// One of its fields.
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.fields().iter().find(|field| field.name == name)
    }

    /// The properties of a tool's schema: the fields that tools may change, after those of `others`.
    pub fn properties(self, others: Value) -> Value {
        let mut all = match others {
            Value::Object(others) => others,
            _ => Map::new(),
        };
        let fields = self.fields().iter().filter(|field| field.updatable_by.is_agent());
        all.extend(fields.map(|field| (field.name.to_owned(), field.schema())));
        Value::Object(all)
    }

    /// What may be changed and by whom, as a clause for a refusal: `updatable are title (both), agent_id (api)`.
    pub fn updatable(self) -> String {
        let mut text = "updatable are ".to_owned();
        for (nth, field) in self.fields().iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{} ({})", field.name, field.updatable_by.as_str());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entity_has_a_table_without_doubles() {
        for entity in Entity::ALL {
            assert_eq!(Entity::from_name(entity.as_str()), Some(entity));
            let fields = entity.fields();
            assert!(!fields.is_empty(), "{entity:?}");
            for (nth, field) in fields.iter().enumerate() {
                assert_eq!(entity.field(field.name), Some(field), "{entity:?}");
                assert!(!fields[..nth].iter().any(|other| other.name == field.name), "{entity:?}");
                assert!(field.values.is_empty() || field.kind == FieldType::String);
            }
        }
        assert!(
            Entity::Goal
                .updatable()
                .starts_with("updatable are title (both), description (both), status (both)")
        );
    }
}

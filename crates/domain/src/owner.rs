//! The agentable that a resource belongs to, as a field named after its kind: `"goal_id": "goal_0190…"`.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::id::{AgentableId, parse_prefixed};

/// The agentable that a resource belongs to. Flattened into the resource: `{"goal_id": "goal_0190…"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The kind of the agentable, as in `goal`.
    pub kind: String,
    /// The id of the agentable.
    pub id: AgentableId,
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(format!("{}_id", self.kind), self.id.public_id(&self.kind))])
    }
}

impl<'de> Deserialize<'de> for Owner {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, Value>::deserialize(deserializer)?;
        fields
            .iter()
            .find_map(|(name, value)| {
                let kind = name.strip_suffix("_id")?;
                let id = parse_prefixed(kind, value.as_str()?).ok()?;
                Some(Self { kind: kind.to_owned(), id: id.into() })
            })
            .ok_or_else(|| D::Error::custom("missing a field `<kind>_id` with the id of an agentable"))
    }
}

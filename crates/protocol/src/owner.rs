//! Whose something is: `"goal_id": "goal_0190…"`, under the kind of the agentable it belongs to.

use std::collections::BTreeMap;

use houston_domain::id::{AgentableId, parse_prefixed};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The agentable something belongs to; flattened into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The kind of the agentable, as `goal`.
    pub kind: String,
    /// The agentable.
    pub id: AgentableId,
}

impl Serialize for Owner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(format!("{}_id", self.kind), self.id.shown(&self.kind))])
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
            .ok_or_else(|| D::Error::custom("no field `<kind>_id` names an agentable"))
    }
}

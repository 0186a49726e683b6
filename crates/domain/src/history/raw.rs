//! A provider's own block, kept beside what Houston reads in it.

use serde::{Deserialize, Deserializer, Serialize};

/// A block as its provider sent it, to be sent back byte for byte to that provider and to no other.
///
/// The JSON is kept as a text: `jsonb` would sort its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawBlock {
    /// The wire it was spoken on.
    pub wire: Box<str>,
    /// The provider that wrote it: to any other, what it signed or encrypted is nothing.
    pub provider: Box<str>,
    /// One JSON value.
    pub json: Box<str>,
}

impl RawBlock {
    /// Keeps `json`, the text of one JSON value.
    #[must_use]
    pub fn new(wire: &str, provider: &str, json: impl Into<Box<str>>) -> Self {
        Self { wire: wire.into(), provider: provider.into(), json: json.into() }
    }

    /// The JSON, if `provider` wrote it on `wire` and it may be sent back (see [`check`](Self::check)).
    #[must_use]
    pub fn of(&self, wire: &str, provider: &str) -> Option<&str> {
        let is_own = *self.wire == *wire && *self.provider == *provider;
        (is_own && self.check().is_ok()).then_some(&*self.json)
    }

    /// Whether it may be sent back: it is of a type that providers write themselves on its wire, names no role, and
    /// nothing that the provider would fetch. Blocks of wires that Houston does not speak are sent to nobody.
    ///
    /// # Errors
    /// What is not allowed in it, and what is, for whoever imported it.
    pub fn check(&self) -> Result<(), String> {
        super::raw_rules::check(&self.wire, &self.json)
    }
}

/// Reads a raw block. One in a form that is not known is nothing: a history must stay readable.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawBlock>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Kept {
        Known(RawBlock),
        Unknown(serde::de::IgnoredAny),
    }
    Ok(match Option::<Kept>::deserialize(deserializer)? {
        Some(Kept::Known(raw)) => Some(raw),
        Some(Kept::Unknown(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::RawBlock;

    #[test]
    fn a_raw_block_keeps_its_bytes_and_an_unknown_form_is_left_out() {
        let json = r#"{"type":"thinking", "thinking":"hm","signature":"b","n":1.10}"#;
        let raw = RawBlock::new("anthropic", "anthropic", json);
        let block = Block::Thinking { text: "hm".into(), raw: Some(raw) };
        let stored = serde_json::to_value(&block).unwrap();
        let read: Block = serde_json::from_value(stored).unwrap();
        assert_eq!(read, block);
        let Block::Thinking { raw: Some(raw), .. } = read else { panic!("{read:?}") };
        assert_eq!(raw.of("anthropic", "anthropic"), Some(json));
        assert_eq!(raw.of("anthropic", "other"), None);

        let old = serde_json::json!({"type": "thinking", "text": "hm", "raw": {"signature": "s"}});
        let read: Block = serde_json::from_value(old).unwrap();
        assert_eq!(read, Block::Thinking { text: "hm".into(), raw: None });
    }
}

//! Raw blocks: a provider's own JSON, stored beside what Houston reads in it.

use serde::{Deserialize, Deserializer, Serialize};

/// A block as its provider sent it, to be sent back byte for byte to that provider and to no other.
///
/// The JSON is stored as text, because `jsonb` would sort its keys:
///
/// ```json
/// {"wire": "anthropic", "provider": "anthropic", "json": "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"…\"}"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawBlock {
    /// The wire format it was received in, as in `anthropic` or `openai_chat`.
    pub wire: Box<str>,
    /// The provider that wrote it: what it signed or encrypted is useless to any other.
    pub provider: Box<str>,
    /// The text of one JSON value.
    pub json: Box<str>,
}

impl RawBlock {
    /// A raw block of `json`, the text of one JSON value.
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

    /// Checks that it may be sent back: its type is one that providers write themselves on this wire, and it has no
    /// role and nothing that the provider would fetch. Blocks of wires that Houston does not support are never
    /// sent.
    ///
    /// # Errors
    /// What is not allowed in it, and what is, as a text for the person who imported it.
    pub fn check(&self) -> Result<(), String> {
        super::raw_rules::check(&self.wire, &self.json)
    }
}

/// Reads a raw block; a value of an unrecognised shape is read as `None`, because a history must stay
/// readable.
pub(super) fn recognised<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawBlock>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Recognised(RawBlock),
        Unrecognised(serde::de::IgnoredAny),
    }
    Ok(match Option::<Stored>::deserialize(deserializer)? {
        Some(Stored::Recognised(raw)) => Some(raw),
        Some(Stored::Unrecognised(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::RawBlock;

    #[test]
    fn raw_blocks_keep_their_bytes_and_unknown_shapes_are_ignored() {
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

//! Digests of history entries, over their canonical JSON text.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Conversation, HistoryEntry};

impl Conversation {
    /// The SHA-256 of everything in the document but its seal and its digests; independent of the order of fields in its JSON.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let Self {
            format: _,
            version,
            kind,
            title,
            description,
            tools,
            messages,
            history,
            closed_entries,
            digests: _,
            notes,
            learnings,
            sessions,
            compressions,
            results,
            questions,
            files,
            untrusted,
            seal: _,
        } = self;
        let mut hash = Sha256::new();
        feed(&mut hash, &[(version, kind, title, description, tools, closed_entries, untrusted)]);
        feed(&mut hash, messages);
        feed(&mut hash, history);
        feed(&mut hash, notes);
        feed(&mut hash, learnings);
        feed(&mut hash, sessions);
        feed(&mut hash, compressions);
        feed(&mut hash, results);
        feed(&mut hash, questions);
        feed(&mut hash, files);
        hash.finalize().into()
    }
}

/// Hashes a list: its length, and each item with the length of its text. One item at a time is in memory.
fn feed<T: Serialize>(hash: &mut Sha256, items: &[T]) {
    hash.update(items.len().to_le_bytes());
    for item in items {
        let mut text = String::new();
        write(&serde_json::to_value(item).unwrap_or_default(), &mut text);
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
}

/// The first 16 bytes of the SHA-256 of an entry, as 32 hex digits; independent of the order of fields in its
/// JSON.
#[must_use]
pub fn digest(entry: &HistoryEntry) -> String {
    let mut text = String::new();
    write(&serde_json::to_value(entry).unwrap_or_default(), &mut text);
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Appends canonical JSON: the fields of each object sorted by name, because databases and tools reorder
/// them.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            text.push('{');
            for name in names {
                text.push_str(&Value::String(name.clone()).to_string());
                text.push(':');
                write(&fields[name], text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Number(number) => text.push_str(&canonical_number(number)),
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// A number by its value: `1.0` and `1` are the same number to Postgres.
fn canonical_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9e15 => format!("{float:.0}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ignores_only_the_order_of_fields() {
        let read = |text: &str| serde_json::from_str::<HistoryEntry>(text).unwrap();
        let one = r#"{"role": "assistant", "created_at": "2026-01-02T03:04:05Z", "content":
            [{"type": "tool_use", "id": "a", "name": "x", "input": {"b": 1, "a": 2.0}}]}"#;
        let same = one.replace(r#""b": 1, "a": 2.0"#, r#""a": 2, "b": 1"#);
        let other = one.replace(r#""b": 1"#, r#""b": 3"#);
        assert_eq!(digest(&read(one)), digest(&read(&same)));
        assert_ne!(digest(&read(one)), digest(&read(&other)));
        assert_ne!(digest(&read(one)), digest(&read(&one.replace("05Z", "06Z"))));
        assert_eq!(digest(&read(one)).len(), 32);
    }
}

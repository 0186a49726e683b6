//! Checks whether a provider would accept a stored conversation, from its rows.

use houston_domain::history::{Block, Entry, Role, validate};
use serde_json::Value;

/// Why a provider would refuse these entries (role and content as stored) or a prefix of them; `None` if all prefixes
/// are valid.
///
/// The entries are validated in order, so that a valid whole has only valid prefixes.
pub fn fault(entries: &[(String, Value)]) -> Option<String> {
    let mut parsed = Vec::with_capacity(entries.len());
    for (index, (role, content)) in entries.iter().enumerate() {
        let content: Vec<Block> = match serde_json::from_value(content.clone()) {
            Ok(content) => content,
            Err(error) => return Some(format!("entry {index} cannot be read: {error}")),
        };
        let role = if role == "assistant" { Role::Assistant } else { Role::User };
        parsed.push(Entry { role, content });
    }
    validate(&parsed).err().map(|fault| fault.to_string())
}

/// Number of tool calls in the last assistant entry that have no result.
pub fn open_calls(entries: &[(String, Value)]) -> usize {
    let Some(last) = entries.iter().rposition(|(role, _)| role == "assistant") else { return 0 };
    let count = |entries: &[(String, Value)], kind: &str| {
        let blocks = entries.iter().filter_map(|(_, content)| content.as_array()).flatten();
        blocks.filter(|block| block["type"] == kind).count()
    };
    count(&entries[last..=last], "tool_use").saturating_sub(count(&entries[last + 1..], "tool_result"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(role: &str, content: Value) -> (String, Value) {
        (role.to_owned(), content)
    }

    #[test]
    fn stored_entries_are_validated_like_a_provider_does() {
        let asked = entry("user", json!([{"type": "text", "text": "hi"}]));
        let calls = entry("assistant", json!([{"type": "tool_use", "id": "a", "name": "x", "input": {}}]));
        let result = entry(
            "user",
            json!([{"type": "tool_result", "tool_use_id": "a", "content": "ok", "is_error": false}]),
        );
        assert_eq!(fault(&[asked.clone(), calls.clone(), result.clone()]), None);
        assert_eq!(open_calls(&[asked.clone(), calls.clone(), result]), 0);
        assert_eq!(open_calls(&[asked.clone(), calls.clone()]), 1);
        assert!(fault(&[asked.clone(), calls, asked.clone()]).unwrap().contains("no result"));
        assert!(fault(&[asked, entry("user", json!([{"type": "?"}]))]).unwrap().contains("cannot be read"));
    }
}

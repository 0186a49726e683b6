//! Whether a provider would accept a stored conversation, for checkers that see nothing but rows.

use houston_domain::history::{Block, Entry, Role, validate};
use serde_json::Value;

/// What a provider would refuse in these entries (role and content as they are stored), at whichever committed
/// prefix it first shows; `None` when each of them is fine.
///
/// The entries are read in order and the first fault is found where it happens, so that the whole being fine means
/// that every prefix is.
#[must_use]
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

/// The calls that the last entry of the model opened and nothing has answered.
#[must_use]
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
    fn what_is_stored_is_judged_as_providers_do() {
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

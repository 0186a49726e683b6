//! A model of a provider's prompt cache with Anthropic's rules, the strictest: a prefix is cached where a request marks
//! it, is found again only if it is equal byte for byte, and expires after five minutes without use.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use serde_json::Value;

/// Bytes per token, approximately right for English and JSON.
const BYTES_PER_TOKEN: usize = 4;
/// Smallest cacheable prefix, in tokens (Sonnet).
const MIN_TOKENS: u64 = 1024;
/// How many blocks before a mark are checked for a cached prefix.
const LOOKBACK_BLOCKS: usize = 20;

/// Hashes of the cached prefixes.
#[derive(Debug, Default)]
pub(super) struct PromptCache(HashSet<u64>);

/// Input tokens of a request, by how they are billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Billed {
    pub(super) plain: u64,
    pub(super) read: u64,
    pub(super) written: u64,
}

impl Billed {
    pub(super) fn all(self) -> u64 {
        self.plain + self.read + self.written
    }
}

/// The part of a request up to the end of a block.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    hash: u64,
    tokens: u64,
    marked: bool,
}

impl PromptCache {
    /// Bills a request and caches its marked prefixes.
    pub(super) fn bill(&mut self, request: &Value) -> Billed {
        let prefixes = prefixes(request);
        let all = prefixes.last().map_or(0, |last| last.tokens);
        let marks =
            || (0..prefixes.len()).filter(|&at| prefixes[at].marked && prefixes[at].tokens >= MIN_TOKENS);
        let found = |mark: usize| {
            let before = &prefixes[mark.saturating_sub(LOOKBACK_BLOCKS)..=mark];
            before.iter().rev().find(|prefix| self.0.contains(&prefix.hash)).map(|prefix| prefix.tokens)
        };
        let read = marks().filter_map(found).max().unwrap_or(0);
        let marked = marks().next_back().map_or(0, |mark| prefixes[mark].tokens).max(read);
        let hashes: Vec<u64> = marks().map(|mark| prefixes[mark].hash).collect();
        self.0.extend(hashes);
        Billed { plain: all - marked, read, written: marked - read }
    }

    /// Empties the cache, as after five minutes without a request.
    pub(super) fn expire(&mut self) {
        self.0.clear();
    }
}

/// The prefixes of a request, in Anthropic's order: tools, system, messages.
fn prefixes(request: &Value) -> Vec<Prefix> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut blocks = list(&request["tools"]);
    blocks.extend(list(&request["system"]));
    for message in list(&request["messages"]) {
        // The role counts as a block before the content.
        blocks.push(message["role"].clone());
        match &message["content"] {
            Value::Array(content) => blocks.extend(content.iter().cloned()),
            content => blocks.push(content.clone()),
        }
    }
    let (mut hasher, mut tokens) = (DefaultHasher::new(), 0);
    let mut prefixes = Vec::with_capacity(blocks.len());
    for mut block in blocks {
        let mark = block.as_object_mut().and_then(|block| block.remove("cache_control"));
        let text = block.to_string();
        text.hash(&mut hasher);
        tokens += text.len().div_ceil(BYTES_PER_TOKEN) as u64;
        prefixes.push(Prefix { hash: hasher.finish(), tokens, marked: mark.is_some() });
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(turns: usize) -> Value {
        let mark = json!({"type": "ephemeral"});
        let text = |text: String| json!({"type": "text", "text": text});
        let mut system = text("s".repeat(8000));
        system["cache_control"] = mark.clone();
        let messages: Vec<Value> = (0..turns)
            .map(|turn| {
                let mut block = text(format!("turn {turn} {}", "x".repeat(400)));
                if turn + 1 == turns {
                    block["cache_control"] = mark.clone();
                }
                json!({"role": "user", "content": [block]})
            })
            .collect();
        json!({"system": [system], "messages": messages})
    }

    #[test]
    fn equal_marked_prefix_is_read_and_the_rest_written() {
        let mut cache = PromptCache::default();
        let first = cache.bill(&request(1));
        assert_eq!((first.read, first.plain), (0, 0));
        let second = cache.bill(&request(2));
        assert_eq!(second.read, first.all(), "{second:?}");
        assert!(second.written > 100 && second.plain == 0);
        let mut other = request(3);
        other["messages"][0]["content"][0]["text"] = json!("changed");
        let third = cache.bill(&other);
        assert!(third.read > 1900 && third.read < first.all(), "only the system prompt: {third:?}");
        cache.expire();
        assert_eq!(cache.bill(&request(2)).read, 0);
    }
}

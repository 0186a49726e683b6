//! Large results of tools: the history has a preview, the whole is stored beside it, and `read_result` reads more
//! of it.

use serde::{Deserialize, Serialize};

use crate::id::ResultId;
use crate::tool_call::ToolResponse;

/// Matches that one search returns.
const MAX_MATCHES: usize = 10;
/// Bytes of text before and after a match.
const CONTEXT_BYTES: usize = 150;
/// Bytes reserved for the note after a page.
const NOTE_BYTES: usize = 200;

/// `[context.results]` of `jobs/orchestrator.toml`, in bytes.
///
/// ```toml
/// [context.results]
/// inline_bytes = 16_384
/// beginning_bytes = 2_048
/// page_bytes = 8_192
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultLimits {
    /// Longer results are stored beside the history.
    pub inline_bytes: usize,
    /// Length of the preview in the history.
    pub beginning_bytes: usize,
    /// Length of what one call of `read_result` returns.
    pub page_bytes: usize,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self { inline_bytes: 16_384, beginning_bytes: 2_048, page_bytes: 8_192 }
    }
}

/// Which part of a result `read_result` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultQuery {
    /// The page that begins at this byte.
    From(usize),
    /// The page that begins at this line, from 1.
    Line(usize),
    /// The occurrences of these words, ignoring case.
    Find(String),
}

/// What the history contains of a large response: its first `max_bytes` bytes, its length, and how to read on.
#[must_use]
pub fn preview(response: &ToolResponse, id: ResultId, max_bytes: usize) -> ToolResponse {
    let text = response.text();
    let end = boundary(text, max_bytes);
    let preview = format!(
        "{}\n\n[This is the beginning: the result has {} bytes, shown are {end}. The whole of it is kept as {id}: read \
         on with read_result (result_id, and offset {end}), or search in it (result_id, and query).]",
        &text[..end],
        text.len()
    );
    match response {
        ToolResponse::Success { .. } => ToolResponse::success(preview),
        ToolResponse::Failure { code, .. } => ToolResponse::failure(*code, preview),
    }
}

/// What the model reads of a result: about `max_bytes` bytes at most.
#[must_use]
pub fn read(content: &str, query: &ResultQuery, max_bytes: usize) -> String {
    match query {
        ResultQuery::From(offset) => page(content, boundary(content, *offset), max_bytes),
        ResultQuery::Line(line) => match line_start(content, *line) {
            Some(start) => page(content, start, max_bytes),
            None => format!("The result has {} lines.", content.lines().count()),
        },
        ResultQuery::Find(words) => find(content, words, max_bytes),
    }
}

/// A part of a long text: about `max_bytes` bytes from the character at or before byte `offset`. Returns the start
/// of the part, the part, and the start of the next part; `None` at the end.
#[must_use]
pub fn part(content: &str, offset: usize, max_bytes: usize) -> (usize, &str, Option<usize>) {
    let start = boundary(content, offset);
    // At least one character, so that reading on reaches the end.
    let end = boundary(content, start.saturating_add(max_bytes.max(4)));
    (start, &content[start..end], (end < content.len()).then_some(end))
}

fn page(content: &str, start: usize, max_bytes: usize) -> String {
    if start >= content.len() {
        return format!("The result ends at byte {}.", content.len());
    }
    let mut end = boundary(content, start.saturating_add(max_bytes.saturating_sub(NOTE_BYTES).max(4)));
    if end < content.len() {
        // End at a line break, unless that would lose more than half of the page.
        let half = start + (end - start) / 2;
        end = content[start..end].rfind('\n').map(|at| start + at + 1).filter(|at| *at > half).unwrap_or(end);
    }
    let next = if end < content.len() { format!("; read on with offset {end}") } else { String::new() };
    format!("{}\n\n[bytes {start} to {end} of {}{next}]", &content[start..end], content.len())
}

/// The byte at which a line begins, from 1.
fn line_start(content: &str, line: usize) -> Option<usize> {
    match line.saturating_sub(1) {
        0 => Some(0),
        before => {
            content.match_indices('\n').nth(before - 1).map(|(at, _)| at + 1).filter(|at| *at < content.len())
        }
    }
}

fn find(content: &str, words: &str, max_bytes: usize) -> String {
    let matches = find_all(content, words);
    if matches.is_empty() {
        return format!("The result has no `{words}`: try other words, or read it from an offset.");
    }
    let mut excerpts = Vec::new();
    let mut room = max_bytes.saturating_sub(NOTE_BYTES);
    for (at, length) in matches.iter().take(MAX_MATCHES) {
        let start = boundary(content, at.saturating_sub(CONTEXT_BYTES));
        let end = boundary(content, at.saturating_add(length + CONTEXT_BYTES));
        let excerpt = format!("[offset {start}] …{}…", content[start..end].trim());
        if excerpt.len() > room {
            break;
        }
        room -= excerpt.len();
        excerpts.push(excerpt);
    }
    let note =
        format!("{} matches, shown are {}; read around one with its offset.", matches.len(), excerpts.len());
    format!("{}\n\n[{note}]", excerpts.join("\n\n"))
}

/// Byte offset and length of each occurrence of `words`, ignoring case. Occurrences do not overlap.
fn find_all(content: &str, words: &str) -> Vec<(usize, usize)> {
    let wanted: Vec<char> = words.chars().flat_map(char::to_lowercase).collect();
    let Some(first) = wanted.first() else { return Vec::new() };
    let (mut matches, mut free_from) = (Vec::new(), 0);
    for (at, character) in content.char_indices() {
        if at < free_from || character.to_lowercase().next() != Some(*first) {
            continue;
        }
        let mut wanted = wanted.iter();
        let mut end = at;
        'matching: for character in content[at..].chars() {
            if wanted.as_slice().is_empty() {
                break;
            }
            for lower in character.to_lowercase() {
                if wanted.next() != Some(&lower) {
                    end = at;
                    break 'matching;
                }
            }
            end += character.len_utf8();
        }
        if end > at && wanted.as_slice().is_empty() {
            matches.push((at, end - at));
            free_from = end;
        }
    }
    matches
}

/// The last character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tool_call::ToolErrorCode;

    fn id() -> ResultId {
        ResultId(uuid::Uuid::from_u128(7))
    }

    #[test]
    fn preview_says_how_much_is_missing_and_how_to_read_it() {
        let long = ToolResponse::failure(ToolErrorCode::IoError, "ä".repeat(1000));
        let ToolResponse::Failure { error, code } = preview(&long, id(), 101) else { panic!("it failed") };
        assert_eq!(code, ToolErrorCode::IoError);
        assert!(error.starts_with(&"ä".repeat(50)) && !error.contains(&"ä".repeat(51)), "{error}");
        for part in ["2000 bytes", "shown are 100", &id().to_string(), "offset 100"] {
            assert!(error.contains(part), "`{error}` does not contain `{part}`");
        }
    }

    #[test]
    fn pages_lines_and_words_are_found() {
        let text: String = (1..=100).map(|n| format!("line {n} of many\n")).collect();
        assert!(read(&text, &ResultQuery::Line(42), 400).starts_with("line 42 of many\n"));
        assert_eq!(read(&text, &ResultQuery::Line(101), 400), "The result has 100 lines.");
        assert!(read(&text, &ResultQuery::From(text.len()), 400).starts_with("The result ends at byte"));
        let found = read(&text, &ResultQuery::Find("LINE 77".into()), 2000);
        assert!(
            found.contains("line 77 of many")
                && found.ends_with("[1 matches, shown are 1; read around one with its offset.]"),
            "{found}"
        );
        let many = read(&text, &ResultQuery::Find("many".into()), 8000);
        assert!(many.contains("100 matches, shown are 10"), "{many}");
        assert!(read(&text, &ResultQuery::Find("nowhere".into()), 400).contains("no `nowhere`"));
    }

    /// The text of a page, and the offset of the next page.
    fn split_page(page: &str) -> (&str, Option<usize>) {
        let (text, note) = page.rsplit_once("\n\n[bytes ").unwrap();
        let next = note.split_once("with offset ").map(|(_, at)| at.trim_end_matches(']').parse().unwrap());
        (text, next)
    }

    proptest! {
        /// Page after page, every byte is read once, and no page is too long.
        #[test]
        fn pages_add_up_to_the_whole(content in "[a-zäö\n日🙂]{1,600}", max_bytes in 210..500usize) {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let page = read(&content, &ResultQuery::From(offset), max_bytes);
                prop_assert!(page.len() <= max_bytes.max(NOTE_BYTES + 80));
                let (text, next) = split_page(&page);
                whole.push_str(text);
                prop_assert!(next.is_none_or(|next| next > offset));
                at = next;
            }
            prop_assert_eq!(whole, content);
        }

        /// Part after part, every byte is read once.
        #[test]
        fn parts_add_up_to_the_whole(content in "[a-zäö\n日🙂]{0,300}", max_bytes in 1..50usize) {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let (start, text, next) = part(&content, offset, max_bytes);
                prop_assert_eq!(start, offset);
                prop_assert!(next.is_none_or(|next| next > offset));
                whole.push_str(text);
                at = next;
            }
            prop_assert_eq!(whole, content);
        }

        /// A search finds a word, whatever is around it.
        #[test]
        fn search_finds_words_in_any_text(before in "[a-z日 ]{0,300}", after in "[a-z日 ]{0,300}") {
            let content = format!("{before}NeedleÄ{after}");
            let found = read(&content, &ResultQuery::Find("needleä".into()), 4000);
            prop_assert!(found.contains("NeedleÄ") && found.contains("[1 matches"), "{}", found);
        }
    }
}

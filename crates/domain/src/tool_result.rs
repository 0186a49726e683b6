//! Long results of tools: their beginning stands in the history, the whole beside it, and `read_result` reads on.

use serde::{Deserialize, Serialize};

use crate::id::ResultId;
use crate::tool_call::ToolResponse;

/// Matches that one search shows.
const MOST_MATCHES: usize = 10;
/// Bytes of text shown before and after a match.
const AROUND: usize = 150;
/// Bytes that are left for what is said beside a page.
const SAID: usize = 200;

/// `[context.results]` of `jobs/orchestrator.toml`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResultLimits {
    /// A longer result is kept beside the history.
    pub aside_bytes: usize,
    /// So much of its beginning stays in the history.
    pub beginning_bytes: usize,
    /// So much one call of `read_result` reads.
    pub page_bytes: usize,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self { aside_bytes: 16_384, beginning_bytes: 2_048, page_bytes: 8_192 }
    }
}

/// What `read_result` is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A page that begins at this byte.
    From(usize),
    /// A page that begins at this line, from 1.
    Line(usize),
    /// Where these words stand, whatever their case.
    Find(String),
}

/// What stays of a long response in the history: its beginning, how long it is, and how to read on.
#[must_use]
pub fn beginning(response: &ToolResponse, id: ResultId, most: usize) -> ToolResponse {
    let text = response.text();
    let end = boundary(text, most);
    let told = format!(
        "{}\n\n[This is the beginning: the result has {} bytes, shown are {end}. The whole of it is kept as {id}: read \
         on with read_result (result_id, and offset {end}), or search in it (result_id, and query).]",
        &text[..end],
        text.len()
    );
    match response {
        ToolResponse::Success { .. } => ToolResponse::success(told),
        ToolResponse::Failure { code, .. } => ToolResponse::failure(*code, told),
    }
}

/// What the model reads of a result: up to about `most` bytes.
#[must_use]
pub fn read(content: &str, reading: &Reading, most: usize) -> String {
    match reading {
        Reading::From(offset) => page(content, boundary(content, *offset), most),
        Reading::Line(line) => match line_start(content, *line) {
            Some(start) => page(content, start, most),
            None => format!("The result has {} lines.", content.lines().count()),
        },
        Reading::Find(words) => find(content, words, most),
    }
}

/// A part of a long text: from the character at or before byte `offset`, about `most` bytes. Returns where it begins,
/// the part, and where the next begins; `None` at the end.
#[must_use]
pub fn part(content: &str, offset: usize, most: usize) -> (usize, &str, Option<usize>) {
    let start = boundary(content, offset);
    // One character at least: whoever reads on comes to the end.
    let end = boundary(content, start.saturating_add(most.max(4)));
    (start, &content[start..end], (end < content.len()).then_some(end))
}

fn page(content: &str, start: usize, most: usize) -> String {
    if start >= content.len() {
        return format!("The result ends at byte {}.", content.len());
    }
    let mut end = boundary(content, start.saturating_add(most.saturating_sub(SAID).max(4)));
    if end < content.len() {
        // Whole lines, unless that would give away much of the page.
        let half = start + (end - start) / 2;
        end = content[start..end].rfind('\n').map(|at| start + at + 1).filter(|at| *at > half).unwrap_or(end);
    }
    let next = if end < content.len() { format!("; read on with offset {end}") } else { String::new() };
    format!("{}\n\n[bytes {start} to {end} of {}{next}]", &content[start..end], content.len())
}

/// Where a line begins, from 1.
fn line_start(content: &str, line: usize) -> Option<usize> {
    match line.saturating_sub(1) {
        0 => Some(0),
        before => {
            content.match_indices('\n').nth(before - 1).map(|(at, _)| at + 1).filter(|at| *at < content.len())
        }
    }
}

fn find(content: &str, words: &str, most: usize) -> String {
    let places = places(content, words);
    if places.is_empty() {
        return format!("The result has no `{words}`: try other words, or read it from an offset.");
    }
    let mut shown = Vec::new();
    let mut room = most.saturating_sub(SAID);
    for (at, length) in places.iter().take(MOST_MATCHES) {
        let start = boundary(content, at.saturating_sub(AROUND));
        let end = boundary(content, at.saturating_add(length + AROUND));
        let told = format!("[offset {start}] …{}…", content[start..end].trim());
        if told.len() > room {
            break;
        }
        room -= told.len();
        shown.push(told);
    }
    let told =
        format!("{} places, shown are {}; read around one with its offset.", places.len(), shown.len());
    format!("{}\n\n[{told}]", shown.join("\n\n"))
}

/// Where `words` stand, and how long they are there, whatever their case. Places do not overlap.
fn places(content: &str, words: &str) -> Vec<(usize, usize)> {
    let wanted: Vec<char> = words.chars().flat_map(char::to_lowercase).collect();
    let Some(first) = wanted.first() else { return Vec::new() };
    let (mut places, mut free_from) = (Vec::new(), 0);
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
            places.push((at, end - at));
            free_from = end;
        }
    }
    places
}

/// The last boundary between two characters at or before `at`.
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
    fn a_beginning_says_what_is_missing_and_where_it_is() {
        let long = ToolResponse::failure(ToolErrorCode::IoError, "ä".repeat(1000));
        let ToolResponse::Failure { error, code } = beginning(&long, id(), 101) else { panic!("it failed") };
        assert_eq!(code, ToolErrorCode::IoError);
        assert!(error.starts_with(&"ä".repeat(50)) && !error.contains(&"ä".repeat(51)), "{error}");
        for told in ["2000 bytes", "shown are 100", &id().to_string(), "offset 100"] {
            assert!(error.contains(told), "`{error}` does not say `{told}`");
        }
    }

    #[test]
    fn pages_follow_each_other_and_lines_and_words_are_found() {
        let text: String = (1..=100).map(|n| format!("line {n} of many\n")).collect();
        assert!(read(&text, &Reading::Line(42), 400).starts_with("line 42 of many\n"));
        assert_eq!(read(&text, &Reading::Line(101), 400), "The result has 100 lines.");
        assert!(read(&text, &Reading::From(text.len()), 400).starts_with("The result ends at byte"));
        let found = read(&text, &Reading::Find("LINE 77".into()), 2000);
        assert!(
            found.contains("line 77 of many")
                && found.ends_with("[1 places, shown are 1; read around one with its offset.]"),
            "{found}"
        );
        let many = read(&text, &Reading::Find("many".into()), 8000);
        assert!(many.contains("100 places, shown are 10"), "{many}");
        assert!(read(&text, &Reading::Find("nowhere".into()), 400).contains("no `nowhere`"));
    }

    /// What a page shows, and where the next begins.
    fn taken(page: &str) -> (&str, Option<usize>) {
        let (text, said) = page.rsplit_once("\n\n[bytes ").unwrap();
        let next = said.split_once("with offset ").map(|(_, at)| at.trim_end_matches(']').parse().unwrap());
        (text, next)
    }

    proptest! {
        /// Page after page, every byte is read once, and no page is longer than it may be.
        #[test]
        fn pages_are_the_whole(content in "[a-zäö\n日🙂]{1,600}", most in 210..500usize) {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let page = read(&content, &Reading::From(offset), most);
                prop_assert!(page.len() <= most.max(SAID + 80));
                let (text, next) = taken(&page);
                whole.push_str(text);
                prop_assert!(next.is_none_or(|next| next > offset));
                at = next;
            }
            prop_assert_eq!(whole, content);
        }

        /// Part after part, every byte is read once.
        #[test]
        fn parts_are_the_whole(content in "[a-zäö\n日🙂]{0,300}", most in 1..50usize) {
            let (mut whole, mut at) = (String::new(), Some(0));
            while let Some(offset) = at {
                let (start, text, next) = part(&content, offset, most);
                prop_assert_eq!(start, offset);
                prop_assert!(next.is_none_or(|next| next > offset));
                whole.push_str(text);
                at = next;
            }
            prop_assert_eq!(whole, content);
        }

        /// A search finds what stands there, whatever is around it.
        #[test]
        fn what_stands_there_is_found(before in "[a-z日 ]{0,300}", after in "[a-z日 ]{0,300}") {
            let content = format!("{before}NeedleÄ{after}");
            let found = read(&content, &Reading::Find("needleä".into()), 4000);
            prop_assert!(found.contains("NeedleÄ") && found.contains("[1 places"), "{}", found);
        }
    }
}

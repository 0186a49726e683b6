//! Replacing one occurrence of a text in a file.

/// Occurrences that an error lists.
const LISTED: usize = 5;

/// Occurrences that are counted: with long texts, each may take as long as the text.
const COUNTED: usize = 100;
/// Words that are compared to find a line with other spaces.
const COMPARED_WORDS: usize = 20;

/// Why a text is not replaced. Models read it, and correct their call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    /// There is nothing to look for.
    #[error("`old` is empty: give the text to replace, as it is in the file")]
    Empty,
    /// The replacement is what is there.
    #[error("`old` and `new` are the same: nothing would change")]
    Same,
    /// The text does not occur.
    #[error("`old` does not occur in the file{}: read the file, and copy the text with its spaces and line breaks", like(*.line))]
    NotFound {
        /// A line where it would occur if only spaces were different.
        line: Option<usize>,
    },
    /// The text occurs several times.
    #[error("`old` occurs {}{count} times, in lines {}: add the text around the one you mean", least(*.count), list(.lines, *.count))]
    Ambiguous {
        /// How often; it is not counted further than 100.
        count: usize,
        /// The lines of the first ones.
        lines: Vec<usize>,
    },
}

fn like(line: Option<usize>) -> String {
    line.map(|line| format!(" (line {line} differs in spaces or line breaks only)")).unwrap_or_default()
}

fn least(count: usize) -> &'static str {
    if count >= COUNTED { "at least " } else { "" }
}

fn list(lines: &[usize], count: usize) -> String {
    let mut list = lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if count > lines.len() {
        list.push_str(", …");
    }
    list
}

/// `content` with `new` in place of `old`, which must occur exactly once.
///
/// # Errors
/// [`EditRefusal`] says why not, and where `old` occurs.
pub fn edited(content: &str, old: &str, new: &str) -> Result<String, EditRefusal> {
    if old.is_empty() {
        return Err(EditRefusal::Empty);
    }
    if old == new {
        return Err(EditRefusal::Same);
    }
    let mut found = Vec::new();
    let mut from = 0;
    let mut count = 0;
    // Overlapping ones count: which of them is meant is not certain.
    while let Some(at) = content.get(from..).and_then(|rest| rest.find(old)).map(|at| from + at) {
        count += 1;
        if found.len() < LISTED {
            found.push(at);
        }
        if count >= COUNTED {
            break;
        }
        from = at + content[at..].chars().next().map_or(1, char::len_utf8);
    }
    match found[..] {
        [] => Err(EditRefusal::NotFound { line: similar(content, old) }),
        [at] => Ok([&content[..at], new, &content[at + old.len()..]].concat()),
        _ => {
            let lines = found.iter().map(|at| line_of(content, *at)).collect();
            Err(EditRefusal::Ambiguous { count, lines })
        }
    }
}

/// The number of the line that contains the byte `at`, from 1.
fn line_of(content: &str, at: usize) -> usize {
    content.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The first line where the words of `old` follow each other.
fn similar(content: &str, old: &str) -> Option<usize> {
    let words: Vec<&str> = old.split_whitespace().take(COMPARED_WORDS).collect();
    let first = words.first()?;
    let numbered = (1..).zip(content.lines());
    let mut all = numbered.flat_map(|(number, line)| line.split_whitespace().map(move |word| (number, word)));
    while let Some((number, word)) = all.next() {
        if word == *first
            && all.clone().map(|(_, word)| word).take(words.len() - 1).eq(words[1..].iter().copied())
        {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_occurrence_is_replaced() {
        assert_eq!(edited("a b c", "b", "x y").unwrap(), "a x y c");
        assert_eq!(edited("ä\nö\n", "\nö", "").unwrap(), "ä\n");
        assert_eq!(edited("a", "a", "").unwrap(), "");
    }

    #[test]
    fn errors_say_where_the_text_is() {
        let text = |content: &str, old: &str, new: &str| edited(content, old, new).unwrap_err().to_string();
        assert_eq!(text("a", "", "x"), "`old` is empty: give the text to replace, as it is in the file");
        assert_eq!(text("a", "a", "a"), "`old` and `new` are the same: nothing would change");
        let twice = text("a\nb a\n", "a", "x");
        assert_eq!(twice, "`old` occurs 2 times, in lines 1, 2: add the text around the one you mean");
        assert!(text(&"a\n".repeat(9), "a", "x").contains("occurs 9 times, in lines 1, 2, 3, 4, 5, …:"));
        assert!(
            text(&"a".repeat(500), "a", "x").contains("occurs at least 100 times, in lines 1, 1, 1, 1, 1, …")
        );
        assert!(text("aaa", "aa", "x").contains("occurs 2 times, in lines 1, 1"), "overlapping");
        let spaces = text("x\n  if a {\n\tb\n", "if a {\n    b", "y");
        assert!(spaces.contains("(line 2 differs in spaces or line breaks only)"), "{spaces}");
        assert!(text("a\r\nb", "a\nb", "y").contains("(line 1 differs"), "other line breaks");
        assert!(text("x", "y", "z").starts_with("`old` does not occur in the file: read"));
    }

    proptest! {
        #[test]
        fn edits_change_one_place_and_can_be_undone(
            before in "[ab\n]{0,12}", old in "[ab\n]{1,4}", after in "[ab\n]{0,12}", new in "[cdä]{1,4}",
        ) {
            let content = format!("{before}{old}{after}");
            match edited(&content, &old, &new) {
                Ok(changed) => {
                    prop_assert_eq!(&changed, &format!("{before}{new}{after}"));
                    prop_assert_eq!(edited(&changed, &new, &old).unwrap(), content);
                }
                Err(error) => prop_assert!(matches!(error, EditRefusal::Ambiguous { .. }), "{error}"),
            }
        }
    }
}

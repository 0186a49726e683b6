//! A page of the lines of a file.

use std::fmt::Write as _;

use crate::tool_result::boundary;

/// Lines of a file, as a model reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinesPage {
    /// Their text, with numbers if they were asked for.
    pub text: String,
    /// The numbers of the first and of the last line; `None`: there is no line there.
    pub lines: Option<(usize, usize)>,
    /// How many lines the file has.
    pub total: usize,
    /// Whether the last line is longer than the page, and was cut.
    pub is_cut: bool,
}

/// At most `limit` lines from line `first` (from 1), of at most about `max_bytes` bytes. Line breaks stay as they are.
#[must_use]
pub fn lines_page(content: &str, first: usize, limit: usize, max_bytes: usize, numbered: bool) -> LinesPage {
    let total = content.split_inclusive('\n').count();
    let first = first.max(1);
    let mut page = LinesPage { text: String::new(), lines: None, total, is_cut: false };
    for (number, line) in (1..).zip(content.split_inclusive('\n')).skip(first - 1).take(limit) {
        let before = page.text.len();
        if numbered {
            let _ = write!(page.text, "{number:>6}\t");
        }
        let room = max_bytes.saturating_sub(page.text.len());
        if line.len() > room {
            if page.lines.is_some() {
                page.text.truncate(before);
                break;
            }
            page.text.push_str(&line[..boundary(line, room)]);
            page.is_cut = true;
        } else {
            page.text.push_str(line);
        }
        page.lines = Some((page.lines.map_or(number, |(first, _)| first), number));
        if page.is_cut {
            break;
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn page_has_whole_lines_with_numbers_on_request() {
        let page = lines_page("a\nb\r\n\nd", 2, 2, 100, true);
        assert_eq!(page.text, "     2\tb\r\n     3\t\n");
        assert_eq!((page.lines, page.total, page.is_cut), (Some((2, 3)), 4, false));
        assert_eq!(lines_page("a\nb\n", 1, 9, 100, false).text, "a\nb\n");
        assert_eq!(lines_page("a\nb\n", 3, 9, 100, false).lines, None);
        assert_eq!(lines_page("", 1, 9, 100, false).total, 0);
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        let page = lines_page("ääää\nb", 1, 9, 5, false);
        assert_eq!((page.text.as_str(), page.lines, page.is_cut), ("ää", Some((1, 1)), true));
        let page = lines_page("a\näääää", 1, 9, 5, false);
        assert_eq!((page.text.as_str(), page.lines, page.is_cut), ("a\n", Some((1, 1)), false));
    }

    proptest! {
        #[test]
        fn pages_add_up_to_the_file(content in "[a-cä\n]{0,200}", limit in 1..9usize, max in 60..90usize) {
            let (mut whole, mut next) = (String::new(), 1);
            loop {
                let page = lines_page(&content, next, limit, max, false);
                prop_assert!(page.text.len() <= max);
                let Some((first, last)) = page.lines else { break };
                prop_assert!(first == next && last >= first && last <= page.total);
                if page.is_cut {
                    return Ok(());
                }
                whole.push_str(&page.text);
                next = last + 1;
            }
            prop_assert_eq!(whole, content);
        }
    }
}

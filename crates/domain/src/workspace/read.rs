//! What is read of a workspace: a page of the lines of a file, or what a folder contains, down to a depth.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::WorkspacePath;

/// Lines of a file, as a model reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinesPage {
    /// Their text, with numbers if they were asked for.
    pub text: String,
    /// The numbers of the first and of the last line; `None`: there is no line there.
    pub lines: Option<(usize, usize)>,
    /// How many lines the file has.
    pub total: usize,
    /// If the last line is longer than the page: the byte of that line, from 0, with which its rest begins.
    pub cut_at: Option<usize>,
}

/// What of a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageStart {
    /// The first line, from 1.
    pub line: usize,
    /// The first byte of that line, from 0. Within a character it is that of the character.
    pub at: usize,
}

/// At most `limit` lines, of at most about `max_bytes` bytes. Line breaks stay as they are.
pub fn lines_page(
    content: &str,
    start: PageStart,
    limit: usize,
    max_bytes: usize,
    numbered: bool,
) -> LinesPage {
    let total = content.split_inclusive('\n').count();
    let first = start.line.max(1);
    let mut page = LinesPage { text: String::new(), lines: None, total, cut_at: None };
    for (number, line) in (1..).zip(content.split_inclusive('\n')).skip(first - 1).take(limit) {
        let skipped = if number == first { line.floor_char_boundary(start.at) } else { 0 };
        let rest = &line[skipped..];
        let before = page.text.len();
        if numbered {
            let _ = write!(page.text, "{number:>6}\t");
        }
        let room = max_bytes.saturating_sub(page.text.len());
        if rest.len() > room {
            if page.lines.is_some() {
                page.text.truncate(before);
                break;
            }
            // At least one character, so that reading on comes to an end.
            let end = rest.floor_char_boundary(room).max(rest.chars().next().map_or(0, char::len_utf8));
            page.text.push_str(&rest[..end]);
            page.cut_at = Some(skipped + end).filter(|at| *at < line.len());
        } else {
            page.text.push_str(rest);
        }
        page.lines = Some((page.lines.map_or(number, |(first, _)| first), number));
        if page.cut_at.is_some() {
            break;
        }
    }
    page
}

/// A line of a list: a file, or a folder with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path; that of a folder ends with `/`.
    pub path: String,
    /// The number of files; `None`: it is a file.
    pub files: Option<u64>,
    /// Bytes of the file, or of all files in the folder.
    pub bytes: u64,
}

/// What `folder` contains: the files at most `depth` levels below it, and the folders at that level. `files` are paths of the
/// workspace with their lengths; those outside of the folder are left out.
pub fn listing<'f>(
    folder: Option<&WorkspacePath>,
    depth: usize,
    files: impl IntoIterator<Item = (&'f str, u64)>,
) -> Vec<Listed> {
    let mut listed: BTreeMap<&str, Listed> = BTreeMap::new();
    for (path, bytes) in files {
        let inner = match folder {
            Some(folder) if !folder.contains(path) => continue,
            Some(folder) => folder.as_str().len() + 1,
            None => 0,
        };
        let cut = path[inner..].match_indices('/').nth(depth.saturating_sub(1)).map(|(at, _)| inner + at + 1);
        let key = &path[..cut.unwrap_or(path.len())];
        let line = listed.entry(key).or_insert_with(|| Listed {
            path: key.to_owned(),
            files: cut.map(|_| 0),
            bytes: 0,
        });
        line.bytes += bytes;
        if let Some(files) = &mut line.files {
            *files += 1;
        }
    }
    listed.into_values().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from(line: usize) -> PageStart {
        PageStart { line, at: 0 }
    }

    #[test]
    fn page_has_whole_lines_with_numbers_on_request() {
        let page = lines_page("a\nb\r\n\nd", from(2), 2, 100, true);
        assert_eq!(page.text, "     2\tb\r\n     3\t\n");
        assert_eq!((page.lines, page.total, page.cut_at), (Some((2, 3)), 4, None));
        assert_eq!(lines_page("a\nb\n", from(1), 9, 100, false).text, "a\nb\n");
        assert_eq!(lines_page("a\nb\n", from(3), 9, 100, false).lines, None);
        assert_eq!(lines_page("", from(1), 9, 100, false).total, 0);
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        let page = lines_page("ääää\nb", from(1), 9, 5, false);
        assert_eq!((page.text.as_str(), page.lines, page.cut_at), ("ää", Some((1, 1)), Some(4)));
        let page = lines_page("ääää\nb", PageStart { line: 1, at: 5 }, 9, 5, false);
        assert_eq!((page.text.as_str(), page.lines, page.cut_at), ("ää\n", Some((1, 1)), None));
        let page = lines_page("a\näääää", from(1), 9, 5, false);
        assert_eq!((page.text.as_str(), page.lines, page.cut_at), ("a\n", Some((1, 1)), None));
        let page = lines_page("a", PageStart { line: 1, at: 9 }, 9, 5, false);
        assert_eq!((page.text.as_str(), page.lines, page.cut_at), ("", Some((1, 1)), None));
    }

    proptest! {
        #[test]
        fn pages_add_up_to_the_file(content in "[a-cä\n]{0,200}", limit in 1..9usize, max in 0..90usize) {
            let (mut whole, mut next) = (String::new(), from(1));
            loop {
                let page = lines_page(&content, next, limit, max, false);
                prop_assert!(page.text.len() <= max.max(2));
                let Some((first, last)) = page.lines else { break };
                prop_assert!(first == next.line && last >= first && last <= page.total);
                whole.push_str(&page.text);
                next = page.cut_at.map_or(from(last + 1), |at| PageStart { line: last, at });
            }
            prop_assert_eq!(whole, content);
        }
    }

    const FILES: [(&str, u64); 5] = [("a.md", 1), ("b/c", 2), ("b/d/e", 4), ("b/d/f", 8), ("b-x", 16)];

    fn lines(folder: &str, depth: usize) -> Vec<(String, Option<u64>, u64)> {
        let folder = WorkspacePath::folder(folder).unwrap();
        let listed = listing(folder.as_ref(), depth, FILES);
        listed.into_iter().map(|line| (line.path, line.files, line.bytes)).collect()
    }

    #[test]
    fn deeper_folders_are_one_line_with_their_sums() {
        let file = |path: &str, bytes| (path.to_owned(), None, bytes);
        let folder = |path: &str, files, bytes| (path.to_owned(), Some(files), bytes);
        assert_eq!(lines("", 1), [file("a.md", 1), file("b-x", 16), folder("b/", 3, 14)]);
        assert_eq!(lines("", 2), [file("a.md", 1), file("b-x", 16), file("b/c", 2), folder("b/d/", 2, 12)]);
        assert_eq!(lines("b", 1), [file("b/c", 2), folder("b/d/", 2, 12)]);
        assert_eq!(lines("b/d", 1), [file("b/d/e", 4), file("b/d/f", 8)]);
        assert_eq!(lines("nothing", 3), []);
    }

    proptest! {
        #[test]
        fn each_file_is_counted_once(paths in prop::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,4}", 0..12), depth in 1..6usize) {
            let listed = listing(None, depth, paths.iter().map(|path| (path.as_str(), 3)));
            let files: u64 = listed.iter().map(|line| line.files.unwrap_or(1)).sum();
            prop_assert_eq!(files, paths.len() as u64);
            prop_assert_eq!(listed.iter().map(|line| line.bytes).sum::<u64>(), 3 * files);
        }
    }
}

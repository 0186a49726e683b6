//! What a change of a file would change, for the person who allows it: a unified diff.

use std::fmt::Write as _;

use crate::guard::is_invisible;

/// Maximum length of a diff, in bytes: it is part of a question, which a person reads.
pub const MAX_DIFF_BYTES: usize = 8 * 1024;
/// Lines around a change.
const CONTEXT: usize = 3;
/// Bytes of a line that are printed.
const LINE_BYTES: usize = 400;
/// Pairs of lines that are compared. Beyond, the old part is printed whole, then the new one.
const MAX_PAIRS: usize = 250_000;

/// One line of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit<'t> {
    Keep(&'t str),
    Remove(&'t str),
    Add(&'t str),
}

/// The unified diff between two texts of a file; `None`: there is no file. It has at most about [`MAX_DIFF_BYTES`], and the last
/// line says how much is left out. Characters that cannot be seen are written as their numbers.
pub fn unified_diff(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let name = |side: &str, text: Option<&str>| {
        text.map_or_else(|| "/dev/null".to_owned(), |_| format!("{side}/{path}"))
    };
    let mut diff = format!("--- {}\n+++ {}\n", name("a", before), name("b", after));
    let edits = edits(before.unwrap_or_default(), after.unwrap_or_default());
    let hunks = hunks(&edits);
    if hunks.is_empty() {
        diff.push_str(if before.is_some() == after.is_some() { "(nothing changes)\n" } else { "(empty)\n" });
    }
    let mut left_out = 0_usize;
    for (start, end) in hunks {
        let header = header(&edits, start, end);
        let mut lines = vec![header];
        lines.extend(edits[start..end].iter().map(printed));
        for line in lines {
            if left_out > 0 || diff.len() + line.len() > MAX_DIFF_BYTES {
                left_out += 1;
            } else {
                diff.push_str(&line);
            }
        }
    }
    if left_out > 0 {
        let _ = writeln!(diff, "[{left_out} more lines of the diff are left out]");
    }
    diff
}

/// The lines of both texts, in their order.
fn edits<'t>(before: &'t str, after: &'t str) -> Vec<Edit<'t>> {
    let old: Vec<&str> = before.split_inclusive('\n').collect();
    let new: Vec<&str> = after.split_inclusive('\n').collect();
    let first = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let most = old.len().min(new.len()) - first;
    let last =
        old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(one, other)| one == other).count();
    let (old_part, new_part) = (&old[first..old.len() - last], &new[first..new.len() - last]);
    let mut edits: Vec<Edit<'t>> = old[..first].iter().map(|line| Edit::Keep(line)).collect();
    edits.extend(compared(old_part, new_part));
    edits.extend(old[old.len() - last..].iter().map(|line| Edit::Keep(line)));
    edits
}

/// The lines of two parts without a common beginning and end: as many as possible are kept.
fn compared<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Edit<'t>> {
    let mut edits = Vec::with_capacity(old.len() + new.len());
    let (mut at, mut to) = (0, 0);
    if old.len().saturating_mul(new.len()) <= MAX_PAIRS {
        // For each pair of positions, how many lines the rests have in common.
        let width = new.len() + 1;
        let mut common = vec![0_u32; (old.len() + 1) * width];
        for (row, one) in old.iter().enumerate().rev() {
            for (column, other) in new.iter().enumerate().rev() {
                common[row * width + column] = if one == other {
                    common[(row + 1) * width + column + 1] + 1
                } else {
                    common[(row + 1) * width + column].max(common[row * width + column + 1])
                };
            }
        }
        while at < old.len() && to < new.len() {
            if old[at] == new[to] {
                edits.push(Edit::Keep(old[at]));
                (at, to) = (at + 1, to + 1);
            } else if common[(at + 1) * width + to] >= common[at * width + to + 1] {
                edits.push(Edit::Remove(old[at]));
                at += 1;
            } else {
                edits.push(Edit::Add(new[to]));
                to += 1;
            }
        }
    }
    edits.extend(old[at..].iter().map(|line| Edit::Remove(line)));
    edits.extend(new[to..].iter().map(|line| Edit::Add(line)));
    edits
}

/// The changes with the lines around them, as ranges of the edits.
fn hunks(edits: &[Edit<'_>]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (at, _) in edits.iter().enumerate().filter(|(_, edit)| !matches!(edit, Edit::Keep(_))) {
        let (start, end) = (at.saturating_sub(CONTEXT), (at + 1 + CONTEXT).min(edits.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.1 => last.1 = end,
            _ => hunks.push((start, end)),
        }
    }
    hunks
}

/// `@@ -1,3 +1,4 @@`
fn header(edits: &[Edit<'_>], start: usize, end: usize) -> String {
    let old = |edits: &[Edit<'_>]| edits.iter().filter(|edit| !matches!(edit, Edit::Add(_))).count();
    let new = |edits: &[Edit<'_>]| edits.iter().filter(|edit| !matches!(edit, Edit::Remove(_))).count();
    let range = |before: usize, count: usize| match count {
        0 => format!("{before},0"),
        1 => format!("{}", before + 1),
        count => format!("{},{count}", before + 1),
    };
    let (before, part) = (&edits[..start], &edits[start..end]);
    format!("@@ -{} +{} @@\n", range(old(before), old(part)), range(new(before), new(part)))
}

/// A line as a person sees it.
fn printed(edit: &Edit<'_>) -> String {
    let (mark, line) = match edit {
        Edit::Keep(line) => (' ', line),
        Edit::Remove(line) => ('-', line),
        Edit::Add(line) => ('+', line),
    };
    let (text, is_ended) = line.strip_suffix('\n').map_or((*line, false), |text| (text, true));
    let mut line = String::from(mark);
    let end = text.floor_char_boundary(LINE_BYTES);
    for letter in text[..end].chars() {
        if letter != '\t' && is_invisible(letter) {
            let _ = write!(line, "\\u{{{:x}}}", u32::from(letter));
        } else {
            line.push(letter);
        }
    }
    if end < text.len() {
        let _ = write!(line, "… [{} more bytes]", text.len() - end);
    }
    line.push('\n');
    if !is_ended {
        line.push_str("\\ No newline at end of file\n");
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changed_lines_stand_among_the_lines_around_them() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        let diff = unified_diff("a.md", Some(before), Some(after));
        assert_eq!(diff, "--- a/a.md\n+++ b/a.md\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
    }

    #[test]
    fn new_and_deleted_files_have_one_side() {
        let new = unified_diff("a", None, Some("x\ny"));
        assert_eq!(new, "--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n");
        assert_eq!(unified_diff("a", Some("x\n"), None), "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n");
        assert_eq!(unified_diff("a", None, Some("")), "--- /dev/null\n+++ b/a\n(empty)\n");
        assert_eq!(unified_diff("a", Some("x"), Some("x")), "--- a/a\n+++ b/a\n(nothing changes)\n");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        let diff = unified_diff("a", Some("x\r\n"), Some("x\u{1b}[2J\u{202e}y\tz\n"));
        assert!(diff.contains("-x\\u{d}\n+x\\u{1b}[2J\\u{202e}y\tz\n"), "{diff}");
    }

    #[test]
    fn long_diffs_and_lines_are_cut() {
        let diff = unified_diff("a", None, Some(&"line\n".repeat(100_000)));
        assert!(diff.len() < MAX_DIFF_BYTES + 100 && diff.contains("more lines of the diff are left out"));
        let old: String = (0..2_000).map(|n| format!("{n}\n")).collect();
        let new: String = (0..2_000).map(|n| format!("{n}x\n")).collect();
        assert!(
            unified_diff("a", Some(&old), Some(&new))
                .starts_with("--- a/a\n+++ b/a\n@@ -1,2000 +1,2000 @@\n-0\n")
        );
        let line = unified_diff("a", None, Some(&"ä".repeat(1_000)));
        assert!(line.contains("… [1600 more bytes]") && line.len() < 600, "{line}");
    }

    proptest! {
        #[test]
        fn edits_lead_from_one_text_to_the_other(before in "([ab]\n){0,9}[ab]{0,2}", after in "([abc]\n){0,9}") {
            let edits = edits(&before, &after);
            let side = |leaves_out: fn(&Edit<'_>) -> bool| -> String {
                edits
                    .iter()
                    .filter(|edit| !leaves_out(edit))
                    .map(|edit| match edit {
                        Edit::Keep(line) | Edit::Remove(line) | Edit::Add(line) => *line,
                    })
                    .collect()
            };
            prop_assert_eq!(side(|edit| matches!(edit, Edit::Add(_))), before.as_str());
            prop_assert_eq!(side(|edit| matches!(edit, Edit::Remove(_))), after);
        }
    }
}

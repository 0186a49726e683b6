//! Files that record what the program said when they were written, and are compared with what it says now.
//!
//! `UPDATE_SNAPSHOTS=1` writes the files of the tests that run anew, in place of comparing them: review what changed.

use std::path::Path;

/// Whether the files are to be written anew.
pub fn is_update() -> bool {
    std::env::var_os("UPDATE_SNAPSHOTS").is_some()
}

/// Compares a text with the file that recorded it, or writes the file.
///
/// # Errors
/// The first line that differs, with the line of the file and that of the text, and how to write the file anew.
pub fn compare(file: &Path, text: &str) -> Result<(), String> {
    if is_update() {
        let written = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        return written
            .and_then(|()| std::fs::write(file, text))
            .map_err(|error| format!("{}: {error}", file.display()));
    }
    let recorded = std::fs::read_to_string(file);
    let recorded = recorded.map_err(|error| format!("{}: {error}\n{HINT}", file.display()))?;
    first_difference(&recorded, text)
        .map_or(Ok(()), |(line, difference)| Err(format!("{}:{line}: {difference}\n{HINT}", file.display())))
}

/// Asserts that each text is equal to its file, and names each file that is not.
///
/// # Panics
/// If a text differs, or there are files in `folder` that end in `suffix` and have no text.
pub fn assert_folder(folder: &Path, suffix: &str, texts: &[(String, String)]) {
    let mut wrong: Vec<String> = texts
        .iter()
        .filter_map(|(name, text)| compare(&folder.join(format!("{name}{suffix}")), text).err())
        .collect();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(suffix) else { continue };
        if texts.iter().any(|(of, _)| of == name) {
            continue;
        }
        match is_update() {
            true => {
                wrong.extend(std::fs::remove_file(entry.path()).err().map(|error| format!("{file}: {error}")))
            }
            false => wrong.push(format!("{}: nothing writes this file\n{HINT}", entry.path().display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const HINT: &str = "If the change is meant, UPDATE_SNAPSHOTS=1 writes the file anew: review the difference.";

/// The number of the first line that differs, from 1, and both lines.
fn first_difference(recorded: &str, text: &str) -> Option<(usize, String)> {
    if recorded == text {
        return None;
    }
    // `split`, not `lines`: a line feed at the end counts.
    let (mut old, mut new) = (recorded.split('\n'), text.split('\n'));
    let same = old.clone().zip(new.clone()).take_while(|(old, new)| old == new).count();
    let (old, new) = (old.nth(same).unwrap_or("(end)"), new.nth(same).unwrap_or("(end)"));
    let (old, new) = (near(old, new), near(new, old));
    Some((same + 1, format!("differs from what was recorded\n  recorded: {old}\n  now:      {new}")))
}

/// The part of a long line around the first character that differs from another line.
fn near(line: &str, other: &str) -> String {
    const BEFORE: usize = 80;
    const MOST: usize = 240;
    let same = line.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let start = if line.chars().count() <= MOST { 0 } else { same.saturating_sub(BEFORE) };
    let cut = if start > 0 { "…" } else { "" };
    format!("{cut}{}", line.chars().skip(start).take(MOST).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_is_found_in_long_and_short_lines() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let (line, text) = first_difference("a\nb\n", "a\nc\n").unwrap();
        assert!(line == 2 && text.contains("recorded: b") && text.contains("now:      c"), "{text}");
        let (line, text) = first_difference("a\n", "a").unwrap();
        assert!(line == 2 && text.contains("now:      (end)"), "{text}");
        let long = "x".repeat(500);
        let (_, text) = first_difference(&format!("{long}1{long}"), &format!("{long}2{long}")).unwrap();
        assert!(text.contains("x1x") && text.contains("x2x") && text.len() < 700, "{text}");
    }

    #[test]
    fn a_missing_file_says_how_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let error = compare(&folder.path().join("none"), "").unwrap_err();
        assert!(error.contains("UPDATE_SNAPSHOTS=1"), "{error}");
    }
}

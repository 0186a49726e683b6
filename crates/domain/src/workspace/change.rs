//! Changes of files: whether one may be written or deleted, the version that the writer must have read, and an edit of one place.

use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::{FileLimits, MAX_FILE_BYTES, WorkspacePath};

/// How much of the SHA-256 models read and write: enough to notice that a file has changed.
const SHORT_DIGITS: usize = 16;

/// The shortest beginning that counts as given on purpose.
const MIN_DIGITS: usize = 8;

/// The SHA-256 of a file's bytes. Models see its first 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion(pub [u8; 32]);

impl FileVersion {
    /// The version of a file with this content.
    pub fn of(content: &str) -> Self {
        Self(Sha256::digest(content.as_bytes()).into())
    }

    /// All 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl Serialize for FileVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hex()[..SHORT_DIGITS])
    }
}

/// What a caller expects a file to be before it is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// Anything, or nothing.
    #[default]
    Any,
    /// That it does not exist.
    Absent,
    /// A version that begins with these digits, in lower case.
    Version(String),
}

impl Expected {
    /// Reads what a model gives: digits, or `none`. The error says what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        if text == "none" {
            return Ok(Self::Absent);
        }
        let is_version =
            (MIN_DIGITS..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        ensure!(
            is_version,
            "must be {MIN_DIGITS} to 64 hexadecimal digits, as the sha that reading the file returns, or `none` if there must \
             be no such file"
        );
        Ok(Self::Version(text))
    }

    /// Whether a file is as expected; `None` is a file that does not exist.
    pub fn is_met(&self, present: Option<FileVersion>) -> bool {
        match (self, present) {
            (Self::Any, _) | (Self::Absent, None) => true,
            (Self::Version(digits), Some(present)) => present.hex().starts_with(digits),
            (Self::Absent, Some(_)) | (Self::Version(_), None) => false,
        }
    }
}

/// What a workspace holds before one of its files is changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Present {
    /// The file with that path, and its length in bytes.
    pub file: Option<(FileVersion, u64)>,
    /// A file whose path is that of a folder of the new one.
    pub file_above: Option<String>,
    /// Whether files have the path as a folder.
    pub is_folder: bool,
    /// Number of files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
}

/// Why a file is not changed. Models read the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    /// There is no such file.
    #[error("there is no file {path}")]
    NotFound { path: String },
    /// There is one, but there must not be.
    #[error("{path} exists already: read it, and give its sha to replace it")]
    Exists { path: String },
    /// It is not what the caller expected.
    #[error(
        "{path} has changed since you read it, its sha is {version} now: read it again, and repeat your change"
    )]
    Changed { path: String, version: FileVersion },
    /// The path is a folder.
    #[error("{path} is a folder with files in it: choose another path")]
    IsFolder { path: String },
    /// A folder of the path is a file.
    #[error("{above} is a file, so it cannot contain {path}: choose another path")]
    BelowFile { above: String, path: String },
    /// The file would be too long.
    #[error(
        "the file would have {bytes} bytes; at most {MAX_FILE_BYTES} are allowed: split it into several files"
    )]
    TooLong { bytes: usize },
    /// There are too many files.
    #[error("the workspace has {files} files; at most {max} are allowed: delete some first")]
    TooManyFiles { files: u64, max: u32 },
    /// The workspace would be too large.
    #[error(
        "the workspace would have {bytes} bytes; at most {max} are allowed: delete or shorten files first"
    )]
    TooManyBytes { bytes: u64, max: u64 },
}

impl ChangeRefusal {
    /// Whether the workspace is full: it helps to delete something.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::TooManyFiles { .. } | Self::TooManyBytes { .. })
    }
}

/// Whether `content` may be written to `path`.
///
/// A workspace that is too large already, because the limits were lowered or files of a task were added, may be made
/// smaller.
///
/// # Errors
/// [`ChangeRefusal`] says why not.
pub fn check_write(
    path: &WorkspacePath,
    content: &str,
    expected: &Expected,
    present: &Present,
    limits: &FileLimits,
) -> Result<(), ChangeRefusal> {
    check_expected(path, expected, present)?;
    let path = || path.to_string();
    ensure!(!present.is_folder, ChangeRefusal::IsFolder { path: path() });
    if let Some(above) = &present.file_above {
        return Err(ChangeRefusal::BelowFile { above: above.clone(), path: path() });
    }
    ensure!(content.len() <= MAX_FILE_BYTES, ChangeRefusal::TooLong { bytes: content.len() });
    if present.file.is_none() && present.files >= limits.max_files.into() {
        return Err(ChangeRefusal::TooManyFiles { files: present.files, max: limits.max_files });
    }
    let before = present.file.map_or(0, |(_, bytes)| bytes);
    let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
    let bytes = present.bytes.saturating_sub(before).saturating_add(length);
    if bytes > limits.max_bytes && length > before {
        return Err(ChangeRefusal::TooManyBytes { bytes, max: limits.max_bytes });
    }
    Ok(())
}

/// Whether the file at `path` may be deleted.
///
/// # Errors
/// [`ChangeRefusal`] says why not.
pub fn check_delete(
    path: &WorkspacePath,
    expected: &Expected,
    present: &Present,
) -> Result<(), ChangeRefusal> {
    ensure!(present.file.is_some(), ChangeRefusal::NotFound { path: path.to_string() });
    check_expected(path, expected, present)
}

fn check_expected(path: &WorkspacePath, expected: &Expected, present: &Present) -> Result<(), ChangeRefusal> {
    let file = present.file.map(|(version, _)| version);
    if expected.is_met(file) {
        return Ok(());
    }
    let name = path.to_string();
    Err(match (expected, file) {
        (Expected::Absent, _) => ChangeRefusal::Exists { path: name },
        (_, Some(version)) => ChangeRefusal::Changed { path: name, version },
        (_, None) => ChangeRefusal::NotFound { path: name },
    })
}

/// Occurrences that an error lists.
const LISTED: usize = 5;

/// Occurrences that are counted: with long texts, each may take as long as the text.
const COUNTED: usize = 100;

/// Words that are compared to find a line with other spaces.
const COMPARED_WORDS: usize = 20;

/// `content` with `new` in place of `old`, which must occur exactly once. The error says why not, and where `old` occurs: models
/// read it, and correct their call.
pub fn edited(content: &str, old: &str, new: &str) -> Result<String, String> {
    ensure!(!old.is_empty(), "`old` is empty: give the text to replace, as it is in the file");
    ensure!(old != new, "`old` and `new` are the same: nothing would change");
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
        [] => {
            let like = |line| format!(" (line {line} differs in spaces or line breaks only)");
            let like = similar(content, old).map(like).unwrap_or_default();
            Err(format!(
                "`old` does not occur in the file{like}: read the file, and copy the text with its spaces and line breaks"
            ))
        }
        [at] => Ok([&content[..at], new, &content[at + old.len()..]].concat()),
        _ => {
            let lines: Vec<String> = found.iter().map(|at| line_of(content, *at).to_string()).collect();
            let (lines, more) = (lines.join(", "), if count > found.len() { ", …" } else { "" });
            let least = if count >= COUNTED { "at least " } else { "" };
            Err(format!(
                "`old` occurs {least}{count} times, in lines {lines}{more}: add the text around the one you mean"
            ))
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
    fn short_and_long_versions_are_compared_by_their_digits() {
        let version = FileVersion::of("hello");
        assert_eq!(version.to_string(), "2cf24dba5fb0a30e");
        for digits in [version.to_string(), version.hex(), version.hex().to_uppercase()] {
            assert!(Expected::parse(&digits).unwrap().is_met(Some(version)), "{digits}");
            assert!(!Expected::parse(&digits).unwrap().is_met(Some(FileVersion::of("hallo"))), "{digits}");
            assert!(!Expected::parse(&digits).unwrap().is_met(None), "{digits}");
        }
        assert!(Expected::Any.is_met(None) && Expected::Any.is_met(Some(version)));
        let absent = Expected::parse("none").unwrap();
        assert!(absent.is_met(None) && !absent.is_met(Some(version)));
        for wrong in ["", "2cf24db", "2cf24dbz", "sha256:2cf24dba", &"a".repeat(65)] {
            assert!(Expected::parse(wrong).is_err(), "{wrong}");
        }
    }

    const LIMITS: FileLimits = FileLimits { max_files: 2, max_bytes: 10 };

    fn path() -> WorkspacePath {
        WorkspacePath::file("a/b").unwrap()
    }

    fn write(content: &str, expected: &Expected, present: &Present) -> Result<(), ChangeRefusal> {
        check_write(&path(), content, expected, present, &LIMITS)
    }

    #[test]
    fn quota_holds_for_new_files_and_longer_ones() {
        let file = Some((FileVersion::of("12345"), 5));
        let one = Present { files: 1, bytes: 5, ..Present::default() };
        assert_eq!(write("12345", &Expected::Any, &one), Ok(()));
        let error = write("123456", &Expected::Any, &one).unwrap_err();
        assert_eq!(error, ChangeRefusal::TooManyBytes { bytes: 11, max: 10 });
        assert!(error.is_full());
        let full = Present { files: 2, bytes: 5, ..Present::default() };
        assert_eq!(write("", &Expected::Any, &full), Err(ChangeRefusal::TooManyFiles { files: 2, max: 2 }));
        assert_eq!(write("1234567890", &Expected::Any, &Present { file, ..full }), Ok(()), "it is replaced");
        // Larger than allowed already.
        let over = Present { file, files: 9, bytes: 30, ..Present::default() };
        assert_eq!(write("1234", &Expected::Any, &over), Ok(()));
        assert!(write("123456", &Expected::Any, &over).is_err());
        let long = "x".repeat(MAX_FILE_BYTES + 1);
        assert!(matches!(write(&long, &Expected::Any, &one), Err(ChangeRefusal::TooLong { .. })));
    }

    #[test]
    fn changed_missing_and_existing_files_are_named() {
        let version = FileVersion::of("x");
        let there = Present { file: Some((version, 1)), files: 1, bytes: 1, ..Present::default() };
        let (none, other) = (Present::default(), Expected::parse("00000000").unwrap());
        let same = Expected::parse(&version.to_string()).unwrap();
        let name = || "a/b".to_owned();
        assert_eq!(write("y", &same, &there), Ok(()));
        assert_eq!(write("y", &other, &there), Err(ChangeRefusal::Changed { path: name(), version }));
        assert_eq!(write("y", &same, &none), Err(ChangeRefusal::NotFound { path: name() }));
        assert_eq!(write("y", &Expected::Absent, &there), Err(ChangeRefusal::Exists { path: name() }));
        assert_eq!(write("y", &Expected::Absent, &none), Ok(()));
        let missing = Err(ChangeRefusal::NotFound { path: name() });
        assert_eq!(check_delete(&path(), &Expected::Any, &none), missing);
        assert_eq!(check_delete(&path(), &Expected::Absent, &none), missing);
        assert_eq!(check_delete(&path(), &same, &there), Ok(()));
        assert!(check_delete(&path(), &other, &there).is_err());
    }

    #[test]
    fn path_is_a_file_or_a_folder() {
        let folder = Present { is_folder: true, ..Present::default() };
        assert!(matches!(write("y", &Expected::Any, &folder), Err(ChangeRefusal::IsFolder { .. })));
        let below = Present { file_above: Some("a".to_owned()), ..Present::default() };
        let error = write("y", &Expected::Any, &below).unwrap_err().to_string();
        assert_eq!(error, "a is a file, so it cannot contain a/b: choose another path");
    }

    proptest! {
        /// Writes of files within the limits never lead to a workspace over them.
        #[test]
        fn workspace_stays_within_its_limits(lengths in prop::collection::vec((0..4usize, 0..8usize), 1..30)) {
            let mut files: [Option<usize>; 4] = [None; 4];
            for (number, length) in lengths {
                let sum = |files: &[Option<usize>]| files.iter().flatten().sum::<usize>();
                let present = Present {
                    file: files[number].map(|bytes| (FileVersion([0; 32]), bytes as u64)),
                    files: files.iter().flatten().count() as u64,
                    bytes: sum(&files) as u64,
                    ..Present::default()
                };
                if write(&"x".repeat(length), &Expected::Any, &present).is_ok() {
                    files[number] = Some(length);
                }
                prop_assert!(files.iter().flatten().count() <= 2 && sum(&files) <= 10);
            }
        }
    }

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
                Err(error) => prop_assert!(error.starts_with("`old` occurs "), "{error}"),
            }
        }
    }
}

//! Whether a file may be written or deleted.

use super::{Expected, FileLimits, FileVersion, MAX_FILE_BYTES, WorkspacePath};

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
    #[must_use]
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
    if present.is_folder {
        return Err(ChangeRefusal::IsFolder { path: path() });
    }
    if let Some(above) = &present.file_above {
        return Err(ChangeRefusal::BelowFile { above: above.clone(), path: path() });
    }
    if content.len() > MAX_FILE_BYTES {
        return Err(ChangeRefusal::TooLong { bytes: content.len() });
    }
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
    if present.file.is_none() {
        return Err(ChangeRefusal::NotFound { path: path.to_string() });
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
}

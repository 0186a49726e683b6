//! [`FileVersion`]: what a file contains, as a number to compare.

use std::fmt;

use sha2::{Digest, Sha256};

/// How much of the SHA-256 models read and write: enough to notice that a file has changed.
const SHORT_DIGITS: usize = 16;
/// The shortest beginning that counts as given on purpose.
const MIN_DIGITS: usize = 8;

/// The SHA-256 of a file's bytes. Models see its first 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion(pub [u8; 32]);

impl FileVersion {
    /// The version of a file with this content.
    #[must_use]
    pub fn of(content: &str) -> Self {
        Self(Sha256::digest(content.as_bytes()).into())
    }

    /// All 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        use std::fmt::Write as _;
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
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

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be {MIN_DIGITS} to 64 hexadecimal digits, as the sha that reading the file returns, or `none` if there must be \
     no such file"
)]
pub struct InvalidVersion;

impl Expected {
    /// Reads what a model gives: digits, or `none`.
    ///
    /// # Errors
    /// [`InvalidVersion`] says what is allowed.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let text = text.trim().to_ascii_lowercase();
        if text == "none" {
            return Ok(Self::Absent);
        }
        let is_version =
            (MIN_DIGITS..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_version { Ok(Self::Version(text)) } else { Err(InvalidVersion) }
    }

    /// Whether a file is as expected; `None` is a file that does not exist.
    #[must_use]
    pub fn is_met(&self, present: Option<FileVersion>) -> bool {
        match (self, present) {
            (Self::Any, _) | (Self::Absent, None) => true,
            (Self::Version(digits), Some(present)) => present.hex().starts_with(digits),
            (Self::Absent, Some(_)) | (Self::Version(_), None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(Expected::parse(wrong), Err(InvalidVersion), "{wrong}");
        }
    }
}

//! A key, kept out of everything that is printed.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// What tells a key from others and from which nobody finds the key: the first 32 bits of its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u32);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A text that must not be seen. `Debug` prints `[redacted]`, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a key. White space around it, as copied keys have, is dropped.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }

    /// Whether there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What tells it from others.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(self.0.as_bytes()));
        Fingerprint(u32::from_be_bytes([a, b, c, d]))
    }

    /// The key itself, for the one place that puts it into a header.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Replaces the key in `text`, for error messages that quote it back.
    pub(crate) fn scrub(&self, text: &mut String) {
        // What is shorter is no key, and replacing it would only garble the message.
        const SHORTEST: usize = 6;
        if self.0.len() >= SHORTEST && text.contains(&*self.0) {
            *text = text.replace(&*self.0, "[redacted]");
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = Secret::new(" sk-abcdef123 \n");
        assert_eq!(format!("{key:?}"), "[redacted]");
        let other = Secret::new("sk-abcdef124");
        assert!(key.fingerprint() != other.fingerprint() && key.fingerprint() == key.clone().fingerprint());
        assert_eq!(key.fingerprint().to_string(), "a2448281");
        let mut message = "bad key sk-abcdef123, and sk-abcdef123 again".to_owned();
        key.scrub(&mut message);
        assert_eq!(message, "bad key [redacted], and [redacted] again");
    }
}

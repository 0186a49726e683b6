//! A key, kept out of everything that is printed, and wiped from memory when it is dropped.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Deserializer};
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
#[derive(Clone)]
pub struct Secret(SecretString);

/// What stands for a key in a text.
const REDACTED: &str = "[redacted]";

impl Secret {
    /// Wraps a key. White space around it, as copied keys have, is dropped.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text.trim()))
    }

    /// Whether there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }

    /// What tells it from others.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(self.expose().as_bytes()));
        Fingerprint(u32::from_be_bytes([a, b, c, d]))
    }

    /// The key itself, for the one place that puts it into a header.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether it is a signed token with a body of its own (JWT), and no plain key.
    pub(crate) fn is_jwt(&self) -> bool {
        self.expose().starts_with("eyJ") && self.expose().matches('.').count() == 2
    }

    /// Replaces the key in `text`, for error messages that quote it back.
    pub(crate) fn scrub(&self, text: &mut String) {
        // What is shorter is no key, and replacing it would only garble the message.
        const SHORTEST: usize = 6;
        if self.expose().len() >= SHORTEST && text.contains(self.expose()) {
            *text = text.replace(self.expose(), REDACTED);
        }
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::new(&text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// How the keys of the providers begin.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "gsk_",
    "xai-",
    "AIza",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "pplx-",
    "fw_",
    "eyJ",
];

/// Replaces what looks like a key of any provider: a gateway may quote one that is not ours.
pub(crate) fn scrub_lookalikes(text: &str) -> String {
    // The shortest keys in use have 32 characters; quoted ones are often cut.
    const SHORTEST: usize = 20;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut scrubbed = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (this, after) = rest.split_at(word);
        let key = word >= SHORTEST && BEGINNINGS.iter().any(|beginning| this.starts_with(beginning));
        scrubbed.push_str(if key { REDACTED } else { this });
        let between = after.find(is_part).unwrap_or(after.len());
        scrubbed.push_str(&after[..between]);
        rest = &after[between..];
    }
    scrubbed
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

    #[test]
    fn what_looks_like_a_key_is_hidden_and_the_rest_kept() {
        let said =
            "Bearer sk-proj-0123456789abcdefgh failed (key=AIzaSyA0123456789abcdefghij); sk-short; model é";
        assert_eq!(scrub_lookalikes(said), "Bearer [redacted] failed (key=[redacted]); sk-short; model é");
    }
}

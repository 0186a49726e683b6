//! API keys that are never printed, and wiped from memory when dropped.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Distinguishes keys without revealing them: the first 32 bits of the SHA-256, printed as 8 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u32);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A secret text. `Debug` prints `[redacted]`; there is no `Display`.
#[derive(Clone)]
pub struct Secret(SecretString);

/// Replaces a secret in texts.
pub(crate) const REDACTED: &str = "[redacted]";

impl Secret {
    /// Wraps a key. Surrounding white space, common in copied keys, is removed.
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text.trim()))
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }

    /// The fingerprint of the secret.
    pub fn fingerprint(&self) -> Fingerprint {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(self.expose().as_bytes()));
        Fingerprint(u32::from_be_bytes([a, b, c, d]))
    }

    /// The key itself, for the code that builds request headers.
    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether the key is a JSON Web Token rather than a plain key.
    pub(crate) fn is_jwt(&self) -> bool {
        self.expose().starts_with("eyJ") && self.expose().matches('.').count() == 2
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Secret {}

impl<'de> Deserialize<'de> for Secret {
    /// Accepts a string only. Errors do not quote the value: it may be the key.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer) {
            // Wiped like the key itself.
            Ok(Value::String(text)) => Ok(Self::new(SecretString::from(text).expose_secret())),
            _ => Err(D::Error::custom(NO_TEXT)),
        }
    }
}

/// Error for a key that is not a string; unquoted digits are parsed as a number.
const NO_TEXT: &str = "the key (not shown) is not a string: put it in double quotes, also inside an environment variable (VARIABLE='\"…\"')";

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_a_key_is_redacted() {
        let key = Secret::new(" sk-abcdef123 \n");
        assert_eq!(format!("{key:?}"), "[redacted]");
        let other = Secret::new("sk-abcdef124");
        assert!(key.fingerprint() != other.fingerprint() && key.fingerprint() == key.clone().fingerprint());
        assert_eq!(key.fingerprint().to_string(), "a2448281");
    }

    #[test]
    fn numeric_key_is_rejected_without_being_printed() {
        for json in
            ["918273645546372819", "-5", "1.5", "true", "[\"sk-abcdef123\"]", "{\"k\":\"sk-abcdef123\"}"]
        {
            let refused = serde_json::from_str::<Secret>(json).unwrap_err().to_string();
            assert!(refused.contains("double quotes"), "{refused}");
            assert!(!refused.contains("9182") && !refused.contains("abcdef"), "{refused}");
        }
        assert_eq!(
            serde_json::from_str::<Secret>("\"918273645546372819\"").unwrap(),
            Secret::new("918273645546372819")
        );
    }
}

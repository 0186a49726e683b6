//! The form of API keys and client tokens: a prefix, 256 random bits and a checksum, so that programs which look for
//! leaked secrets know one, and a mistyped one is refused without a look-up.
//!
//! `hou_` (a key) or `houc_` (a client token), 64 hexadecimal digits, and the CRC-32 of everything before as 8 digits.

/// Prefix of keys.
pub const KEY_PREFIX: &str = "hou_";
/// Prefix of client tokens.
pub const TOKEN_PREFIX: &str = "houc_";
/// Maximum length of either. Keys of versions before the checksum are shorter.
pub const MAX_LENGTH: usize = 256;
/// Number of random bytes.
pub const RANDOM_BYTES: usize = 32;

const CHECKSUM_DIGITS: usize = 8;
const DIGITS: usize = 2 * RANDOM_BYTES + CHECKSUM_DIGITS;

/// What the key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKind {
    /// An API key.
    Key,
    /// A client token.
    ClientToken,
}

impl SecretKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Key => KEY_PREFIX,
            Self::ClientToken => TOKEN_PREFIX,
        }
    }

    /// A new secret from random bytes.
    pub fn secret(self, random: [u8; RANDOM_BYTES]) -> String {
        let secret = format!("{}{}", self.prefix(), hex::encode(random));
        let checksum = crc32fast::hash(secret.as_bytes());
        format!("{secret}{checksum:08x}")
    }
}

/// What a text may be a secret of, by its form. A text with the length of a secret and another checksum is none: it was
/// mistyped or cut. Keys of earlier versions have no checksum.
pub fn kind_of(text: &str) -> Option<SecretKind> {
    if text.len() > MAX_LENGTH || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let kinds = [SecretKind::Key, SecretKind::ClientToken];
    let kind = kinds.into_iter().find(|kind| text.starts_with(kind.prefix()))?;
    let digits = &text[kind.prefix().len()..];
    let has_checksum = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !has_checksum {
        return (kind == SecretKind::Key).then_some(kind);
    }
    let (secret, checksum) = text.split_at(text.len() - CHECKSUM_DIGITS);
    let is_whole = u32::from_str_radix(checksum, 16) == Ok(crc32fast::hash(secret.as_bytes()));
    is_whole.then_some(kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_secret_with_one_changed_digit_is_none(random: [u8; RANDOM_BYTES], at in 5usize..76, digit in 0u32..16) {
            for kind in [SecretKind::Key, SecretKind::ClientToken] {
                let secret = kind.secret(random);
                prop_assert_eq!(kind_of(&secret), Some(kind));
                let digit = std::char::from_digit(digit, 16).unwrap();
                let changed: String = secret.chars().enumerate().map(|(nth, old)| if nth == at { digit } else { old }).collect();
                prop_assert_eq!(kind_of(&changed).is_some(), changed == secret, "{}", changed);
            }
        }
    }

    #[test]
    fn only_keys_of_earlier_versions_have_no_checksum() {
        let old = format!("hou_{}", "0f".repeat(32));
        assert_eq!(kind_of(&old), Some(SecretKind::Key));
        for none in ["", "hou", "houc_", "houc_0123", "sk_0123", "hou_ä", "hou_a b", &"hou_x".repeat(60)] {
            assert_eq!(kind_of(none), None, "{none}");
        }
    }
}

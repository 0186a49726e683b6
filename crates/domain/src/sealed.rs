//! Secrets of tenants, sealed: what is stored of them can be read only with a key of the installation, for the tenant and
//! the purpose that it was sealed for.
//!
//! A sealed secret is `version (1 byte) | id of the key (4) | nonce (12) | AES-256-GCM`, with tenant and purpose as associated
//! data: a row copied to another tenant, or to another purpose, cannot be opened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::id::TenantId;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;
/// The format that this version writes.
const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 4;
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_LEN;

/// The keys of an installation: the first seals, all open.
#[derive(Clone)]
pub struct SecretKeys(Arc<[Key]>);

struct Key {
    id: [u8; KEY_ID_BYTES],
    key: LessSafeKey,
}

/// Whose secret it is, and what for.
#[derive(Debug, Clone, Copy)]
pub struct Purpose<'a> {
    /// The tenant.
    pub tenant: TenantId,
    /// `endpoints/crm`: unique among the secrets of the tenant.
    pub what: &'a str,
}

/// Keys that cannot be used. The text contains none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "key {number} is not {KEY_BYTES} bytes in base64; `openssl rand -base64 32` makes one. Several have commas between: \
     the first seals, the others still open what they have sealed"
)]
pub struct InvalidKey {
    /// Its number, from 1.
    pub number: usize,
}

/// Why a secret cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CannotOpen {
    /// It was sealed with another key.
    #[error("it was sealed with a key that is not among those of HOUSTON_SECRETS_KEY")]
    OtherKey,
    /// It was changed, or sealed for another tenant or purpose, or by a newer version.
    #[error("it is damaged, or was sealed for something else")]
    Damaged,
}

impl SecretKeys {
    /// Keys in base64, with commas between.
    ///
    /// # Errors
    /// [`InvalidKey`] for the first that is none.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let key = |(number, text): (usize, &str)| {
            let bytes = STANDARD.decode(text.trim()).map_err(|_| InvalidKey { number })?;
            let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| InvalidKey { number })?;
            let mut id = [0; KEY_ID_BYTES];
            // A hash of a random key says nothing about it.
            id.copy_from_slice(&Sha256::digest(&bytes)[..KEY_ID_BYTES]);
            Ok(Key { id, key: LessSafeKey::new(key) })
        };
        (1..).zip(text.split(',')).map(key).collect::<Result<Vec<_>, _>>().map(|keys| Self(keys.into()))
    }

    /// A key in base64 from random bytes.
    pub fn text_of(random: [u8; KEY_BYTES]) -> String {
        STANDARD.encode(random)
    }

    /// Seals a secret. `nonce` must be random. `None` never happens: a secret is shorter than 64 GiB.
    pub fn seal(&self, purpose: Purpose<'_>, nonce: [u8; NONCE_LEN], secret: &str) -> Option<Vec<u8>> {
        let Key { id, key } = self.0.first()?;
        let mut text = secret.as_bytes().to_vec();
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), purpose.associated(), &mut text)
            .ok()?;
        Some([&[VERSION][..], id, &nonce, &text].concat())
    }

    /// Opens a secret that was sealed for this purpose.
    ///
    /// # Errors
    /// [`CannotOpen`].
    pub fn open(&self, purpose: Purpose<'_>, sealed: &[u8]) -> Result<SecretString, CannotOpen> {
        let (head, text) = sealed.split_at_checked(HEAD_BYTES).ok_or(CannotOpen::Damaged)?;
        let (id, nonce) = head[1..].split_at(KEY_ID_BYTES);
        ensure!(head[0] == VERSION, CannotOpen::Damaged);
        let mut of_id = self.0.iter().filter(|key| key.id == id).peekable();
        ensure!(of_id.peek().is_some(), CannotOpen::OtherKey);
        let open = |key: &Key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut text = text.to_vec();
            let opened = key.key.open_in_place(nonce, purpose.associated(), &mut text).ok()?;
            std::str::from_utf8(opened).ok().map(SecretString::from)
        };
        of_id.find_map(open).ok_or(CannotOpen::Damaged)
    }
}

impl SecretKeys {
    /// Opens secrets that were sealed together for this purpose: an object of them, by name.
    ///
    /// # Errors
    /// [`CannotOpen`].
    pub fn open_named(
        &self,
        purpose: Purpose<'_>,
        sealed: &[u8],
    ) -> Result<BTreeMap<String, SecretString>, CannotOpen> {
        let text = self.open(purpose, sealed)?;
        let named = serde_json::from_str::<BTreeMap<String, String>>(text.expose_secret());
        let named = named.map_err(|_| CannotOpen::Damaged)?;
        Ok(named.into_iter().map(|(name, secret)| (name, SecretString::from(secret))).collect())
    }
}

impl Purpose<'_> {
    fn associated(&self) -> Aad<Vec<u8>> {
        Aad::from([self.tenant.0.as_bytes().as_slice(), self.what.as_bytes()].concat())
    }
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SecretKeys({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    const ONE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const TWO: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    const OF: Purpose<'static> = Purpose { tenant: TenantId(Uuid::nil()), what: "endpoints/crm" };

    fn keys(text: &str) -> SecretKeys {
        SecretKeys::parse(text).unwrap()
    }

    fn open(keys: &SecretKeys, of: Purpose<'_>, sealed: &[u8]) -> Result<String, CannotOpen> {
        keys.open(of, sealed).map(|secret| secret.expose_secret().to_owned())
    }

    #[test]
    fn secret_opens_with_its_key_for_its_tenant_and_purpose_only() {
        let sealed = keys(ONE).seal(OF, [7; NONCE_LEN], "s3cret").unwrap();
        assert!(!sealed.windows(6).any(|bytes| bytes == b"s3cret"));
        assert_eq!(open(&keys(ONE), OF, &sealed), Ok("s3cret".to_owned()));
        assert_eq!(open(&keys(TWO), OF, &sealed), Err(CannotOpen::OtherKey));
        let other = TenantId(Uuid::from_u128(1));
        for of in [Purpose { tenant: other, ..OF }, Purpose { what: "endpoints/erp", ..OF }] {
            assert_eq!(open(&keys(ONE), of, &sealed), Err(CannotOpen::Damaged), "{of:?}");
        }
    }

    #[test]
    fn new_key_seals_and_the_one_before_it_still_opens() {
        let both = keys(&format!("{TWO}, {ONE}"));
        let old = keys(ONE).seal(OF, [1; NONCE_LEN], "old").unwrap();
        let new = both.seal(OF, [2; NONCE_LEN], "new").unwrap();
        assert_eq!(open(&both, OF, &old), Ok("old".to_owned()));
        assert_eq!(open(&keys(TWO), OF, &new), Ok("new".to_owned()));
        assert_eq!(format!("{both:?}"), "SecretKeys(2)");
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_number() {
        for (text, number) in [("", 1), ("c2hvcnQ=", 1), ("nonsense!", 1)] {
            assert_eq!(SecretKeys::parse(text).unwrap_err(), InvalidKey { number }, "{text}");
        }
        let error = SecretKeys::parse(&format!("{ONE},hunter2")).unwrap_err();
        assert!(error.number == 2 && !error.to_string().contains("hunter2"), "{error}");
    }

    proptest! {
        #[test]
        fn changed_bytes_never_open(text in ".{0,40}", at in 0_usize..200, bit in 0_u8..8) {
            let keys = keys(ONE);
            let mut sealed = keys.seal(OF, [9; NONCE_LEN], &text).unwrap();
            prop_assert_eq!(open(&keys, OF, &sealed), Ok(text));
            let at = at % sealed.len();
            sealed[at] ^= 1 << bit;
            prop_assert!(open(&keys, OF, &sealed).is_err());
            prop_assert!(open(&keys, OF, &sealed[..at]).is_err());
        }
    }
}

//! Links that sign in once. They live in the memory of the process that prints them.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::Ids;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

/// How long a link is valid.
const VALID_FOR: TimeDelta = TimeDelta::minutes(10);
/// The most links that wait to be used; a new one takes the place of the oldest.
const MAX_LINKS: usize = 16;

/// The links that have not been used.
#[derive(Default)]
pub(crate) struct Links(Mutex<Vec<Link>>);

struct Link {
    /// The hash of the token: comparing hashes says nothing about tokens by the time it takes.
    hash: [u8; 32],
    key: SecretString,
    expires: DateTime<Utc>,
}

impl Links {
    /// A new token for this key.
    pub(crate) fn make(&self, ids: &Ids, key: &str) -> String {
        let mut random = [0; 32];
        ids.fill(&mut random);
        let token = random.iter().fold(String::new(), |mut token, byte| {
            let _ = write!(token, "{byte:02x}");
            token
        });
        let expires = ids.clock().now() + VALID_FOR;
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if links.len() >= MAX_LINKS {
            links.remove(0);
        }
        links.push(Link { hash: hash(&token), key: SecretString::from(key.to_owned()), expires });
        token
    }

    /// Whether a token signs in.
    pub(crate) fn has(&self, token: &str, now: DateTime<Utc>) -> bool {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = hash(token);
        links.iter().any(|link| link.hash == wanted && link.expires > now)
    }

    /// The key of a token, which is used up by this.
    pub(crate) fn take(&self, token: &str, now: DateTime<Utc>) -> Option<SecretString> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.expires > now);
        let wanted = hash(token);
        let at = links.iter().position(|link| link.hash == wanted)?;
        Some(links.remove(at).key)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use houston_domain::clock::{Clock as _, ManualClock};
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn link_signs_in_once_and_not_later() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let ids = Ids::seeded(Arc::new(clock.clone()), 1);
        let links = Links::default();
        let token = links.make(&ids, "hou_1");
        assert!(links.take("0", clock.now()).is_none());
        assert!(links.has(&token, clock.now()) && !links.has("0", clock.now()));
        assert_eq!(links.take(&token, clock.now()).unwrap().expose_secret(), "hou_1");
        assert!(links.take(&token, clock.now()).is_none(), "it is used up");
        let late = links.make(&ids, "hou_2");
        clock.advance(VALID_FOR);
        assert!(links.take(&late, clock.now()).is_none(), "it has expired");
    }
}

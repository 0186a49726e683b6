//! Sessions: the viewer's key in a cookie, sealed with a key of the installation.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::id::TenantId;
use houston_domain::sealed::Purpose;
use secrecy::{ExposeSecret as _, SecretString};
use uuid::Uuid;

use crate::Console;

const COOKIE: &str = "houston_console";
/// What the cookie is sealed for: a secret of a tenant cannot be opened as one, nor the other way round.
const PURPOSE: &str = "console/session";

impl Console {
    /// A text that only this installation can read, until it ends. `None`: the installation has no key to seal it with.
    pub(crate) fn sealed(&self, what: &'static str, until: DateTime<Utc>, text: &str) -> Option<String> {
        let keys = self.0.keys.as_ref()?;
        let mut nonce = [0; 12];
        self.0.ids.fill(&mut nonce);
        let sealed = keys.seal(purpose(what), nonce, &format!("{} {text}", until.timestamp()))?;
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// A sealed text, if it has not ended.
    pub(crate) fn unsealed(&self, what: &'static str, value: &str) -> Option<String> {
        let sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let opened = self.0.keys.as_ref()?.open(purpose(what), &sealed).ok()?;
        let (until, text) = opened.expose_secret().split_once(' ')?;
        let until: i64 = until.parse().ok()?;
        (self.now().timestamp() < until).then(|| text.to_owned())
    }

    /// When a session that begins now ends.
    pub(crate) fn session_end(&self) -> DateTime<Utc> {
        self.now() + TimeDelta::hours(i64::from(self.0.config.session_hours))
    }

    /// The cookie of a new session with this key. `None`: the installation has no key to seal it with.
    pub(crate) fn session(&self, key: &str, secure: bool) -> Option<HeaderValue> {
        let sealed = self.sealed(PURPOSE, self.session_end(), key)?;
        let max_age = u64::from(self.0.config.session_hours) * 3600;
        cookie(&format!("{COOKIE}={sealed}"), &self.path(""), max_age, ("Strict", secure))
    }

    /// The cookie that ends a session.
    pub(crate) fn no_session(&self) -> Option<HeaderValue> {
        cookie(&format!("{COOKIE}="), &self.path(""), 0, ("Strict", false))
    }

    /// The key of the session that a request belongs to.
    pub(crate) fn key_of(&self, headers: &HeaderMap) -> Option<SecretString> {
        self.unsealed(PURPOSE, cookie_of(headers, COOKIE)?).map(SecretString::from)
    }
}

fn purpose(what: &'static str) -> Purpose<'static> {
    Purpose { tenant: TenantId(Uuid::nil()), what }
}

/// A cookie that scripts do not read. `pair`: `name=value`; `max_age`: seconds that it is kept, with 0 the browser removes it.
pub(crate) fn cookie(
    pair: &str,
    path: &str,
    max_age: u64,
    (same_site, secure): (&str, bool),
) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{pair}; Path={path}; Max-Age={max_age}; HttpOnly; SameSite={same_site}{secure}");
    HeaderValue::from_str(&text).ok()
}

/// The value of a cookie.
pub(crate) fn cookie_of<'h>(headers: &'h HeaderMap, wanted: &str) -> Option<&'h str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// Whether the browser reaches the console over TLS.
pub(crate) fn is_secure(headers: &HeaderMap) -> bool {
    let says = |name: &str, begin: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.starts_with(begin))
    };
    says("origin", "https://") || says("x-forwarded-proto", "https")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use houston_domain::clock::ManualClock;
    use houston_domain::id::Ids;
    use houston_domain::sealed::SecretKeys;

    use super::*;
    use crate::{Config, Oidc};

    pub(crate) fn console(clock: &ManualClock, key: u8) -> Console {
        let config = Config {
            enabled: true,
            path: "/ops".to_owned(),
            address: String::new(),
            session_hours: 2,
            refresh_s: 3,
            badge: String::new(),
            oidc: Oidc::default(),
        };
        let keys = SecretKeys::parse(&SecretKeys::text_of([key; 32])).unwrap();
        Console::new(config, Some(keys), Arc::new(Ids::seeded(Arc::new(clock.clone()), 1)), |_, _| {}, None)
    }

    fn sent_back(cookie: &HeaderValue) -> HeaderMap {
        let pair = cookie.to_str().unwrap().split(';').next().unwrap();
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(&format!("a=b; {pair}")).unwrap())])
    }

    #[test]
    fn session_is_opened_by_every_process_until_it_ends() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let cookie = console(&clock, 1).session("hou_secret", true).unwrap();
        let text = cookie.to_str().unwrap();
        for part in ["Path=/ops;", "Max-Age=7200;", "HttpOnly", "SameSite=Strict", "Secure"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("hou_secret"));
        let other = console(&clock, 1);
        assert_eq!(other.key_of(&sent_back(&cookie)).unwrap().expose_secret(), "hou_secret");
        assert!(console(&clock, 2).key_of(&sent_back(&cookie)).is_none(), "another installation");
        clock.advance(TimeDelta::hours(2));
        assert!(other.key_of(&sent_back(&cookie)).is_none(), "it has ended");
        assert!(other.key_of(&HeaderMap::new()).is_none());
    }
}

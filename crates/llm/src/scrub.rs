//! Removes credentials from everything that is printed or stored: errors, logs, rows and responses; and shortens what providers
//! sent, for the same.
//!
//! A provider or gateway may quote parts of a request. [`Scrubber`] holds every secret of a call, in each encoding in
//! which it is sent, and replaces them all.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use houston_domain::masks::without_keys;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Url;

use crate::secret::{REDACTED, Secret};

/// Shorter texts are not treated as credentials: replacing them would garble messages. In bytes.
const SHORTEST: usize = 4;

/// URL parameters whose values are not secret.
const HARMLESS_PARAMETERS: [&str; 2] = ["api-version", "alt"];

/// What is percent-encoded: all but what RFC 3986 calls unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Replaces the secrets of one provider in texts.
#[derive(Clone, Default)]
pub(crate) struct Scrubber {
    /// Every encoding of every secret, longest first.
    secrets: Vec<Secret>,
}

impl Scrubber {
    /// Creates a scrubber for a key and for the credentials contained in the request URL.
    pub(crate) fn new(key: Option<&Secret>, url: Option<&Url>) -> Self {
        let mut forms: Vec<String> = key.map(|key| forms(key.expose())).unwrap_or_default();
        if let Some(url) = url {
            let (user, password) = (decoded(url.username()), url.password().map(decoded));
            for text in password.iter().chain(password.is_none().then_some(&user)) {
                forms.extend(self::forms(text));
            }
            forms.extend(url.password().map(str::to_owned));
            if !user.is_empty() || password.is_some() {
                // As sent in `authorization: Basic …`.
                forms.extend(base64_forms(&format!("{user}:{}", password.unwrap_or_default())));
            }
            let parameters = url.query_pairs().filter(|(name, _)| !HARMLESS_PARAMETERS.contains(&&**name));
            parameters.for_each(|(_, value)| forms.extend(self::forms(&value)));
        }
        forms.retain(|form| form.len() >= SHORTEST);
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        Self { secrets: forms.iter().map(|form| Secret::new(form)).collect() }
    }

    /// Replaces the secrets of this call, and everything that looks like a key of any provider: a gateway may quote a
    /// key of its own. A secret that was truncated at the end of a shortened text is replaced, too.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter().map(Secret::expose) {
            if text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        if let Some(whole) = text.strip_suffix('…') {
            let cut = self.secrets.iter().filter_map(|secret| cut_off_part(whole, secret.expose())).max();
            if let Some(length) = cut {
                text = format!("{}{REDACTED}…", &whole[..whole.len() - length]);
            }
        }
        without_keys(&text)
    }
}

/// Length of the longest prefix of `secret` that `text` ends with.
fn cut_off_part(text: &str, secret: &str) -> Option<usize> {
    let ends = secret.char_indices().map(|(at, _)| at).filter(|at| *at >= SHORTEST);
    ends.rev().find(|at| text.ends_with(&secret[..*at]))
}

/// The encodings in which a secret may be quoted: plain, base64, percent-encoded.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = base64_forms(secret);
    forms.push(secret.to_owned());
    let upper = utf8_percent_encode(secret, ENCODED).to_string();
    forms.push(upper.to_lowercase());
    forms.push(upper);
    forms
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Both alphabets, without padding, so that a match does not depend on what follows.
fn base64_forms(text: &str) -> Vec<String> {
    vec![URL_SAFE_NO_PAD.encode(text), STANDARD_NO_PAD.encode(text)]
}

/// Redacts an address for display: removes everything before an `@` and the values of all query parameters but the
/// API version. Also works for malformed addresses, so that a typing error does not reveal a password. For example,
/// `https://u:secret@host/v1?key=abc` becomes `https://[redacted]@host/v1?key=[redacted]`.
pub fn redacted_address(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let credentials = rest.rsplit_once('@');
    let (hidden, rest) = credentials.map_or(("", rest), |(_, rest)| ("[redacted]@", rest));
    let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(rest, _)| (rest, "#[redacted]"));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let parameters = query.map(|query| {
        let redacted = query.split('&').map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if !HARMLESS_PARAMETERS.contains(&name) => format!("{name}={REDACTED}"),
            _ => parameter.to_owned(),
        });
        format!("?{}", redacted.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}{separator}{hidden}{path}{}{fragment}", parameters.unwrap_or_default())
}

/// The first `longest` characters of `text`, followed by `…` if there are more.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_of_a_secret_is_replaced() {
        let url =
            Url::parse("http://luser:p%40ss%2Fword@host/v1?api-version=2024-10-21&sig=abc%2Bdef").unwrap();
        let scrubber = Scrubber::new(Some(&Secret::new("918273645546372819")), Some(&url));
        // printf 'luser:p@ss/word' | base64; printf 918273645546372819 | base64
        let quoted = "Basic bHVzZXI6cEBzcy93b3Jk p@ss/word p%40ss%2Fword p%40ss%2fword 918273645546372819 \
                      OTE4MjczNjQ1NTQ2MzcyODE5 abc+def abc%2Bdef luser 2024-10-21";
        let hidden = "[redacted]";
        assert_eq!(
            scrubber.scrub(quoted),
            format!(
                "Basic {hidden} {hidden} {hidden} {hidden} {hidden} {hidden} {hidden} {hidden} luser 2024-10-21"
            )
        );
        assert_eq!(scrubber.scrub("cut off: 91827364…"), "cut off: [redacted]…");
        let token = Url::parse("https://token-of-mine@host/").unwrap();
        assert_eq!(Scrubber::new(None, Some(&token)).scrub("token-of-mine"), "[redacted]");
    }

    #[test]
    fn redacted_address_hides_credentials() {
        for (address, expected) in [
            ("https://api.example/v1", "https://api.example/v1"),
            ("http://u:CANARY@host/v1", "http://[redacted]@host/v1"),
            ("http://u:CANARY@[bad", "http://[redacted]@[bad"),
            ("http://u:CAN/ARY@host", "http://[redacted]@host"),
            ("u:CANARY@host:80", "[redacted]@host:80"),
            (
                "https://h/v1?api-version=1&key=CANARY#CANARY",
                "https://h/v1?api-version=1&key=[redacted]#[redacted]",
            ),
        ] {
            assert_eq!(redacted_address(address), expected);
        }
    }

    #[test]
    fn key_lookalikes_are_redacted() {
        let text =
            "Bearer sk-proj-0123456789abcdefgh failed (key=AIzaSyA0123456789abcdefghij); sk-short; model é";
        assert_eq!(without_keys(text), "Bearer [redacted] failed (key=[redacted]); sk-short; model é");
    }
}

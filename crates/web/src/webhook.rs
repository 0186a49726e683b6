//! Signatures of Standard Webhooks: `webhook-id`, `webhook-timestamp` (seconds since 1970) and `webhook-signature`, a
//! list of `v1,<base64 of HMAC-SHA256>`, one for each secret, over `id.timestamp.body`.
//!
//! Specification: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>. The
//! crate `standardwebhooks` is not used: it signs with one secret, reads the clock by itself, rejects bodies that are not
//! UTF-8, and would add an HMAC and a clock beside those in use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};

/// The name of a message, the same for each attempt to deliver it.
pub const ID: HeaderName = HeaderName::from_static("webhook-id");
/// When the attempt was made, in seconds since 1970.
pub const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
/// The signatures, separated by spaces.
pub const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// How far the timestamp of a message may be from the receiver's clock, in seconds.
pub const TOLERANCE: u64 = 5 * 60;

/// The specification allows secrets of 24 to 64 bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Why a message is not signed, or its signature is not accepted. No text contains a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// A secret is not `whsec_` and base64.
    #[error("a webhook secret is `whsec_` followed by 24 to 64 bytes in base64; this one is not")]
    Secret,
    /// There is no secret.
    #[error("signing needs at least one secret")]
    NoSecret,
    /// The id is empty or contains a dot or a character that a header cannot have.
    #[error("a webhook id has visible ASCII characters without dots")]
    Id,
    /// A header is missing or cannot be read.
    #[error("the header `{0}` is missing or unreadable")]
    Header(&'static str),
    /// The timestamp is too far from now: the message may be a repeated one.
    #[error("the message was signed more than {} minutes before or after now", TOLERANCE / 60)]
    Timestamp,
    /// No signature fits any secret.
    #[error("no signature of the message is right")]
    Signature,
}

/// Signs and verifies messages with one secret, or with several while secrets are exchanged.
pub struct Signer(Vec<hmac::Key>);

impl Signer {
    /// Reads the secrets; the newest comes first. All sign; a message is accepted if one fits.
    ///
    /// # Errors
    /// [`WebhookError::Secret`] and [`WebhookError::NoSecret`].
    pub fn new<'s>(secrets: impl IntoIterator<Item = &'s SecretString>) -> Result<Self, WebhookError> {
        let keys = secrets.into_iter().map(key).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(WebhookError::NoSecret) } else { Ok(Self(keys)) }
    }

    /// The three headers of a message. `timestamp` is the time of this attempt, in seconds since 1970.
    ///
    /// # Errors
    /// [`WebhookError::Id`].
    pub fn headers(&self, id: &str, timestamp: u64, body: &[u8]) -> Result<HeaderMap, WebhookError> {
        if id.is_empty() || id.contains('.') || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(WebhookError::Id);
        }
        let signatures: Vec<String> = self
            .0
            .iter()
            .map(|key| format!("v1,{}", STANDARD.encode(hmac::sign(key, &signed(id, timestamp, body)))))
            .collect();
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| WebhookError::Id);
        Ok(HeaderMap::from_iter([
            (ID, value(id)?),
            (TIMESTAMP, HeaderValue::from(timestamp)),
            (SIGNATURE, value(&signatures.join(" "))?),
        ]))
    }

    /// Verifies a message at the time `now`, in seconds since 1970. The receiver must reject ids that it has received.
    ///
    /// # Errors
    /// [`WebhookError::Header`], [`WebhookError::Timestamp`], [`WebhookError::Signature`].
    pub fn verify(&self, headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), WebhookError> {
        let id = header(headers, &ID, "webhook-id")?;
        let timestamp = header(headers, &TIMESTAMP, "webhook-timestamp")?;
        let timestamp: u64 = timestamp.parse().map_err(|_| WebhookError::Header("webhook-timestamp"))?;
        if now.abs_diff(timestamp) > TOLERANCE {
            return Err(WebhookError::Timestamp);
        }
        let message = signed(id, timestamp, body);
        let signatures = header(headers, &SIGNATURE, "webhook-signature")?.split(' ');
        let fits = signatures
            .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
            // `hmac::verify` compares in constant time.
            .any(|signature| self.0.iter().any(|key| hmac::verify(key, &message, &signature).is_ok()));
        if fits { Ok(()) } else { Err(WebhookError::Signature) }
    }
}

/// A new secret of these random bytes, as receivers and senders read it: `whsec_` and base64.
pub fn new_secret(random: [u8; 32]) -> String {
    format!("whsec_{}", STANDARD.encode(random))
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer with {} secrets", self.0.len())
    }
}

fn key(secret: &SecretString) -> Result<hmac::Key, WebhookError> {
    let text = secret.expose_secret().trim();
    let bytes =
        STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).map_err(|_| WebhookError::Secret)?;
    if !SECRET_BYTES.contains(&bytes.len()) {
        return Err(WebhookError::Secret);
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn signed(id: &str, timestamp: u64, body: &[u8]) -> Vec<u8> {
    [format!("{id}.{timestamp}.").as_bytes(), body].concat()
}

fn header<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
    text: &'static str,
) -> Result<&'h str, WebhookError> {
    headers.get(name).and_then(|value| value.to_str().ok()).ok_or(WebhookError::Header(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::SecretString;

    use super::{HeaderMap, SIGNATURE, Signer, TIMESTAMP, WebhookError};

    const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn signer(secrets: &[&str]) -> Signer {
        let secrets: Vec<_> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
        Signer::new(&secrets).unwrap()
    }

    fn signature(headers: &HeaderMap) -> &str {
        headers[SIGNATURE].to_str().unwrap()
    }

    /// From the tests of the reference libraries (Rust, Ruby) of the specification.
    #[test]
    fn vectors_of_the_specification_are_signed_alike() {
        for (secret, id, timestamp, body, expected) in [
            (
                OLD,
                "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
                1_649_367_553,
                r#"{"email":"test@example.com","username":"test_user"}"#,
                "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
            ),
            (
                NEW,
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                1_614_265_330,
                r#"{"test": 2432232314}"#,
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            ),
        ] {
            for secret in [secret, secret.trim_start_matches("whsec_")] {
                let headers = signer(&[secret]).headers(id, timestamp, body.as_bytes()).unwrap();
                assert_eq!(signature(&headers), expected);
                assert_eq!(headers["webhook-id"], id);
                assert_eq!(headers["webhook-timestamp"], timestamp.to_string());
                assert_eq!(signer(&[secret]).verify(&headers, body.as_bytes(), timestamp), Ok(()));
            }
        }
    }

    #[test]
    fn both_secrets_sign_while_they_are_exchanged() {
        let headers = signer(&[NEW, OLD]).headers("msg_1", 1000, b"body").unwrap();
        assert_eq!(signature(&headers).split(' ').count(), 2);
        for receiver in [signer(&[OLD]), signer(&[NEW]), signer(&[OLD, NEW])] {
            assert_eq!(receiver.verify(&headers, b"body", 1000), Ok(()));
        }
        let headers = signer(&[OLD]).headers("msg_1", 1000, b"body").unwrap();
        assert_eq!(signer(&[NEW, OLD]).verify(&headers, b"body", 1000), Ok(()));
        assert_eq!(signer(&[NEW]).verify(&headers, b"body", 1000), Err(WebhookError::Signature));
    }

    #[test]
    fn old_and_future_messages_are_rejected() {
        let headers = signer(&[OLD]).headers("msg_1", 10_000, b"").unwrap();
        for now in [9_700, 10_000, 10_300] {
            assert_eq!(signer(&[OLD]).verify(&headers, b"", now), Ok(()));
        }
        for now in [0, 9_699, 10_301] {
            assert_eq!(signer(&[OLD]).verify(&headers, b"", now), Err(WebhookError::Timestamp));
        }
    }

    #[test]
    fn partial_and_other_signatures_are_rejected() {
        let signer = signer(&[OLD]);
        let headers = signer.headers("msg_1", 1000, b"body").unwrap();
        let right = signature(&headers).to_owned();
        let v1a = right.replace("v1,", "v1a,");
        for wrong in ["", "v1,", "v1", &right[..8], &right[3..], &v1a, &format!("{right}x")] {
            let mut headers = headers.clone();
            headers.insert(SIGNATURE, wrong.parse().unwrap());
            assert_eq!(signer.verify(&headers, b"body", 1000), Err(WebhookError::Signature), "{wrong}");
        }
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            let mut headers = headers.clone();
            headers.remove(name);
            assert_eq!(signer.verify(&headers, b"body", 1000), Err(WebhookError::Header(name)));
        }
        let mut headers = headers;
        headers.insert(TIMESTAMP, "yesterday".parse().unwrap());
        assert_eq!(signer.verify(&headers, b"body", 1000), Err(WebhookError::Header("webhook-timestamp")));
    }

    #[test]
    fn wrong_secrets_are_refused_without_being_printed() {
        for secret in ["", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64 at all!", &"A".repeat(100)] {
            let error = Signer::new([&SecretString::from(secret)]).unwrap_err();
            assert_eq!(error, WebhookError::Secret);
        }
        assert_eq!(Signer::new([]).unwrap_err(), WebhookError::NoSecret);
        assert_eq!(format!("{:?}", signer(&[OLD])), "Signer with 1 secrets");
        for id in ["", "a.b", "a b", "ä", "a\nb"] {
            assert_eq!(signer(&[OLD]).headers(id, 1, b"").unwrap_err(), WebhookError::Id);
        }
    }

    proptest! {
        #[test]
        fn a_changed_message_is_rejected(body: Vec<u8>, at: usize, bit in 0_u8..8) {
            let signer = signer(&[OLD]);
            let headers = signer.headers("msg_1", 1000, &body).unwrap();
            prop_assert_eq!(signer.verify(&headers, &body, 1000), Ok(()));
            let mut changed = body.clone();
            if body.is_empty() {
                changed.push(at.to_le_bytes()[0]);
            } else {
                changed[at % body.len()] ^= 1 << bit;
            }
            prop_assert_eq!(signer.verify(&headers, &changed, 1000), Err(WebhookError::Signature));
        }
    }
}

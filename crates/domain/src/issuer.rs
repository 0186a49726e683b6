//! Issuers of JWTs: the programs with which the users of a tenant sign in. A tenant trusts one for an audience.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Maximum length in bytes of the name of an issuer, an audience, a claim, and of the user it names.
pub const MAX_NAME_BYTES: usize = 255;
/// Maximum length of the URL of its keys.
const MAX_URL_BYTES: usize = 2_000;
/// URLs without TLS are taken only where the answer cannot be changed on its way.
const LOOPBACK: [&str; 3] = ["http://127.0.0.1", "http://localhost", "http://[::1]"];

/// Whose JWTs are accepted, and how they name the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issuer {
    /// The claim `iss` of its tokens, as in `https://login.example.com/`.
    pub issuer: String,
    /// Where its public keys are: a JSON Web Key Set.
    pub jwks_url: String,
    /// One of the tokens' claim `aud`.
    pub audience: String,
    /// The claim with the external id of the user, as in `sub`.
    pub user_claim: String,
}

impl Issuer {
    /// Checks the settings of an issuer. The error names the wrong one.
    pub fn check(&self) -> Result<(), String> {
        let names =
            [("issuer", &self.issuer), ("audience", &self.audience), ("user_claim", &self.user_claim)];
        if let Some((name, _)) = names.into_iter().find(|(_, value)| !is_name(value)) {
            return Err(format!(
                "`{name}` must have 1 to {MAX_NAME_BYTES} printable ASCII characters without spaces"
            ));
        }
        let is_loopback = LOOPBACK.iter().any(|host| {
            let rest = self.jwks_url.strip_prefix(host);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        });
        let is_protected = self.jwks_url.starts_with("https://") || is_loopback;
        if is_protected && self.jwks_url.len() <= MAX_URL_BYTES {
            return Ok(());
        }
        Err(format!(
            "`jwks_url` must begin with `https://` (`http://` is allowed for 127.0.0.1, [::1] and localhost), and have at most {MAX_URL_BYTES} bytes"
        ))
    }

    /// What its key begins with in the table of keys, to find it by.
    pub fn prefix(issuer: &str) -> String {
        format!("jwt_{}", hex::encode(&Sha256::digest(issuer)[..4]))
    }

    /// What it is cached under. No secret that a client can send has this hash.
    pub fn hash(issuer: &str, audience: &str) -> [u8; 32] {
        // Header values have no line breaks, and neither have names.
        Sha256::digest(format!("issuer\n{issuer}\n{audience}").as_bytes()).into()
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_urls_are_checked() {
        let issuer = |issuer: &str, url: &str| Issuer {
            issuer: issuer.to_owned(),
            jwks_url: url.to_owned(),
            audience: "houston".to_owned(),
            user_claim: "sub".to_owned(),
        };
        for url in ["https://a.example/keys", "http://127.0.0.1:81/keys", "http://localhost/keys"] {
            assert_eq!(issuer("https://a.example/", url).check(), Ok(()), "{url}");
        }
        for url in ["http://a.example/keys", "http://127.0.0.1.a.example/keys", "ftp://a.example", ""] {
            let error = issuer("https://a.example/", url).check().unwrap_err();
            assert!(error.starts_with("`jwks_url` must begin"), "{url}");
        }
        for name in ["", "a b", "a\nb", &"a".repeat(256)] {
            let error = issuer(name, "https://a.example").check().unwrap_err();
            assert!(error.starts_with("`issuer` must have 1 to 255"), "{error}");
        }
        assert_eq!(Issuer::prefix("https://a.example/").len(), 12);
    }
}

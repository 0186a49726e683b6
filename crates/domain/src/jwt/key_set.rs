//! The public keys of an issuer: a JSON Web Key Set (RFC 7517).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Bytes of a coordinate of P-256, and of a key of Ed25519.
const COORDINATE_BYTES: usize = 32;
/// A point that is not compressed begins with this byte (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// How a token is signed. Each needs a private key that only the issuer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with SHA-256, PKCS #1 1.5; keys of 2048 bits and more.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// The algorithm with this name; `None` for all that are not accepted.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A public key, for one algorithm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    id: Option<String>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The keys of an issuer that can be used here; others are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet(Vec<PublicKey>);

#[derive(Deserialize)]
struct Keys {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a key set. The error says what one is; a key that cannot be used is no error.
    pub fn parse(json: &[u8]) -> Result<Self, &'static str> {
        let none = r#"it is no JSON Web Key Set, as in `{"keys": [{"kty": "RSA", …}]}`"#;
        let Keys { keys } = serde_json::from_slice(json).map_err(|_| none)?;
        let keys = keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        Ok(Self(keys.filter_map(PublicKey::of).collect()))
    }

    /// The key for this algorithm with this id; without an id, the only key for the algorithm.
    pub fn find(&self, (algorithm, id): (Algorithm, Option<&str>)) -> Option<&PublicKey> {
        let mut fitting = self.0.iter().filter(|key| key.algorithm() == algorithm);
        match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)),
            None => fitting.next().filter(|_| fitting.next().is_none()),
        }
    }
}

impl PublicKey {
    fn of(jwk: Jwk) -> Option<Self> {
        let is_for_signatures = jwk.usage.as_deref().is_none_or(|usage| usage == "sig");
        let verifies = jwk.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: number(jwk.n.as_deref()?)?, e: number(jwk.e.as_deref()?)? },
            ("EC", Some("P-256")) => {
                let (x, y) = (coordinate(jwk.x.as_deref()?)?, coordinate(jwk.y.as_deref()?)?);
                Material::P256([vec![UNCOMPRESSED], x, y].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(jwk.x.as_deref()?)?),
            _ => return None,
        };
        let key = Self { id: jwk.kid, material };
        let has_algorithm = jwk.alg.is_none_or(|name| Algorithm::of_name(&name) == Some(key.algorithm()));
        (is_for_signatures && verifies && has_algorithm).then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether `signature` is that of `signed` by `algorithm` with the private key of this one.
    pub(super) fn verifies(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match (algorithm, &self.material) {
            (Algorithm::Rs256, Material::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
            (Algorithm::Es256, Material::P256(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            (Algorithm::EdDsa, Material::Ed25519(key)) => {
                UnparsedPublicKey::new(&ED25519, key).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

/// A number in Base64url, without leading zeros.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let first = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[first..].to_vec())
}

fn coordinate(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == COORDINATE_BYTES)
}

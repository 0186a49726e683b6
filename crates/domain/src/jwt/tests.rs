use chrono::TimeDelta;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::json;

use super::key_set::KeySet;
use super::*;

const NOW_S: i64 = 1_800_000_000;

fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(NOW_S, 0).unwrap()
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn header() -> Value {
    json!({"alg": "EdDSA", "kid": "ed", "typ": "JWT"})
}

fn claims() -> Value {
    json!({"iss": "https://login.example/", "aud": "houston", "sub": "ada", "exp": NOW_S + 60})
}

fn ed25519() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

fn signed(header: &Value, claims: &Value) -> String {
    let text = format!("{}.{}", part(header), part(claims));
    let signature = ed25519().sign(text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn ed25519_set(more: Value) -> KeySet {
    let mut key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": URL_SAFE_NO_PAD.encode(ed25519().public_key())});
    key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    KeySet::parse(json!({"keys": [{"kty": "new"}, "x", key]}).to_string().as_bytes()).unwrap()
}

fn accept<'t>(token: &'t str, keys: &KeySet) -> Result<Verified, JwtError> {
    let unverified = Unverified::<'t>::parse(token, now())?;
    let key = keys.find(unverified.key()).ok_or(JwtError::UnknownKey)?;
    unverified.verify(key)
}

fn refused(header: &Value, claims: &Value) -> JwtError {
    accept(&signed(header, claims), &ed25519_set(json!({}))).unwrap_err()
}

fn with(mut value: Value, name: &str, field: Value) -> Value {
    value[name] = field;
    value
}

#[test]
fn signed_token_names_its_user_until_it_expires() {
    let token = signed(&header(), &claims());
    assert!(has_form(&token));
    let verified = accept(&token, &ed25519_set(json!({}))).unwrap();
    assert_eq!(verified.user("sub"), Ok("ada"));
    assert_eq!(verified.expires_at, now() + TimeDelta::seconds(60));
    assert!(matches!(verified.user("email"), Err(JwtError::Claim { name, .. }) if name == "email"));
    assert_eq!(Unverified::parse(&token, now() + TimeDelta::seconds(60)).unwrap_err(), JwtError::Expired);
}

#[test]
fn odd_names_of_users_are_no_names() {
    let long = "a".repeat(256);
    for odd in ["", " ", "\t", "a\0", "a\nb", "\u{7f}a", "a\u{85}", long.as_str()] {
        let token = signed(&header(), &with(claims(), "sub", json!(odd)));
        let user = accept(&token, &ed25519_set(json!({}))).unwrap();
        assert!(matches!(user.user("sub"), Err(JwtError::Claim { name, .. }) if name == "sub"), "{odd:?}");
    }
    let token = signed(&header(), &with(claims(), "sub", json!("Ada Lovelace|\u{e9}")));
    assert_eq!(accept(&token, &ed25519_set(json!({}))).unwrap().user("sub"), Ok("Ada Lovelace|\u{e9}"));
}

#[test]
fn headers_that_ask_for_other_keys_or_algorithms_are_refused() {
    for alg in ["none", "None", "HS256", "RS512", "PS256", "ES384", "EdDSA ", ""] {
        assert_eq!(refused(&with(header(), "alg", json!(alg)), &claims()), JwtError::Algorithm, "{alg}");
    }
    for name in REFUSED {
        let header = with(header(), name, json!(["https://evil.example/"]));
        assert_eq!(refused(&header, &claims()), JwtError::Parameter(name));
    }
    for alg in ["RS256", "ES256"] {
        assert_eq!(refused(&with(header(), "alg", json!(alg)), &claims()), JwtError::UnknownKey, "{alg}");
    }
    for kid in [json!("../../dev/null"), json!("ed' or 1=1"), json!(""), json!(null), json!(["ed"])] {
        assert_eq!(refused(&with(header(), "kid", kid), &claims()), JwtError::UnknownKey);
    }
    assert_eq!(refused(&with(header(), "typ", json!("logout+jwt")), &claims()), JwtError::Type);
}

#[test]
fn claims_are_checked() {
    for (name, value) in [
        ("exp", json!(null)),
        ("exp", json!("2000000000")),
        ("nbf", json!("soon")),
        ("iss", json!(7)),
        ("aud", json!([])),
        ("aud", json!(["houston", 7])),
        ("aud", json!(vec!["a"; 9])),
    ] {
        let error = refused(&header(), &with(claims(), name, value.clone()));
        assert!(
            matches!(&error, JwtError::Claim { name: wrong, .. } if wrong == name),
            "{name} {value}: {error}"
        );
    }
    for exp in [json!(NOW_S), json!(-1), json!(-1e300), json!(0)] {
        assert_eq!(refused(&header(), &with(claims(), "exp", exp)), JwtError::Expired);
    }
    assert_eq!(refused(&header(), &with(claims(), "nbf", json!(NOW_S + 61))), JwtError::NotYet);
    for (name, value) in [("nbf", json!(NOW_S + 60)), ("exp", json!(1e300)), ("aud", json!(["a", "houston"]))]
    {
        accept(&signed(&header(), &with(claims(), name, value)), &ed25519_set(json!({}))).unwrap();
    }
    let long = with(claims(), "more", json!("a".repeat(MAX_BYTES)));
    assert_eq!(refused(&header(), &long), JwtError::TooLong);
}

#[test]
fn keys_for_something_else_are_not_used() {
    let token = signed(&header(), &claims());
    for more in
        [json!({"use": "enc"}), json!({"alg": "ES256"}), json!({"key_ops": ["sign"]}), json!({"kty": "EC"})]
    {
        assert_eq!(accept(&token, &ed25519_set(more)).unwrap_err(), JwtError::UnknownKey);
    }
    accept(&token, &ed25519_set(json!({"use": "sig", "alg": "EdDSA", "key_ops": ["verify"]}))).unwrap();
    let mut no_id = header();
    no_id.as_object_mut().unwrap().remove("kid");
    let token = signed(&no_id, &claims());
    accept(&token, &ed25519_set(json!({}))).unwrap();
    let other = json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode([1; 32])});
    let two = KeySet::parse(json!({"keys": [other, other]}).to_string().as_bytes()).unwrap();
    assert_eq!(accept(&token, &two).unwrap_err(), JwtError::UnknownKey, "which of the two?");
    for none in ["", "[]", "{}", "{\"keys\": 1}", "<html>"] {
        assert!(KeySet::parse(none.as_bytes()).is_err(), "{none}");
    }
}

#[test]
fn ecdsa_signature_is_verified() {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
    let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "ec", "x": x, "y": y}]});
    let set = KeySet::parse(set.to_string().as_bytes()).unwrap();
    let text = format!("{}.{}", part(&json!({"alg": "ES256", "kid": "ec"})), part(&claims()));
    let signature = pair.sign(&random, text.as_bytes()).unwrap();
    let token = |signature: &[u8]| format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature));
    accept(&token(signature.as_ref()), &set).unwrap();
    assert_eq!(accept(&token(&[0; 64]), &set).unwrap_err(), JwtError::Signature, "the signature of zeros");
}

#[test]
fn scopes_of_the_token_narrow_and_never_widen() {
    let narrowed = |scope: Value, all: &[&str]| {
        let token = signed(&header(), &with(claims(), "scope", scope));
        accept(&token, &ed25519_set(json!({})))
            .unwrap()
            .narrow(Scopes::of_names(all.iter().copied()))
            .to_string()
    };
    let both = ["read", "post"];
    assert_eq!(narrowed(json!("openid read"), &both), "read");
    assert_eq!(narrowed(json!(["read", "openid"]), &both), "read");
    for nothing in
        [json!("openid profile"), json!(""), json!("  "), json!("READ"), json!([]), json!(7), json!(true)]
    {
        assert_eq!(narrowed(nothing.clone(), &both), "", "{nothing}");
    }
    let absent = signed(&header(), &claims());
    let all = Scopes::of_names(both);
    assert_eq!(accept(&absent, &ed25519_set(json!({}))).unwrap().narrow(all), all);
    assert_eq!(narrowed(json!("read post admin"), &["read"]), "read");
    assert_eq!(narrowed(json!("post"), &["read"]), "");
}

proptest! {
    #[test]
    fn a_token_with_one_changed_character_is_refused(at in 0usize..1000, to in "[A-Za-z0-9_.-]") {
        let token = signed(&header(), &claims());
        let at = at % token.len();
        let changed = format!("{}{to}{}", &token[..at], &token[at + 1..]);
        let accepted = accept(&changed, &ed25519_set(json!({}))).is_ok();
        prop_assert_eq!(accepted, changed == token, "{}", changed);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}", header in "\\PC{0,40}", payload in "\\PC{0,80}") {
        let token = format!("{}.{}.", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
        for text in [text, token] {
            prop_assert!(Unverified::parse(&text, now()).is_err());
            prop_assert!(KeySet::parse(text.as_bytes()).is_err());
        }
    }
}

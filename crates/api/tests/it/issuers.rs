//! JWTs of an issuer that the tenant trusts: which are accepted, which are not, and when they stop being valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use houston_domain::id::{ApiKeyId, TenantId};
use houston_domain::issuer::Issuer;
use houston_domain::scope::{Scope, Scopes};
use houston_store::api_key::NewApiKey;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::http::{Answer, End, Stream};
use crate::test_api::{TestApi, bearer, make_tenant};

pub(crate) const NAME: &str = "https://login.example.com/";
pub(crate) const AUDIENCE: &str = "houston";
/// Made for these tests, and used for nothing else.
const RSA_KEY: &[u8] = include_bytes!("issuer_rsa_key.der");
pub(crate) const FOREVER_S: i64 = 3_600;

/// The private keys of an issuer, one for each algorithm.
pub(crate) struct Keys {
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
    random: SystemRandom,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self {
            rsa: RsaKeyPair::from_der(RSA_KEY).unwrap(),
            ec: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap(),
            ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap(),
            random,
        }
    }

    fn set(&self) -> Value {
        let rsa: ring::rsa::PublicKeyComponents<Vec<u8>> = self.rsa.public().into();
        let point = self.ec.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [
            {"kty": "RSA", "kid": "RS256", "alg": "RS256", "use": "sig", "n": text(&rsa.n), "e": text(&rsa.e)},
            {"kty": "EC", "kid": "ES256", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])},
            {"kty": "OKP", "kid": "EdDSA", "crv": "Ed25519", "x": text(self.ed.public_key().as_ref())},
        ]})
    }

    /// The signature of the algorithm, whatever the token says.
    fn sign(&self, algorithm: &str, text: &[u8]) -> Vec<u8> {
        match algorithm {
            "RS256" => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &self.random, text, &mut signature).unwrap();
                signature
            }
            "ES256" => self.ec.sign(&self.random, text).unwrap().as_ref().to_vec(),
            "EdDSA" => self.ed.sign(text).as_ref().to_vec(),
            // The public keys, which everybody knows, as the secret of an HMAC.
            "HS256" => {
                let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.rsa.public().as_ref());
                ring::hmac::sign(&secret, text).as_ref().to_vec()
            }
            _ => Vec::new(),
        }
    }

    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let signature = self.sign(header["alg"].as_str().unwrap(), text.as_bytes());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

pub(crate) fn header(algorithm: &str) -> Value {
    json!({"alg": algorithm, "kid": algorithm, "typ": "JWT"})
}

pub(crate) fn claims(api: &TestApi, lives_s: i64) -> Value {
    let exp = api.state.ids.clock().now().timestamp() + lives_s;
    json!({"iss": NAME, "aud": AUDIENCE, "sub": "ada", "exp": exp})
}

fn with(mut value: Value, name: &str, field: Value) -> Value {
    value[name] = field;
    value
}

/// The server with the public keys; it stops when it is dropped.
pub(crate) struct KeyServer {
    pub(crate) url: String,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl KeyServer {
    pub(crate) async fn start(keys: &Keys) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (body, requests) = (keys.set().to_string(), Arc::new(AtomicUsize::new(0)));
        let answer = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (mut tasks, counted) = (JoinSet::new(), Arc::clone(&requests));
        tasks.spawn(async move {
            loop {
                let (mut connection, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = connection.read(&mut [0; 4096]).await;
                let _ = connection.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, requests, _tasks: tasks }
    }
}

pub(crate) async fn trust(api: &TestApi, tenant: TenantId, issuer: &str, url: &str) -> ApiKeyId {
    let issuer = Issuer {
        issuer: issuer.to_owned(),
        jwks_url: url.to_owned(),
        audience: AUDIENCE.to_owned(),
        user_claim: "sub".to_owned(),
    };
    let id: ApiKeyId = api.state.ids.next();
    let secret = format!("hou_of_none_{}", id.0);
    let new = NewApiKey {
        id,
        name: "login",
        key: &secret,
        scopes: [Scope::Read, Scope::Post].into_iter().collect::<Scopes>(),
        user: None,
        expires_at: None,
        issuer: Some(&issuer),
    };
    api.store.operator().create_api_key(tenant, &new).await.unwrap();
    id
}

/// Gives the user of `api` the external id that the tokens name.
pub(crate) async fn name_user(api: &TestApi) {
    api.send("PATCH", &format!("/v1/users/{}", api.user), json!({"external_id": "ada"})).await.ok();
}

async fn get(api: &TestApi, token: &str, path: &str) -> Answer {
    api.send_as(token, "GET", path, json!(null)).await
}

#[tokio::test]
async fn token_reaches_what_its_user_owns_without_asking_the_issuer() {
    let api = TestApi::start().await;
    name_user(&api).await;
    let keys = Keys::new();
    let server = KeyServer::start(&keys).await;
    let issuer = trust(&api, api.tenant, NAME, &server.url).await;
    let bob = api.post("/v1/users", json!({"external_id": "bob", "name": "Bob"})).await.ok();
    let of_bob = api.post("/v1/goals", json!({"user_id": bob["id"], "title": "Theirs"})).await.ok();
    let of_bob = format!("/v1/goals/{}", of_bob["id"].as_str().unwrap());
    let message = json!({"content": "hello"});

    let token = keys.token(&header("RS256"), &claims(&api, FOREVER_S));
    get(&api, &token, &api.path("")).await.ok();
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
    drop(server);
    for algorithm in ["ES256", "EdDSA", "RS256"] {
        let token =
            keys.token(&header(algorithm), &with(claims(&api, FOREVER_S), "aud", json!(["x", AUDIENCE])));
        get(&api, &token, &api.path("")).await.ok();
        let posted = api.send_as(&token, "POST", &api.path("/messages"), message.clone()).await;
        assert_eq!(posted.status, 202, "{algorithm}: {}", posted.text());
        get(&api, &token, &of_bob).await.refused(404, "not_found");
        get(&api, &token, "/v1/agents").await.refused(403, "forbidden");
        let another = json!({"user_id": api.user});
        api.send_as(&token, "POST", "/v1/client-tokens", another).await.refused(403, "forbidden");
        let in_query = api.path(&format!("/events?after=0&access_token={token}"));
        api.get_with(&in_query, &[]).await.refused(401, "unauthorized");
    }
    let reads = keys.token(&header("EdDSA"), &with(claims(&api, FOREVER_S), "scope", json!("openid read")));
    get(&api, &reads, &api.path("")).await.ok();
    api.send_as(&reads, "POST", &api.path("/messages"), message).await.refused(403, "forbidden");
    let listed = api.store.operator().list_api_keys().await.unwrap();
    assert!(listed.iter().any(|key| key.id == issuer && key.last_used_at.is_some()), "{listed:?}");
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let api = TestApi::start().await;
    name_user(&api).await;
    let (keys, others) = (Keys::new(), Keys::new());
    let (server, other_server) = (KeyServer::start(&keys).await, KeyServer::start(&others).await);
    trust(&api, api.tenant, NAME, &server.url).await;
    let other = make_tenant(&api.store, &api.state.ids, "other", "hou_other_0123456789").await;
    const OTHER: &str = "https://login.other.example/";
    trust(&api, other, OTHER, &other_server.url).await;
    let valid = || claims(&api, FOREVER_S);
    let now = api.state.ids.clock().now().timestamp();
    let ed = header("EdDSA");
    let token = |header: &Value, claims: &Value| keys.token(header, claims);
    let whole = token(&ed, &valid());
    let (signed, signature) = whole.rsplit_once('.').unwrap();
    let evil = URL_SAFE_NO_PAD.encode(with(valid(), "sub", json!("bob")).to_string());
    let tampered = format!("{}.{evil}.{signature}", signed.split('.').next().unwrap());
    let by_kid = |alg: &str, kid: Value| token(&with(header(alg), "kid", kid), &valid());
    let embedded = with(ed.clone(), "jwk", others.set()["keys"][2].clone());
    let refused = [
        ("`alg`", token(&header("none"), &valid())),
        (
            "`alg`",
            format!("{signed}.").replacen(
                signed.split('.').next().unwrap(),
                &URL_SAFE_NO_PAD.encode("{\"alg\":\"none\"}"),
                1,
            ),
        ),
        ("`alg`", by_kid("HS256", json!("RS256"))),
        ("no key with its `kid`", by_kid("EdDSA", json!("RS256"))),
        ("no key with its `kid`", by_kid("EdDSA", json!("../../dev/null"))),
        ("no key with its `kid`", by_kid("EdDSA", json!("x' union select 'k"))),
        ("`jwk`", others.token(&embedded, &valid())),
        ("`jku`", others.token(&with(ed.clone(), "jku", json!(other_server.url)), &valid())),
        ("signature", others.token(&ed, &valid())),
        ("signature", tampered),
        ("signature", format!("{signed}.")),
        ("expired", token(&ed, &claims(&api, -1))),
        ("not valid yet", token(&ed, &with(valid(), "nbf", json!(now + 3_000)))),
        ("`exp`", token(&ed, &with(valid(), "exp", json!(null)))),
        ("`aud`", token(&ed, &with(valid(), "aud", json!("billing")))),
        ("`iss`", token(&ed, &with(valid(), "iss", json!("https://evil.example/")))),
        ("signature", token(&ed, &with(valid(), "iss", json!(OTHER)))),
        ("does not exist", others.token(&ed, &with(valid(), "iss", json!(OTHER)))),
        ("does not exist", token(&ed, &with(valid(), "sub", json!("eve")))),
        ("does not exist", token(&ed, &with(valid(), "sub", json!(api.user)))),
        ("`sub`", token(&ed, &with(valid(), "sub", json!(null)))),
        ("`sub`", token(&ed, &with(valid(), "sub", json!("ada\0")))),
        ("`sub`", token(&ed, &with(valid(), "sub", json!("")))),
        ("`sub`", token(&ed, &with(valid(), "sub", json!("a".repeat(256))))),
        ("8192 bytes", token(&ed, &with(valid(), "more", json!("a".repeat(8_192))))),
    ];
    for (says, token) in &refused {
        let answer = get(&api, token, &api.path("")).await;
        let problem = answer.refused(401, "unauthorized");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{says}: {problem}");
        assert_eq!(answer.header("www-authenticate"), "Bearer error=\"invalid_token\"");
    }
    get(&api, &whole, &api.path("")).await.ok();
}

#[tokio::test]
async fn tokens_of_unknown_issuers_count_as_wrong_keys() {
    let api = TestApi::start_with(|config| {
        config.clients.proxies.clear();
        config.clients.wrong_keys_per_minute = 3;
    })
    .await;
    let keys = Keys::new();
    let token = |nth: i64| {
        let claims = claims(&api, FOREVER_S);
        keys.token(&header("EdDSA"), &with(claims, "iss", json!(format!("https://{nth}.example/"))))
    };
    for nth in 0..3 {
        get(&api, &token(nth), &api.path("")).await.refused(401, "unauthorized");
    }
    get(&api, &token(3), &api.path("")).await.refused(429, "too_many_keys");
    api.get(&api.path("")).await.ok();
}

#[tokio::test]
async fn streams_and_requests_end_with_the_token_and_with_its_issuer() {
    let api = TestApi::start_with(|config| config.key_cache_s = 1).await;
    name_user(&api).await;
    let keys = Keys::new();
    let server = KeyServer::start(&keys).await;
    let issuer = trust(&api, api.tenant, NAME, &server.url).await;
    let path = api.path("/events?follow=true");
    let open = async |token: &str| {
        let key = bearer(token);
        Stream::open(api.address, &path, &[("authorization", &key)]).await.unwrap()
    };
    let long = keys.token(&header("ES256"), &claims(&api, FOREVER_S));
    let mut of_long = open(&long).await;
    // On a slow machine a token may expire before its stream is open.
    let mut lives_s = 3;
    let (short, mut of_short) = loop {
        let token = keys.token(&header("ES256"), &claims(&api, lives_s));
        let stream = open(&token).await;
        if stream.status == 200 {
            break (token, stream);
        }
        lives_s *= 2;
    };
    assert_eq!(of_short.rest().await.1, End::Aborted);
    let problem = get(&api, &short, &api.path("")).await.refused(401, "unauthorized");
    assert!(problem["detail"].as_str().unwrap().contains("expired"), "{problem}");
    api.post_message("hello").await;
    of_long.until("houston.message.posted").await;
    get(&api, &long, &api.path("")).await.ok();

    api.store.operator().revoke_api_key(issuer).await.unwrap();
    assert_eq!(of_long.rest().await.1, End::Aborted);
    get(&api, &long, &api.path("")).await.refused(401, "unauthorized");
    // The same issuer may be trusted again.
    trust(&api, api.tenant, NAME, &server.url).await;
}

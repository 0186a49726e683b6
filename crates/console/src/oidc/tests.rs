//! Sign-ins with a provider that answers from memory. A real one: `crates/cli/tests/clients`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, TimeDelta, Utc};
use houston_domain::clock::{Clock as _, ManualClock};
use houston_domain::id::Ids;
use houston_domain::scope::Scopes;
use houston_domain::sealed::SecretKeys;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::settings::{Group, Oidc, Role};
use crate::oidc::{Awaited, Question, Reply, *};
use crate::{Config, Console};

const ISSUER: &str = "https://login.example.com";

/// What the provider says, and what it was asked for.
#[derive(Debug, Default)]
struct Scripted {
    claims: Mutex<Value>,
    userinfo: Mutex<Value>,
    made: Mutex<Vec<WantedKey>>,
    ended: Mutex<Vec<String>>,
    exchanged: Mutex<Vec<BTreeMap<String, String>>>,
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap()
}

impl Scripted {
    fn document() -> Value {
        json!({
            "issuer": ISSUER,
            "authorization_endpoint": format!("{ISSUER}/auth?tenant=1"),
            "token_endpoint": format!("{ISSUER}/token"),
            "jwks_uri": format!("{ISSUER}/keys"),
            "userinfo_endpoint": format!("{ISSUER}/me"),
            "authorization_response_iss_parameter_supported": true,
        })
    }

    fn tokens(&self, form: &str) -> Value {
        let form = url::form_urlencoded::parse(form.as_bytes()).into_owned().collect();
        self.exchanged.lock().unwrap().push(form);
        let header = part(&json!({"alg": "EdDSA", "kid": "ed"}));
        let signed = format!("{header}.{}", part(&self.claims.lock().unwrap()));
        let signature = URL_SAFE_NO_PAD.encode(pair().sign(signed.as_bytes()));
        json!({"id_token": format!("{signed}.{signature}"), "access_token": "at", "token_type": "Bearer"})
    }
}

impl Outside for Scripted {
    fn ask(&self, question: Question) -> Awaited<'_, Reply> {
        let form = question.form.as_ref().map(|form| form.expose_secret().to_owned());
        let body = match question.url.strip_prefix(ISSUER).unwrap() {
            "/.well-known/openid-configuration" => Self::document(),
            "/keys" => {
                let x = URL_SAFE_NO_PAD.encode(pair().public_key());
                json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": x}]})
            }
            "/token" => {
                let authorization = question.authorization.unwrap();
                assert_eq!(authorization.expose_secret(), "Basic aG91c3RvbjpzJTI2MQ==", "houston:s%261");
                self.tokens(&form.unwrap())
            }
            "/me" => {
                assert_eq!(question.authorization.unwrap().expose_secret(), "Bearer at");
                self.userinfo.lock().unwrap().clone()
            }
            other => panic!("{other}"),
        };
        Box::pin(async move { Ok(Reply { status: 200, body: body.to_string().into_bytes() }) })
    }

    fn make_key(&self, wanted: WantedKey) -> Awaited<'_, SecretString> {
        self.made.lock().unwrap().push(wanted);
        Box::pin(async { Ok("hou_made".into()) })
    }

    fn end_key(&self, key: SecretString) -> Awaited<'_, ()> {
        self.ended.lock().unwrap().push(key.expose_secret().to_owned());
        Box::pin(async { Err("Postgres is away".to_owned()) })
    }
}

struct Browser {
    routes: Router,
    clock: ManualClock,
    provider: Arc<Scripted>,
    cookie: String,
}

struct Page {
    status: StatusCode,
    location: String,
    cookies: Vec<String>,
    text: String,
}

impl Browser {
    fn new() -> Self {
        let clock = ManualClock::at(DateTime::from_timestamp(1_800_000_000, 0).unwrap());
        let group = |group: &str, role| Group {
            group: group.to_owned(),
            role,
            tenant: "demo".to_owned(),
            installation: false,
        };
        let oidc = Oidc {
            issuer: ISSUER.to_owned(),
            client_id: "houston".to_owned(),
            public_url: "https://ops.example.com".to_owned(),
            name: "Example".to_owned(),
            scopes: vec!["email".to_owned()],
            groups_claim: "groups".to_owned(),
            groups: vec![group("ops", Role::Operator), group("staff", Role::Viewer)],
        };
        let config = Config {
            enabled: true,
            path: "/console".to_owned(),
            address: String::new(),
            session_hours: 2,
            refresh_s: 3,
            badge: String::new(),
            oidc,
        };
        let keys = SecretKeys::parse(&SecretKeys::text_of([1; 32])).unwrap();
        let (ids, provider) =
            (Arc::new(Ids::seeded(Arc::new(clock.clone()), 1)), Arc::new(Scripted::default()));
        let outside: Arc<dyn Outside> = provider.clone();
        let console = Console::new(config, Some(keys), ids, |_, _| {}, Some((outside, Some("s&1".into()))));
        Self { routes: console.alone(Router::new()), clock, provider, cookie: String::new() }
    }

    async fn get(&self, path: &str) -> Page {
        let request = Request::get(path).header("cookie", &self.cookie).body(Body::empty()).unwrap();
        let response = self.routes.clone().oneshot(request).await.unwrap();
        let text = |name: &str| {
            let values = response.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let (status, location, cookies) = (response.status(), text("location").concat(), text("set-cookie"));
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Page { status, location, cookies, text: String::from_utf8(body.to_vec()).unwrap() }
    }

    /// Goes to the provider, which then says `claims` of a person; returns the query with which it sends the browser back.
    async fn begin(&mut self, claims: Value) -> String {
        let begun = self.get("/console/sign-in-with?next=/console/runs").await;
        assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.text);
        let sent: BTreeMap<String, String> =
            url::Url::parse(&begun.location).unwrap().query_pairs().into_owned().collect();
        assert_eq!(
            (sent["scope"].as_str(), sent["code_challenge_method"].as_str()),
            ("openid email", "S256")
        );
        assert_eq!(sent["redirect_uri"], "https://ops.example.com/console/sign-in-with/back");
        assert_eq!(sent["tenant"], "1", "what the provider has in its address stays");
        self.cookie = begun.cookies.concat().split(';').next().unwrap().to_owned();
        let mut said = json!({
            "iss": ISSUER, "aud": "houston", "sub": "4711", "email": "ada@example.org", "nonce": sent["nonce"],
            "exp": self.now().timestamp() + 60, "groups": ["guests", "ops"],
        });
        said.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        *self.provider.claims.lock().unwrap() = said;
        format!("code=c0de&state={}&iss={ISSUER}", sent["state"])
    }

    fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    async fn back(&self, query: &str) -> Page {
        self.get(&format!("/console/sign-in-with/back?{query}")).await
    }

    /// The answer to a person of whom this is said.
    async fn answer_to(claims: Value) -> String {
        let mut browser = Self::new();
        let query = browser.begin(claims).await;
        browser.assert_refused(&query).await
    }

    async fn assert_refused(&self, query: &str) -> String {
        let page = self.back(query).await;
        assert!([StatusCode::FORBIDDEN, StatusCode::BAD_GATEWAY].contains(&page.status), "{}", page.text);
        assert!(
            page.cookies.iter().all(|cookie| !cookie.starts_with("houston_console=")),
            "{:?}",
            page.cookies
        );
        assert!(self.provider.made.lock().unwrap().is_empty(), "no key is made");
        page.text
    }
}

#[tokio::test]
async fn group_decides_what_the_key_of_the_session_may_do() {
    let mut browser = Browser::new();
    assert!(browser.get("/console/sign-in").await.text.contains("Sign in with Example"));
    let query = browser.begin(json!({})).await;
    let page = browser.back(&query).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains("url=/console/runs"), "it goes on to where it was going: {}", page.text);
    let session = page.cookies.iter().find(|cookie| cookie.starts_with("houston_console=")).unwrap();
    assert!(session.contains("SameSite=Strict; Secure") && !session.contains("hou_made"), "{session}");
    let wanted = WantedKey {
        tenant: "demo".to_owned(),
        name: "console: ada@example.org (4711)".to_owned(),
        scopes: Scopes::of_names(["read", "post", "operate"]),
        expires_at: browser.now() + TimeDelta::hours(2),
    };
    assert_eq!(*browser.provider.made.lock().unwrap(), [wanted]);
    let exchanged = browser.provider.exchanged.lock().unwrap()[0].clone();
    assert_eq!(
        (exchanged["code"].as_str(), exchanged["grant_type"].as_str()),
        ("c0de", "authorization_code")
    );
    assert_eq!(exchanged["code_verifier"].len(), 43);
    assert!(!exchanged.contains_key("client_secret"), "{exchanged:?}");
    let cookie = session.split(';').next().unwrap();
    let leave =
        Request::post("/console/sign-out").header("cookie", cookie).header("sec-fetch-site", "same-origin");
    let left = browser.routes.clone().oneshot(leave.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(left.status(), StatusCode::SEE_OTHER, "also if the key cannot be revoked");
    assert_eq!(*browser.provider.ended.lock().unwrap(), ["hou_made"]);
}

#[tokio::test]
async fn provider_is_asked_for_groups_that_the_token_lacks() {
    let mut browser = Browser::new();
    let query = browser.begin(json!({"groups": null})).await;
    let mut claims = browser.provider.claims.lock().unwrap().clone();
    claims.as_object_mut().unwrap().remove("groups");
    *browser.provider.claims.lock().unwrap() = claims;
    *browser.provider.userinfo.lock().unwrap() = json!({"sub": "other", "groups": ["ops"]});
    assert!(browser.assert_refused(&query).await.contains("another person"));
    *browser.provider.userinfo.lock().unwrap() = json!({"sub": "4711", "groups": ["staff"]});
    assert_eq!(browser.back(&query).await.status, StatusCode::OK);
    assert_eq!(browser.provider.made.lock().unwrap()[0].scopes.to_string(), "read");
}

#[tokio::test]
async fn answers_of_other_sign_ins_are_refused() {
    let mut browser = Browser::new();
    let query = browser.begin(json!({})).await;
    let other = browser.begin(json!({})).await;
    assert!(browser.assert_refused(&query).await.contains("begin again"), "the state of another sign-in");
    let from_other = other.replace(ISSUER, "https://evil.example");
    assert!(browser.assert_refused(&from_other).await.contains("another provider"));
    let silent = other.split("&iss").next().unwrap().to_owned();
    assert!(browser.assert_refused(&silent).await.contains("another provider"));
    assert!(
        browser
            .assert_refused(&other.replace("code=c0de", "error=access_denied"))
            .await
            .contains("access_denied")
    );
    assert!(browser.assert_refused(&other.replace("code=c0de&", "")).await.contains("no code"));
    browser.clock.advance(TimeDelta::minutes(10));
    assert!(browser.assert_refused(&other).await.contains("begin again"), "it took too long");
    browser.cookie = String::new();
    assert!(browser.assert_refused(&other).await.contains("begin again"), "another browser");
    assert!(browser.provider.exchanged.lock().unwrap().is_empty(), "no code was sent to the provider");
}

#[tokio::test]
async fn tokens_that_are_not_for_this_sign_in_are_refused() {
    let text = Browser::answer_to(json!({"nonce": "other"})).await;
    assert!(text.contains("another sign-in"), "{text}");
    let text = Browser::answer_to(json!({"exp": 1_799_999_999})).await;
    assert!(text.contains("expired"), "{text}");
    let text = Browser::answer_to(json!({"iss": "https://evil.example"})).await;
    assert!(text.contains("another issuer"), "{text}");
    for claims in [
        json!({"aud": "other"}),
        json!({"aud": ["houston", "other"]}),
        json!({"aud": ["houston", "other"], "azp": "other"}),
        json!({"azp": "other"}),
    ] {
        let text = Browser::answer_to(claims.clone()).await;
        assert!(text.contains("another program"), "{claims}: {text}");
    }
}

#[tokio::test]
async fn person_without_a_group_of_the_settings_is_refused() {
    let text = Browser::answer_to(json!({"groups": ["guests"], "email": "<script>"})).await;
    assert!(text.contains("is in no group") && text.contains("4711") && !text.contains("<script>"), "{text}");
    let text = Browser::answer_to(json!({"groups": {"ops": true}})).await;
    assert!(text.contains("is in no group"), "{text}");
}

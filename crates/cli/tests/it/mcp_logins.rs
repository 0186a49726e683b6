//! Logins at an MCP server that uses OAuth, over the API and in runs: with an authorization server that keeps to the rules, and
//! browsers that do not always.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use houston_testkit::process::Process;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::site::{Answer, Site};
use crate::test_houston::TestHouston;

const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const CRM: &str = "/v1/mcp-servers/crm";
const PUBLIC: &str = "https://houston.acme.com";

/// What the authorization server knows, and what a test changes.
#[derive(Default)]
struct Authority {
    /// The challenges of codes that were not used.
    codes: BTreeMap<String, String>,
    /// The tokens that the MCP server accepts, and those that can be renewed.
    access: BTreeSet<String>,
    refresh: BTreeSet<String>,
    /// How many tokens were given: they are numbered.
    given: usize,
    /// Seconds that new tokens live.
    expires_in: i64,
    /// Whether a refresh token was sent twice: a thief has one of them.
    was_stolen: bool,
    /// Whether it renews nothing.
    refuses: bool,
}

impl Authority {
    fn token(&mut self, form: &BTreeMap<String, String>) -> Answer {
        let refused =
            ("400 Bad Request", "application/json", json!({"error": "invalid_grant"}).to_string().into());
        let is_ours = form["client_id"] == "houston-1" && form["resource"].ends_with("/mcp");
        let is_good = match form["grant_type"].as_str() {
            "authorization_code" => {
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
                form["redirect_uri"].starts_with(PUBLIC) && self.codes.remove(&form["code"]) == Some(proof)
            }
            _ => {
                let is_good = self.refresh.remove(&form["refresh_token"]);
                self.was_stolen |= !is_good;
                is_good && !self.refuses
            }
        };
        if !is_ours || !is_good {
            return refused;
        }
        self.given += 1;
        let [access, refresh] =
            ["access-secret", "refresh-secret"].map(|kind| format!("{kind}-{}", self.given));
        let tokens = json!({
            "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": self.expires_in,
        });
        self.access.insert(access);
        self.refresh.insert(refresh);
        ("200 OK", "application/json", tokens.to_string().into())
    }
}

fn answer(request: &str, authority: &mut Authority) -> Answer {
    let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let lower = head.to_lowercase();
    let host = lower.split("host: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
    let base = format!("http://{host}");
    let ok = |body: Value| ("200 OK", "application/json", body.to_string().into());
    match path {
        "/meta" => ok(json!({
            "resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/login")],
            "scopes_supported": ["orders"],
        })),
        path if path.ends_with("/oauth-authorization-server/login") => ok(json!({
            "issuer": format!("{base}/login"), "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": true,
        })),
        "/register" => ok(json!({"client_id": "houston-1"})),
        "/token" => authority.token(&pairs(body)),
        "/mcp" => mcp(&base, head, body, authority),
        _ => ("404 Not Found", "text/plain", Vec::new()),
    }
}

fn mcp(base: &str, head: &str, body: &str, authority: &Authority) -> Answer {
    let token = head.split("Bearer ").nth(1).or_else(|| head.split("bearer ").nth(1));
    let token = token.and_then(|rest| rest.split("\r\n").next()).unwrap_or_default();
    if !authority.access.contains(token) {
        let challenge =
            format!("401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"{base}/meta\"");
        return (challenge.leak(), "text/plain", Vec::new());
    }
    crate::mcp_servers::answered(body, "Searches orders.")
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let url = Url::parse(&format!("http://x/?{query}")).unwrap();
    url.query_pairs().into_owned().collect()
}

struct Setup {
    houston: TestHouston,
    site: Site,
    authority: Arc<Mutex<Authority>>,
    workers: Vec<Process>,
}

async fn setup() -> Setup {
    let authority = Arc::new(Mutex::new(Authority { expires_in: 3600, ..Authority::default() }));
    let shared = Arc::clone(&authority);
    let site = Site::start(move |request| answer(request, &mut shared.lock().unwrap())).await;
    let hosts = format!("[\"{}\"]", site.url(""));
    let variables = [
        ("HOUSTON_MCP__TENANTS__HOSTS", hosts.as_str()),
        ("HOUSTON_MCP__TENANTS__PUBLIC_URL", PUBLIC),
        ("HOUSTON_SECRETS_KEY", KEY),
        ("HOUSTON_LOG", "debug"),
    ];
    let houston = TestHouston::start_with(&variables);
    let workers = vec![houston.worker_with(&variables), houston.worker_with(&variables)];
    Setup { houston, site, authority, workers }
}

impl Setup {
    async fn ok(&self, method: Method, path: &str, body: &Value) -> Value {
        let (status, answer) = self.houston.send(method, path, body).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    /// Begins a login: what the browser is to bring back.
    async fn begun(&self, owner: &str) -> BTreeMap<String, String> {
        let begun = self.ok(Method::POST, &format!("{owner}/crm/login"), &Value::Null).await;
        let url = Url::parse(begun["url"].as_str().unwrap()).unwrap();
        assert_eq!(url.path(), "/authorize");
        let asked = pairs(url.query().unwrap());
        assert_eq!(asked["resource"], self.site.url("/mcp"));
        assert_eq!((asked["scope"].as_str(), asked["code_challenge_method"].as_str()), ("orders", "S256"));
        let code = format!("code-of-{}", asked["state"]);
        self.authority.lock().unwrap().codes.insert(code.clone(), asked["code_challenge"].clone());
        let issuer = self.site.url("/login");
        [("state", asked["state"].clone()), ("code", code), ("iss", issuer)]
            .map(|(k, v)| (k.to_owned(), v))
            .into()
    }

    /// Lets the browser come back, without a key.
    async fn come_back(&self, brought: &BTreeMap<String, String>) -> (u16, String) {
        let url = Url::parse_with_params(&self.houston.url("/mcp/login"), brought).unwrap();
        let answer = self.houston.open(url.as_str()).await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn log_in(&self, owner: &str) {
        let brought = self.begun(owner).await;
        let (status, text) = self.come_back(&brought).await;
        assert_eq!(status, 200, "{text}");
    }

    /// Lets agents in new conversations of this user call the tool at once; returns what they have read. In a conversation that
    /// has read what a server answers, a second call would ask.
    async fn call(&self, user: &str, conversations: usize) -> String {
        let mut sent = Vec::new();
        for _ in 0..conversations {
            let goal = self.ok(Method::POST, "/v1/goals", &json!({"user_id": user, "title": "orders"})).await;
            let goal = goal["id"].as_str().unwrap().to_owned();
            let text = "/sim tool=crm__search args={\"text\":\"a\"}";
            sent.push((self.houston.post(&goal, &goal, text).await, goal));
        }
        let mut read = String::new();
        for (message, goal) in &sent {
            self.houston.wait_until_answered(message).await;
            let id = goal.rsplit('_').next().unwrap();
            let results = format!(
                "select string_agg(h.content::text, ' ') from houston.history h where h.agentable_id = '{id}' and h.position = 3"
            );
            read += &self.houston.sql_of(goal, &results);
        }
        read
    }

    /// A new user.
    async fn user(&self, name: &str) -> String {
        let user = self.houston.create("/v1/users", name, &json!({"name": name})).await;
        user["id"].as_str().unwrap().to_owned()
    }

    /// Puts the server, with a tool of which its owner says that it reads.
    async fn put(&self, oauth: Value) -> Value {
        let tools = json!({"search": {"effect": "read", "risk": "read"}});
        let server = json!({"url": self.site.url("/mcp"), "kinds": ["goal"], "oauth": oauth, "tools": tools});
        self.ok(Method::PUT, CRM, &server).await
    }

    /// Approves the tool as the server lists it.
    async fn approve(&self) {
        let listed = self.houston.get(&format!("{CRM}/tools")).await;
        let approved = json!({"tools": {"search": listed["data"][0]["sha256"]}});
        self.ok(Method::POST, &format!("{CRM}/tools/approve"), &approved).await;
    }

    /// Changes what the authorization server knows.
    fn with(&self, change: impl FnOnce(&mut Authority)) {
        change(&mut self.authority.lock().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browser_that_brings_something_else_ends_no_login() {
    let test = setup().await;
    let put = test.put(json!({})).await;
    assert_eq!(put["login"], "needs_login", "{put}");
    let (status, failed) = test.houston.ask(Method::GET, &format!("{CRM}/tools")).await;
    assert!(status == 502 && failed.to_string().contains(&format!("POST {CRM}/login")), "{failed}");
    let first = test.begun("/v1/mcp-servers").await;
    for (name, value) in [("state", "tenant.00"), ("iss", "https://evil.com"), ("code", "stolen")] {
        let mut other = test.begun("/v1/mcp-servers").await;
        other.insert(name.to_owned(), value.to_owned());
        let (status, text) = test.come_back(&other).await;
        assert!(status >= 400 && !text.contains("secret"), "{name}: {status} {text}");
    }
    assert_eq!(test.come_back(&first).await.0, 404, "another login was begun since");
    assert_eq!(test.houston.get(CRM).await["login"], "needs_login");
    let brought = test.begun("/v1/mcp-servers").await;
    assert_eq!(test.come_back(&brought).await.0, 200);
    assert_eq!(test.come_back(&brought).await.0, 404, "a state works once");
    assert_eq!(test.houston.get(CRM).await["login"], "logged_in");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_user_logs_in_and_tokens_are_renewed_once() {
    let test = setup().await;
    let (ann, bob) = (test.user("Ann").await, test.user("Bob").await);
    test.put(json!({})).await;
    test.log_in("/v1/mcp-servers").await;
    test.approve().await;
    let of_ann = format!("/v1/users/{ann}/mcp-servers");
    let read = test.call(&ann, 1).await;
    assert!(read.contains("needs_login") && read.contains(&of_ann), "the tenant's is not the user's: {read}");
    // Each token expires at once, so every call renews it; two workers do not use one refresh token twice.
    test.with(|authority| authority.expires_in = 0);
    test.log_in(&of_ann).await;
    for _ in 0..3 {
        let read = test.call(&ann, 2).await;
        assert_eq!(read.matches("A-17").count(), 2, "{read}");
    }
    test.with(|authority| assert!(!authority.was_stolen && authority.given > 5));
    assert!(test.call(&bob, 1).await.contains("needs_login"), "nor is it that of another user");
    // The server forgets the token before it expires.
    test.with(|authority| authority.expires_in = 3600);
    assert!(test.call(&ann, 1).await.contains("A-17"));
    test.with(|authority| authority.access.clear());
    assert!(test.call(&ann, 1).await.contains("A-17"));
    // It renews nothing any more: a person is needed.
    test.with(|authority| (authority.refuses, authority.access) = (true, BTreeSet::new()));
    let read = test.call(&ann, 1).await;
    assert!(read.contains("needs_login"), "{read}");
    test.with(|authority| authority.refuses = false);
    test.log_in(&of_ann).await;
    assert!(test.call(&ann, 1).await.contains("A-17"));

    let accounts = "select a::text || encode(a.sealed, 'escape') from houston.mcp_accounts a";
    let mut kept = test.houston.sql(accounts) + &test.houston.sql("select h::text from houston.history h");
    kept += &test.workers.iter().map(Process::log).collect::<String>();
    kept += &test.houston._serve.log();
    for secret in ["access-secret", "refresh-secret", "code-of-"] {
        assert!(!kept.contains(secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_account_of_the_tenant_is_used_for_all_users() {
    let test = setup().await;
    let ann = test.user("Ann").await;
    test.put(json!({"shared": true})).await;
    test.log_in("/v1/mcp-servers").await;
    test.approve().await;
    assert!(test.call(&ann, 1).await.contains("A-17"));
    // What was given for one address is not sent to another.
    let moved = json!({"url": test.site.url("/other"), "kinds": ["goal"], "oauth": {"shared": true}});
    assert_eq!(test.ok(Method::PUT, CRM, &moved).await["login"], "needs_login");
}

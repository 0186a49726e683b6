//! The console as a browser without JavaScript uses it: links that sign in once, roles, and requests of other sites.

use houston_testkit::process::Process;
use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};

use crate::dev::{Dev, houston};

/// A browser's requests: it follows no redirections by itself, and says where a form comes from.
struct Browser {
    runtime: tokio::runtime::Runtime,
    client: Client,
    base: String,
    cookie: String,
}

/// What a browser gets.
struct Page {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Where it leads.
    fn location(&self) -> &str {
        assert_eq!(self.status, 303, "{}", self.text);
        self.header("location")
    }
}

impl Browser {
    fn new(base: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            client: Client::builder()
                .no_proxy()
                .pool_max_idle_per_host(0)
                .redirect(Policy::none())
                .build()
                .unwrap(),
            base: base.to_owned(),
            cookie: String::new(),
        }
    }

    fn send(&mut self, request: RequestBuilder) -> Page {
        let request = request.header("cookie", &self.cookie);
        let page = self.runtime.block_on(async {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Page { status, headers, text: response.text().await.unwrap() }
        });
        let cookie = page.header("set-cookie");
        if !cookie.is_empty() {
            self.cookie = cookie.split(';').next().unwrap().to_owned();
        }
        page
    }

    fn get(&mut self, path: &str) -> Page {
        let request = self.client.get(format!("{}{path}", self.base));
        self.send(request)
    }

    fn post(&mut self, path: &str, body: &str) -> Page {
        let (url, origin) = (format!("{}{path}", self.base), self.base.clone());
        let form = "application/x-www-form-urlencoded";
        let request = self.client.post(url).header("origin", origin).header("content-type", form);
        self.send(request.body(body.to_owned()))
    }

    /// The status that answers a sign-in with this key.
    fn sign_in(&mut self, key: &str) -> u16 {
        self.post("/console/sign-in", &format!("key={key}")).status
    }

    /// The text of a page.
    fn page(&mut self, path: &str) -> String {
        let page = self.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        page.text
    }
}

/// A key with one scope.
fn key(dev: &Dev, scope: &str) -> String {
    dev.command(&["key", "create", "--tenant", "demo", "--scope", scope])
}

/// The run of a new message to the demo's goal, while it holds.
fn open_run(dev: &Dev) -> String {
    let demo: serde_json::Value =
        serde_json::from_slice(&std::fs::read(dev.folder.path().join("demo.json")).unwrap()).unwrap();
    let path = format!("/v1/goals/{}/messages", demo["goal"].as_str().unwrap());
    let posted = dev.post(&path, &serde_json::json!({"content": "/sim chunks=50000 delay_ms=5"}));
    posted["run_id"].as_str().unwrap().to_owned()
}

/// Every answer has the policy, and files are kept.
fn assert_headers(browser: &mut Browser) {
    for path in ["/console", "/console/runs/run_1", "/console/assets/0/console.css", "/console/sign-in"] {
        let response = browser.get(path);
        let policy = response.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(response.header("cache-control"), "no-store", "{path}");
    }
    let page = browser.page("/console");
    assert!(!page.contains(" style=") && !page.contains("<style") && !page.contains(" onclick"), "{page}");
    for path in page.split('"').filter(|part| part.starts_with("/console/assets/")) {
        let response = browser.get(path);
        assert_eq!(response.header("cache-control"), "public, max-age=31536000, immutable", "{path}");
    }
}

#[test]
fn link_of_dev_signs_in_once() {
    let dev = Dev::start();
    let link = dev.console_link();
    let path = link.strip_prefix(&dev.url).unwrap();
    let mut browser = Browser::new(&dev.url);
    let first = browser.get("/console");
    assert_eq!(first.location(), "/console/sign-in?next=%2Fconsole");
    let asked = browser.get(path);
    assert_eq!((asked.status, asked.header("set-cookie")), (200, ""), "looking at it changes nothing");
    let followed = browser.post(path, "");
    assert_eq!(followed.status, 200);
    let cookie = followed.header("set-cookie");
    assert!(cookie.contains("Path=/console;") && cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(&dev.key), "the cookie is sealed");
    assert!(browser.page("/console").contains("admin"));
    assert_headers(&mut browser);
    let mut other = Browser::new(&dev.url);
    assert_eq!(other.get(path).status, 404, "it was used");
    assert_eq!(other.get("/console").status, 303);
}

#[test]
fn session_survives_a_restart_and_ends_with_its_key() {
    let mut dev = Dev::start();
    let read = key(&dev, "read");
    let mut browser = Browser::new(&dev.url);
    assert_eq!(browser.sign_in(&read), 303);
    dev.kill();
    dev.start_again();
    assert!(browser.page("/console/threads").contains("Get to know Houston"));
    let listed: serde_json::Value = serde_json::from_str(&dev.command(&["key", "list", "--json"])).unwrap();
    let of_viewer = |of: &&serde_json::Value| of["scopes"] == serde_json::json!(["read"]);
    let keys = listed["data"].as_array().unwrap();
    let id = keys.iter().find(of_viewer).unwrap()["id"].as_str().unwrap().to_owned();
    dev.command(&["key", "revoke", &id]);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while browser.get("/console/threads").status == 200 {
        assert!(std::time::Instant::now() < end, "a revoked key still has a session");
    }
    assert!(browser.get("/console/threads").location().contains("/sign-in"));
}

/// An agent is changed by those who may, if the API accepts it.
fn assert_agent_is_changed(dev: &Dev, admin: &mut Browser, operator: &mut Browser) {
    let agents = dev.get("/v1/agents");
    let id = agents["data"][0]["id"].as_str().unwrap();
    let (path, api) = (format!("/console/agents/{id}"), format!("/v1/agents/{id}"));
    let version = dev.get(&api)["version"].to_string();
    let body = format!("role=You+count+stars.&version={version}");
    assert!(!operator.page(&path).contains("Save"), "nothing is offered");
    assert_eq!(operator.post(&path, &body).status, 403);
    assert!(admin.page(&path).contains("Save"));
    let refused = admin.post(&path, &format!("role=Kept&model=a+b&provider=openai&version={version}"));
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("/model") && refused.text.contains("Kept"), "{}", refused.text);
    assert_eq!(admin.post(&path, &body).location(), path);
    assert_eq!(dev.get(&api)["role"], "You count stars.");
    let form = admin.page(&path);
    assert!(form.contains(">\nYou count stars.</textarea>"), "a browser drops the first line end: {form}");
    let stale = admin.post(&path, &format!("role=Late&version={version}"));
    assert_eq!((stale.status, &dev.get(&api)["role"]), (409, &serde_json::json!("You count stars.")));
}

/// A run that has not failed is not tried again, and the page says so.
fn assert_open_run_is_left(dev: &Dev, admin: &mut Browser, operator: &mut Browser) {
    let path = format!("/console/runs/{}", open_run(dev));
    assert!(!operator.page(&path).contains("Try again"), "to post is missing");
    assert_eq!(operator.post(&format!("{path}/retry"), "").status, 403);
    let left = admin.post(&format!("{path}/retry"), "").location().to_owned();
    assert_eq!(left, format!("{path}?left=not_failed"));
    assert!(admin.page(&left).contains("it has not failed"));
}

/// A lane is drained by those who operate the installation, and the page says how far it is.
fn assert_lane_is_drained(dev: &Dev, operator: &mut Browser) {
    let lane = "/console/queues/background";
    assert!(!operator.page("/console/queues").contains("Drain</button>"), "it is of all tenants");
    assert_eq!(operator.post(&format!("{lane}/drain"), "").status, 403);
    let mut owner = Browser::new(&dev.url);
    assert_eq!(owner.sign_in(&key(dev, "read,operate,installation")), 303);
    assert!(owner.page("/console/queues").contains("Drain</button>"));
    let draining = owner.post(&format!("{lane}/drain"), "").location().to_owned();
    assert_eq!(draining, "/console/queues?drain=background");
    let page = owner.page(&draining);
    assert!(page.contains("The lane background is") && page.contains(&format!("{lane}/resume")), "{page}");
    assert_eq!(owner.post(&format!("{lane}/resume"), "").location(), "/console/queues");
    assert!(!owner.page(&draining).contains("The lane background is"), "it goes on");
}

#[test]
fn admin_revokes_a_key_after_a_question() {
    let dev = Dev::start();
    let operate = key(&dev, "read,operate");
    let mut operator = Browser::new(&dev.url);
    assert_eq!(operator.sign_in(&operate), 303);
    assert_eq!(operator.get("/console/keys").status, 403, "keys are for admins");
    let listed = dev.get("/v1/keys?active=true");
    let keys = listed["data"].as_array().unwrap();
    let id_of = |scopes: serde_json::Value| {
        let found = keys.iter().find(|key| key["scopes"] == scopes).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    let (of_operator, own) = (id_of(serde_json::json!(["read", "operate"])), dev.get("/v1/key"));
    let mut admin = Browser::new(&dev.url);
    assert_eq!(admin.sign_in(&dev.key), 303);
    assert_agent_is_changed(&dev, &mut admin, &mut operator);
    assert_open_run_is_left(&dev, &mut admin, &mut operator);
    assert_lane_is_drained(&dev, &mut operator);
    let page = admin.page("/console/keys");
    assert!(page.contains(&format!("/console/keys/{of_operator}/revoke")) && page.contains("this session"));
    let own_form = format!("/console/keys/{}/revoke", own["id"].as_str().unwrap());
    assert!(!page.contains(&own_form) && !page.contains(&operate), "{page}");
    let path = format!("/console/keys/{of_operator}/revoke");
    assert_eq!(operator.post(&path, "confirmed=true").status, 403);
    assert!(admin.post(&path, "name=deploy").text.contains("cannot be undone"));
    assert_eq!(operator.get("/console/health").status, 200, "it is only asked");
    assert_eq!(admin.post(&path, "confirmed=true").location(), "/console/keys");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while operator.get("/console/health").status == 200 {
        assert!(std::time::Instant::now() < end, "a revoked key still has a session");
    }
    assert!(!admin.page("/console/keys").contains(&of_operator));
    assert!(admin.page("/console/keys?show=all").contains(&of_operator));
    let audit = dev.get("/v1/audit?operation=revoke_key");
    let of = audit["data"].as_array().unwrap().iter().find(|of| of["status"] == 200).unwrap();
    assert_eq!(
        (&of["target"], &of["actor_name"]),
        (&serde_json::json!(of_operator), &serde_json::json!("houston dev"))
    );
}

/// The routes of the console, with whether they have a form, and with ids that exist or nothing has.
fn routes(real: &[(&str, String)]) -> Vec<(String, bool)> {
    let router = include_str!("../../../console/src/router.rs");
    let nothing = format!("{:032x}", 1);
    let filled = |path: &str| {
        let kind = path.trim_start_matches('/').split('/').next().unwrap();
        let id = match real.iter().find(|(of, _)| *of == kind) {
            Some((_, id)) => id.clone(),
            None if kind == "threads" => format!("goal_{nothing}"),
            None => format!("{}_{nothing}", kind.trim_end_matches('s')),
        };
        let path = path.replace("{id}", &id).replace("{kind}", "goal").replace("{lane}", "interactive");
        format!("/console{}", path.replace("{delivery}", &format!("delivery_{nothing}")))
    };
    let routes = router.lines().filter_map(|line| line.trim().strip_prefix(".route(&at(\"")?.split_once('"'));
    // A stream does not end.
    let left_out =
        |path: &str| path.starts_with("/sign-") || path.starts_with("/assets") || path.ends_with("/events");
    let own = routes.filter(|(path, _)| !left_out(path));
    own.map(|(path, handlers)| (filled(path), handlers.contains("post("))).collect()
}

/// What the API has, and is of no kind, is refused with the kinds that there are.
fn assert_unknown_kinds_are_named(browser: &mut Browser, run: &str) {
    for path in
        ["threads?kind=model", "threads?kind=unicorn", &format!("threads/run/{run}"), "threads/run/x/history"]
    {
        let page = browser.get(&format!("/console/{path}"));
        assert_eq!(page.status, 404, "{path}: {}", page.text);
        assert!(
            page.text.contains("There is no kind") && page.text.contains("goal"),
            "{path}: {}",
            page.text
        );
    }
    assert_eq!(browser.get("/console/threads?kind=goal&user=ann").status, 422);
}

#[test]
fn viewers_change_nothing_by_any_route() {
    let dev = Dev::start();
    let (run, read) = (open_run(&dev), key(&dev, "read"));
    let mut browser = Browser::new(&dev.url);
    assert_eq!(browser.sign_in(&read), 303);
    let page = browser.page(&format!("/console/runs/{run}"));
    assert!(page.contains("viewer"), "{page}");
    assert!(!page.contains("Cancel run") && !page.contains("/console/health"), "nothing is offered: {page}");
    assert!(browser.page("/console/kinds").contains("Default agent"));
    assert_unknown_kinds_are_named(&mut browser, &run);
    for path in ["health", "webhooks", "audit", "workers", "usage"] {
        assert_eq!(browser.get(&format!("/console/{path}")).status, 403, "{path}");
    }
    let agent = dev.get("/v1/agents")["data"][0]["id"].as_str().unwrap().to_owned();
    let real = [("runs", run.clone()), ("waiting", dev.open_question()), ("agents", agent)];
    let all = routes(&real);
    let forms = all.iter().filter(|(_, has_form)| *has_form).count();
    assert!(all.len() > 25 && forms > 8, "{all:?}");
    for (path, has_form) in &all {
        let page = browser.get(path);
        let leads_to_its_page = page.status == 303 && !page.location().contains("/sign-in");
        let status = page.status;
        assert!(leads_to_its_page || [200, 403, 404].contains(&status), "{path}: {status}");
        if *has_form {
            let body = "action=cancel&confirmed=true&content=x&enabled=false&decision=no&role=x&version=1";
            let posted = browser.post(path, body);
            let exists = real.iter().any(|(_, id)| path.contains(id));
            let is_refused = posted.status == 403 || !exists && posted.status == 404;
            assert!(is_refused, "{path}: {} {}", posted.status, posted.text);
        }
    }
    let audit = dev.get("/v1/audit?limit=100");
    let done: Vec<_> = audit["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|of| of["status"].as_i64().is_some_and(|status| (200..400).contains(&status)))
        .collect();
    assert!(done.is_empty(), "{done:?}");
    assert_eq!(dev.get(&format!("/v1/runs/{run}"))["cancel_requested"], false);
    assert_eq!(browser.sign_in("hou_wrong"), 401);
}

#[test]
fn forms_of_other_sites_are_refused() {
    let dev = Dev::start();
    let run = open_run(&dev);
    let mut browser = Browser::new(&dev.url);
    assert_eq!(browser.sign_in(&dev.key), 303);
    let url = format!("{}/console/runs/{run}/cancel", dev.url);
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("x-none", ""),
    ] {
        let request = browser.client.post(&url).header(name, value);
        assert_eq!(browser.send(request).status, 403, "{name}: {value}");
    }
    assert_eq!(dev.get(&format!("/v1/runs/{run}"))["cancel_requested"], false);
    let cancelled = browser.post(&format!("/console/runs/{run}/cancel"), "");
    assert_eq!(cancelled.location(), format!("/console/runs/{run}"));
    assert_eq!(dev.get(&format!("/v1/runs/{run}"))["cancel_requested"], true);
    let elsewhere = browser.post("/console/sign-in", &format!("key={}&next=//evil.example", dev.key));
    assert_eq!(elsewhere.location(), "/console", "a sign-in leads to no other site");
}

#[test]
fn console_has_its_own_address_and_path_or_is_off() {
    let alone = [("HOUSTON_CONSOLE__ADDRESS", "127.0.0.1:0"), ("HOUSTON_CONSOLE__PATH", "/ops")];
    let dev = Dev::start_with(alone.map(|(name, value)| (name, value.to_owned())).into());
    let link = dev.console_link();
    let (base, path) = link.split_at(link.find("/ops/").unwrap());
    assert_ne!(base, dev.url);
    let mut browser = Browser::new(base);
    assert_eq!(browser.post(path, "").status, 200);
    assert!(browser.page("/ops").contains("Overview"));
    assert_eq!(browser.get("/v1/key").status, 404, "the API is not there");
    assert_eq!(Browser::new(&dev.url).get("/ops").status, 404);
    let off = Dev::start_with(vec![("HOUSTON_CONSOLE__ENABLED", "false".to_owned())]);
    assert_eq!(Browser::new(&off.url).get("/console").status, 404);
    let mut wrong = houston(off.folder.path());
    let mut refused = Process::spawn(wrong.arg("dev").env("HOUSTON_CONSOLE__PATH", "/v1/console")).unwrap();
    assert_eq!(
        refused.wait(std::time::Duration::from_secs(30)).unwrap().code(),
        Some(2),
        "{}",
        refused.log()
    );
}

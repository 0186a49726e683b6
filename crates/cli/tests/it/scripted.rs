//! A test installation with a scripted model that records its calls.

use std::sync::{Arc, Mutex};

use houston_testkit::model_server::{Call, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::TestHouston;

/// One recorded call of the model.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) model: String,
    pub(crate) system: String,
    pub(crate) texts: Vec<String>,
    pub(crate) tools: Vec<String>,
    /// Whether it has an image.
    pub(crate) has_image: bool,
}

impl Asked {
    /// Whether the call is for routing: it picks an agent of a team.
    pub(crate) fn routes(&self) -> bool {
        self.system.starts_with("You pick which agent")
    }
}

pub(crate) struct Scripted {
    pub(crate) houston: TestHouston,
    pub(crate) model: ModelServer,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// An answer that contains the first line of the role and the name of the model.
pub(crate) fn answer(asked: &Asked) -> Reply {
    let role = asked.system.split("<role>\n").nth(1).and_then(|role| role.lines().next()).unwrap_or("nobody");
    Reply::tool("send_message", json!({"content": format!("{role} by {}", asked.model)}))
}

impl Scripted {
    /// Starts the installation, without workers.
    pub(crate) async fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::over(TestHouston::start(), script).await
    }

    pub(crate) async fn over(
        houston: TestHouston,
        script: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        let model = ModelServer::start(move |call: &Call| {
            let asked = Asked {
                model: call.model().to_owned(),
                system: call.system(),
                texts: call.user_texts(),
                tools: call.tools(),
                has_image: String::from_utf8_lossy(&call.body).contains("\"media_type\":\"image/png\""),
            };
            let reply = script(&asked);
            heard.lock().unwrap().push(asked);
            reply
        });
        Self { houston, model: model.await.unwrap(), asked }
    }

    /// Starts a worker with this default model.
    pub(crate) fn worker(&self, model: &str) -> Process {
        self.houston.worker_with(&[("HOUSTON_MODEL", model), ("HOUSTON_LOCAL_URL", &self.model.url())])
    }

    /// All calls so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Sends a request; returns the status and the body.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send_to(&self.houston.url(path), method, body).await
    }

    /// Sends a request to an API server of the installation.
    pub(crate) async fn send_to(&self, url: &str, method: &str, body: Value) -> (u16, Value) {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.request(method.parse().unwrap(), url).bearer_auth(&self.houston.key);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    /// Sends a request that must succeed; returns the body.
    pub(crate) async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.send(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Sends a request that must be refused; returns the status and the body as text.
    pub(crate) async fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let (status, answer) = self.send(method, path, body).await;
        assert!(status >= 400, "{method} {path}: {status} {answer}");
        (status, answer.to_string())
    }

    /// Creates an agent of kind goal, whose role is its name; returns its id.
    pub(crate) async fn agent(&self, name: &str, mut more: Value) -> String {
        let fields = more.as_object_mut().unwrap();
        fields.insert("name".to_owned(), json!(name));
        fields.entry("kind").or_insert(json!("goal"));
        fields.entry("role").or_insert(json!(name.to_uppercase()));
        let made = self.ok("POST", "/v1/agents", more).await;
        made["id"].as_str().unwrap().to_owned()
    }

    /// Creates a user with a goal that the agent or team of `served_by` answers.
    pub(crate) async fn goal(&self, served_by: Value) -> String {
        let user = self.ok("POST", "/v1/users", json!({"name": "Ada"})).await;
        let mut body = served_by;
        body["user_id"] = user["id"].clone();
        body["title"] = json!("Tokyo");
        self.ok("POST", "/v1/goals", body).await["id"].as_str().unwrap().to_owned()
    }

    /// Posts a message, waits, and returns the agent's last text.
    pub(crate) async fn ask(&self, goal: &str, content: &str) -> String {
        let posted =
            self.ok("POST", &format!("/v1/goals/{goal}/messages"), json!({"content": content})).await;
        let answered = self.houston.wait_until_answered(&posted).await;
        assert_eq!(answered["status"], "answered", "{answered}");
        self.houston.agent_texts(goal).await.pop().unwrap()
    }
}

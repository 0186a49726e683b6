//! Houston's API, as a client.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::ChatError;
use super::key::Key;
use super::message::{Accepted, Fate, Goal, Message, Messages, Problem, Run, User};

/// How long an answer may take, and a stream to begin.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// A server, and the key that opens it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    http: Client,
    pub(crate) url: String,
    key: Key,
}

impl Server {
    /// The server at `url`; nothing is asked yet.
    ///
    /// # Errors
    /// When `url` is no address, or no client can be built.
    pub(crate) fn new(url: String, key: Key) -> Result<Self, ChatError> {
        let parsed =
            reqwest::Url::parse(&url).ok().filter(|parsed| matches!(parsed.scheme(), "http" | "https"));
        let Some(host) = parsed.as_ref().and_then(reqwest::Url::host_str) else {
            return Err(ChatError::BadUrl { url });
        };
        let local = matches!(host, "localhost" | "[::1]") || host.starts_with("127.");
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(5))
            // A redirect would carry the key elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("houston-chat/", env!("CARGO_PKG_VERSION")));
        if local {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| ChatError::Client(error.to_string()))?;
        Ok(Self { http, url, key })
    }

    /// The goal, or any other agentable: its kind stands in its id.
    pub(crate) async fn goal(&self, id: &str) -> Result<Goal, ChatError> {
        let Some(path) = path_of(id) else { return Err(self.no_goal(id)) };
        self.of_goal(id, self.answer(self.request(Method::GET, &path)).await)
    }

    /// The last messages, oldest first.
    pub(crate) async fn messages(&self, goal: &str, limit: u8) -> Result<Vec<Message>, ChatError> {
        let Some(path) = path_of(goal) else { return Err(self.no_goal(goal)) };
        let request = self.request(Method::GET, &format!("{path}/messages?limit={limit}"));
        let mut messages: Messages = self.of_goal(goal, self.answer(request).await)?;
        messages.data.reverse();
        Ok(messages.data)
    }

    /// Posts a message. The same `idempotency_key` posts it once, however often it is sent.
    pub(crate) async fn post(
        &self,
        goal: &str,
        text: &str,
        idempotency_key: &str,
    ) -> Result<Accepted, ChatError> {
        let Some(path) = path_of(goal) else { return Err(self.no_goal(goal)) };
        let request = self
            .request(Method::POST, &format!("{path}/messages"))
            .header("Idempotency-Key", idempotency_key)
            .header(header::CONTENT_TYPE, "application/json")
            .body(json!({ "content": text }).to_string());
        self.of_goal(goal, self.answer(request).await)
    }

    /// What became of a message: `pending`, `processing`, `answered` or `failed`.
    pub(crate) async fn status(&self, message: &str) -> Result<Option<String>, ChatError> {
        let fate: Fate = self.answer(self.request(Method::GET, &format!("/v1/messages/{message}"))).await?;
        Ok(fate.status)
    }

    pub(crate) async fn run(&self, run: &str) -> Result<Run, ChatError> {
        self.answer(self.request(Method::GET, &format!("/v1/runs/{run}"))).await
    }

    /// Asks to stop a run. One that is over already is no failure.
    pub(crate) async fn cancel(&self, run: &str) -> Result<(), ChatError> {
        let request = self.request(Method::POST, &format!("/v1/runs/{run}/cancel"));
        match self.answer::<Value>(request).await {
            Err(ChatError::Refused { code, .. }) if code == "invalid_state" => Ok(()),
            answered => answered.map(drop),
        }
    }

    /// Makes a user. `None` when the external id is taken.
    pub(crate) async fn create_user(&self, external_id: &str, name: &str) -> Result<Option<User>, ChatError> {
        let body = json!({ "external_id": external_id, "name": name });
        match self.create("/v1/users", &body).await {
            Err(ChatError::Refused { code, .. }) if code == "already_exists" => Ok(None),
            created => created.map(Some),
        }
    }

    pub(crate) async fn create_goal(&self, user: &str, title: &str) -> Result<Goal, ChatError> {
        self.create("/v1/goals", &json!({ "user_id": user, "title": title })).await
    }

    /// Opens a stream; `None` when there is nothing more to come.
    pub(crate) async fn stream(
        &self,
        path: &str,
        last_id: Option<&str>,
    ) -> Result<Option<Response>, ChatError> {
        let mut request = self.request(Method::GET, path).header(header::ACCEPT, "text/event-stream");
        if let Some(id) = last_id {
            request = request.header("Last-Event-ID", id);
        }
        let response = self.send(request).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let content = content_type(&response);
        if response.status() == StatusCode::OK && content.starts_with("text/event-stream") {
            return Ok(Some(response));
        }
        Err(self.refusal(response).await)
    }

    async fn create<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ChatError> {
        let request = self.request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
        self.answer(request.body(body.to_string())).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key.secret)
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ChatError> {
        let response = self.send(request.timeout(ANSWERS_WITHIN)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let (status, content) = (response.status().as_u16(), content_type(&response));
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|_| ChatError::NotHouston {
            url: self.url.clone(),
            status,
            content,
        })
    }

    /// Sends a request, until the head of the answer.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ChatError> {
        match tokio::time::timeout(ANSWERS_WITHIN, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => {
                let reason = format!("no answer within {} s", ANSWERS_WITHIN.as_secs());
                Err(ChatError::Unreachable { url: self.url.clone(), reason })
            }
        }
    }

    /// Why it was refused, as far as the answer says.
    async fn refusal(&self, response: Response) -> ChatError {
        let (url, status, content) = (self.url.clone(), response.status(), content_type(&response));
        let body = tokio::time::timeout(ANSWERS_WITHIN, response.bytes()).await;
        let problem =
            body.ok().and_then(Result::ok).and_then(|body| serde_json::from_slice::<Problem>(&body).ok());
        match problem {
            Some(Problem { code: Some(code), .. }) if code == "unauthorized" => {
                ChatError::KeyRefused { url, origin: self.key.origin.clone() }
            }
            Some(Problem { code: Some(code), detail, title }) => {
                ChatError::Refused { code, detail: detail.or(title).unwrap_or_else(|| status.to_string()) }
            }
            // What stands before Houston may answer in its place while it is away.
            _ if status.is_server_error() => {
                let reason = format!("status {status}");
                ChatError::Unreachable { url, reason }
            }
            _ => ChatError::NotHouston { url, status: status.as_u16(), content },
        }
    }

    fn of_goal<T>(&self, goal: &str, answered: Result<T, ChatError>) -> Result<T, ChatError> {
        answered.map_err(|error| match error {
            ChatError::Refused { code, .. } if code == "not_found" => self.no_goal(goal),
            error => error,
        })
    }

    fn no_goal(&self, goal: &str) -> ChatError {
        ChatError::NoGoal { url: self.url.clone(), goal: goal.to_owned() }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ChatError {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        ChatError::Unreachable { url: self.url.clone(), reason: cause.to_string() }
    }
}

/// `goal_…` → `/v1/goals/goal_…`; `None` for what cannot be an id.
pub(crate) fn path_of(id: &str) -> Option<String> {
    let (kind, rest) = id.rsplit_once('_')?;
    let plain = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    (plain(kind) && plain(rest)).then(|| format!("/v1/{kind}s/{id}"))
}

fn content_type(response: &Response) -> String {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or("no content type").to_owned()
}

/// TLS on `ring`, trusting Mozilla's authorities and the machine's own.
fn tls() -> Result<ClientConfig, ChatError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ChatError::Client(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_of_an_id_only() {
        assert_eq!(path_of("goal_01ab").as_deref(), Some("/v1/goals/goal_01ab"));
        assert_eq!(path_of("user_agent_01ab").as_deref(), Some("/v1/user_agents/user_agent_01ab"));
        for bad in ["", "goal", "goal_", "_1", "goal_/../x", "goal_1?x", "Goal_1"] {
            assert_eq!(path_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_refused() {
        let key = Key { secret: "hou_x".to_owned(), origin: "--key".to_owned() };
        for bad in ["localhost:8080", "", "ftp://x", "http://"] {
            let error = Server::new(bad.to_owned(), key.clone()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
        assert!(Server::new("https://example.com".to_owned(), key).is_ok());
    }
}

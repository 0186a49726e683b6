//! An HTTP client of Houston's API, and the key that it uses: --key, else HOUSTON_API_KEY, else the file that `houston dev`
//! writes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use houston_domain::id::{MessageId, QuestionId, RunId, UserId};
use houston_domain::message::{Message, MessageStatus};
use houston_protocol::agentable::AgentableResponse;
use houston_protocol::message::{AcceptedMessageResponse, MessageImage};
use houston_protocol::page::Page;
use houston_protocol::plan::{CreatePlan, PlanListItem, PlanResponse};
use houston_protocol::problem::{Problem, ProblemCode};
use houston_protocol::question::AnswerQuestion;
use houston_protocol::run::RunResponse;
use houston_protocol::user::{CreateUser, UserResponse};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, header};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::{ChatError, Result};
use crate::failure::innermost;

/// The time limit of a request, and of the head of a stream.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's address and an API key. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    http: Client,
    pub(crate) url: String,
    key: Key,
}

impl Server {
    /// A client of the server at `url`. Sends nothing yet.
    ///
    /// # Errors
    /// [`ChatError`] when `url` is no HTTP address, or the HTTP client cannot be built.
    pub(crate) fn new(url: String, key: Key) -> Result<Self> {
        let parsed =
            reqwest::Url::parse(&url).ok().filter(|parsed| matches!(parsed.scheme(), "http" | "https"));
        let Some(host) = parsed.as_ref().and_then(reqwest::Url::host_str) else {
            return Err(ChatError::usage(format!(
                "`{url}` is not the address of a server: --url takes one like http://127.0.0.1:8080"
            )));
        };
        let local = matches!(host, "localhost" | "[::1]") || host.starts_with("127.");
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(5))
            // A redirect would send the key to another server.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("houston-chat/", env!("CARGO_PKG_VERSION")));
        if local {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(ChatError::client)?;
        Ok(Self { http, url, key })
    }

    /// A goal, or another agentable: its id begins with its kind.
    pub(crate) async fn goal(&self, id: &str) -> Result<AgentableResponse> {
        self.about(id, |path| Ok(self.request(Method::GET, &path))).await
    }

    /// The last messages, oldest first.
    pub(crate) async fn messages(&self, goal: &str, limit: u8) -> Result<Vec<Message>> {
        let request = |path: String| Ok(self.request(Method::GET, &format!("{path}/messages?limit={limit}")));
        let mut messages: Page<Message> = self.about(goal, request).await?;
        messages.data.reverse();
        Ok(messages.data)
    }

    /// Posts a message. However often it is sent with one `idempotency_key`, it is stored once.
    pub(crate) async fn post(
        &self,
        goal: &str,
        (text, images): (&str, &[MessageImage]),
        idempotency_key: &str,
    ) -> Result<AcceptedMessageResponse> {
        let message = json!({"content": text, "images": images});
        let request = |path: String| self.post_json(&format!("{path}/messages"), &message);
        self.about(goal, |path| Ok(request(path)?.header("Idempotency-Key", idempotency_key))).await
    }

    /// How far a message has come; `None` for a message that no user wrote.
    pub(crate) async fn status(&self, message: MessageId) -> Result<Option<MessageStatus>> {
        let request = self.request(Method::GET, &format!("/v1/messages/{message}"));
        let message: Message = self.answer(request).await?;
        Ok(message.status)
    }

    pub(crate) async fn run(&self, run: RunId) -> Result<RunResponse> {
        self.answer(self.request(Method::GET, &format!("/v1/runs/{run}"))).await
    }

    /// Answers a question. The same answer again is no error.
    pub(crate) async fn answer_question(&self, question: QuestionId, answer: &Value) -> Result<()> {
        let body = AnswerQuestion { answer: answer.clone(), answered_by: Some("houston chat".to_owned()) };
        let request = self.post_json(&format!("/v1/questions/{question}/answer"), &body)?;
        self.answer::<Value>(request).await.map(drop)
    }

    /// A plan.
    pub(crate) async fn plan(&self, id: &str) -> Result<PlanResponse> {
        let wrong = || ChatError::usage(format!("`{id}` is not the id of a plan, as in plan_0190…"));
        let path = path_of(id).ok_or_else(wrong)?;
        self.answer(self.request(Method::GET, &path)).await
    }

    /// The plans of a goal, newest first.
    pub(crate) async fn plans(&self, goal: &str) -> Result<Page<PlanListItem>> {
        self.about(goal, |path| Ok(self.request(Method::GET, &format!("{path}/plans?limit=100")))).await
    }

    /// Makes a plan for a goal. However often it is sent with one `idempotency_key`, it is made once.
    pub(crate) async fn make_plan(
        &self,
        goal: &str,
        plan: &CreatePlan,
        idempotency_key: &str,
    ) -> Result<PlanResponse> {
        let request = |path: String| self.post_json(&format!("{path}/plans"), plan);
        self.about(goal, |path| Ok(request(path)?.header("Idempotency-Key", idempotency_key))).await
    }

    /// Requests cancellation of a run. A run that has already ended is no error.
    pub(crate) async fn cancel(&self, run: RunId) -> Result<()> {
        let request = self.request(Method::POST, &format!("/v1/runs/{run}/cancel"));
        match self.answer::<Value>(request).await {
            Err(ChatError::Refused { code: ProblemCode::InvalidState, .. }) => Ok(()),
            answered => answered.map(drop),
        }
    }

    /// Creates a user. `None` when the external id is taken.
    pub(crate) async fn create_user(&self, external_id: &str, name: &str) -> Result<Option<UserResponse>> {
        let user =
            CreateUser { name: name.to_owned(), external_id: Some(external_id.to_owned()), time_zone: None };
        match self.answer(self.post_json("/v1/users", &user)?).await {
            Err(ChatError::Refused { code: ProblemCode::AlreadyExists, .. }) => Ok(None),
            created => created.map(Some),
        }
    }

    pub(crate) async fn create_goal(&self, user_id: UserId, title: &str) -> Result<AgentableResponse> {
        let goal = json!({"user_id": user_id, "title": title});
        self.answer(self.post_json("/v1/goals", &goal)?).await
    }

    /// Opens an event stream; `None` when it has nothing more to send (204).
    pub(crate) async fn stream(&self, path: &str, last_id: Option<&str>) -> Result<Option<Response>> {
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

    fn post_json(&self, path: &str, body: &impl Serialize) -> Result<RequestBuilder> {
        let body = serde_json::to_vec(body).map_err(ChatError::client)?;
        Ok(self.request(Method::POST, path).header(header::CONTENT_TYPE, "application/json").body(body))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key.secret)
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let response = self.send(request.timeout(REQUEST_TIMEOUT)).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let not_houston = self.not_houston(&response);
        let bytes = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|_| not_houston)
    }

    /// Sends a request and waits for the head of the response.
    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        match tokio::time::timeout(REQUEST_TIMEOUT, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => {
                let reason = format!("no answer within {} s", REQUEST_TIMEOUT.as_secs());
                Err(ChatError::Unreachable { url: self.url.clone(), reason })
            }
        }
    }

    /// The error that a response other than success stands for.
    async fn refusal(&self, response: Response) -> ChatError {
        let (url, status, not_houston) = (self.url.clone(), response.status(), self.not_houston(&response));
        let body = tokio::time::timeout(REQUEST_TIMEOUT, response.bytes()).await;
        let problem = body.ok().and_then(Result::ok).and_then(|body| serde_json::from_slice(&body).ok());
        match problem {
            Some(Problem { code: ProblemCode::Unauthorized, .. }) => {
                let origin = &self.key.origin;
                let text = format!(
                    "{url} rejects the API key from {origin}: give a valid one with --key or HOUSTON_API_KEY"
                );
                ChatError::Other { text, exit: 4 }
            }
            Some(Problem { code, detail, errors, .. }) => {
                let errors = errors.iter().map(|error| {
                    let at = error.pointer.as_deref().or(error.parameter.as_deref()).unwrap_or_default();
                    format!("\n{at}: {}", error.detail)
                });
                let detail = std::iter::once(detail.into_owned()).chain(errors).collect();
                ChatError::Refused { code, detail }
            }
            // A proxy in front of Houston may answer while Houston is unreachable.
            _ if status.is_server_error() => {
                let reason = format!("status {status}");
                ChatError::Unreachable { url, reason }
            }
            _ => not_houston,
        }
    }

    /// The error of an answer that is not Houston's.
    fn not_houston(&self, response: &Response) -> ChatError {
        let (url, status, content) = (&self.url, response.status().as_u16(), content_type(response));
        let text = format!(
            "the server at {url} is not Houston (status {status}, {content}): name another server with --url"
        );
        ChatError::Other { text, exit: 3 }
    }

    /// The answer to a request about a goal; `request` gets the goal's path.
    async fn about<T: DeserializeOwned>(
        &self,
        goal: &str,
        request: impl FnOnce(String) -> Result<RequestBuilder>,
    ) -> Result<T> {
        let missing = || ChatError::GoalNotFound { url: self.url.clone(), goal: goal.to_owned() };
        let path = path_of(goal).ok_or_else(missing)?;
        match self.answer(request(path)?).await {
            Err(ChatError::Refused { code: ProblemCode::NotFound, .. }) => Err(missing()),
            answered => answered,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> ChatError {
        ChatError::Unreachable { url: self.url.clone(), reason: innermost(error) }
    }
}

/// `goal_…` → `/v1/goals/goal_…`; `None` when the text cannot be an id.
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

/// TLS by `ring`; trusts Mozilla's root certificates and those of this machine.
pub(crate) fn tls() -> Result<ClientConfig> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ChatError::client)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// An API key, and the option, variable or file it was read from.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) secret: String,
    pub(crate) origin: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(from {})", self.origin)
    }
}

impl Key {
    /// The first key that is set.
    ///
    /// # Errors
    /// [`ChatError`] when none is set.
    pub(crate) fn find(
        given: Option<String>,
        environment: impl Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Result<Self> {
        let file = folder.join("key");
        let saved = || std::fs::read_to_string(&file).ok();
        given
            .map(|secret| (secret, "--key".to_owned()))
            .or_else(|| environment("HOUSTON_API_KEY").map(|secret| (secret, "HOUSTON_API_KEY".to_owned())))
            .or_else(|| saved().map(|secret| (secret, file.display().to_string())))
            .map(|(secret, origin)| Self { secret: secret.trim().to_owned(), origin })
            .filter(|key| !key.secret.is_empty())
            .ok_or_else(|| ChatError::Other {
                text: format!(
                    "no API key: there is none in --key, in HOUSTON_API_KEY or in {}; `houston dev` writes it there, \
                     `houston key create` makes one",
                    file.display()
                ),
                exit: 4,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_accepts_only_ids() {
        assert_eq!(path_of("goal_01ab").as_deref(), Some("/v1/goals/goal_01ab"));
        assert_eq!(path_of("user_agent_01ab").as_deref(), Some("/v1/user_agents/user_agent_01ab"));
        for bad in ["", "goal", "goal_", "_1", "goal_/../x", "goal_1?x", "Goal_1"] {
            assert_eq!(path_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn address_without_a_scheme_is_refused() {
        let key = Key { secret: "hou_x".to_owned(), origin: "--key".to_owned() };
        for bad in ["localhost:8080", "", "ftp://x", "http://"] {
            let error = Server::new(bad.to_owned(), key.clone()).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
        assert!(Server::new("https://example.com".to_owned(), key).is_ok());
    }

    #[test]
    fn key_sources_are_tried_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = |_: &str| None;
        let find = |given: Option<&str>, environment: &dyn Fn(&str) -> Option<String>| {
            Key::find(given.map(str::to_owned), environment, folder.path())
                .map(|key| (key.secret, key.origin))
        };
        let error = find(None, &nowhere).unwrap_err();
        assert_eq!(error.exit_code(), 4);
        assert!(error.to_string().contains(&folder.path().join("key").display().to_string()), "{error}");

        std::fs::write(folder.path().join("key"), "hou_file\n").unwrap();
        assert_eq!(find(None, &nowhere).unwrap().0, "hou_file");
        let environment = |name: &str| Some(format!("hou_{name}"));
        assert_eq!(
            find(None, &environment).unwrap(),
            ("hou_HOUSTON_API_KEY".to_owned(), "HOUSTON_API_KEY".to_owned())
        );
        assert_eq!(find(Some("hou_x"), &environment).unwrap(), ("hou_x".to_owned(), "--key".to_owned()));
    }
}

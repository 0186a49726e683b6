//! [`Outside`]: what the tools that act outside Houston share: clients, the search provider, the sandbox.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use houston_domain::clock::{Clock as _, SystemClock};
use houston_domain::guard::{Category, Level, Risk, ToolFacts};
use houston_domain::plan::Templates;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_sandbox::{Conversion, Converted, Sandbox, Shell};
pub use houston_web::search::Provider;
use houston_web::search::Search;
use houston_web::{Client, Failure, Fault, Limits, ListedHost, Request, Response, Tls, WebError};
use http::StatusCode;
use secrecy::SecretString;

/// What the tools that act outside Houston are given. Cheap to clone. By default nothing: no page, no search, no code.
#[derive(Clone, Default)]
pub struct Outside {
    /// Requests to pages, search providers and endpoints.
    pub web: Arc<Web>,
    /// Runs code and converts documents; none if this machine cannot build its walls.
    pub sandbox: Option<Sandbox>,
    /// How long code may run unless the call says less, at most [`houston_sandbox::MAX_TIME`].
    pub code_time: Duration,
    /// How many tools code may call in one call of `run_code`.
    pub code_calls: usize,
    /// How many snippets of a user may be tools; 0: none, and `create_tool` is not offered.
    pub snippet_tools: u32,
    /// Runs commands of the system; none unless the operator wants it and this machine can.
    pub shell: Option<Shell>,
    /// How long a command may run.
    pub shell_time: Duration,
    /// Whether workspaces are folders: commands change the files of the agent.
    pub keeps_files: bool,
    /// What plans may be made of.
    pub plan_templates: Arc<Templates>,
}

impl From<&Self> for Outside {
    fn from(outside: &Self) -> Self {
        outside.clone()
    }
}

/// The clients. They are made when the first request is sent: a process whose agents send none has none.
#[derive(Default)]
pub struct Web {
    hosts: Vec<ListedHost>,
    limits: Limits,
    search: Option<SearchSettings>,
    public: OnceLock<Client>,
    listed: OnceLock<Client>,
    provider: OnceLock<Search>,
}

/// A search provider and an account there.
pub struct SearchSettings {
    /// Which provider is asked.
    pub provider: Provider,
    /// Its address, if it is not the provider's own.
    pub url: Option<String>,
    /// The key of the account.
    pub key: Option<SecretString>,
}

impl Web {
    /// `hosts` are those on networks of the operator's own that tools may reach besides the public internet.
    pub fn new(hosts: Vec<ListedHost>, limits: Limits, search: Option<SearchSettings>) -> Self {
        Self { hosts, limits, search, ..Self::default() }
    }

    /// Whether there is a search provider.
    pub fn can_search(&self) -> bool {
        self.search.is_some()
    }

    /// Sends a request: to a listed host through a client for listed hosts, else through one that reaches the public
    /// internet only.
    ///
    /// # Errors
    /// What the model reads: a refusal, or why there is no answer.
    pub(crate) async fn send(&self, request: Request) -> Result<Response, Failed> {
        let listed = (!self.hosts.is_empty()).then(|| made(&self.listed, || self.listed(&self.hosts)));
        let client = match listed.transpose()? {
            Some(listed) if listed.judge(&request.url).is_ok() => listed,
            _ => made(&self.public, || Ok(Client::guarded(tls()?).limits(self.limits).build()))?,
        };
        Ok(client.send(request).await?)
    }

    /// The search provider.
    ///
    /// # Errors
    /// What the model reads.
    pub(crate) fn provider(&self) -> Result<&Search, Failed> {
        made(&self.provider, || {
            let settings = self.search.as_ref().ok_or_else(|| Failed::config("no search provider is set"))?;
            let (provider, key) = (settings.provider, settings.key.clone());
            let base = settings.url.as_deref().or(provider.base());
            let base = base.ok_or_else(|| Failed::config("the address of the SearXNG server is not set"))?;
            let host = ListedHost::of(base).map_err(|refusal| Failed::config(&refusal.to_string()))?;
            let client = self.listed(&[host])?;
            if key.is_none() && provider != Provider::Searxng {
                return Err(Failed::config(&format!("{} is not set", provider.key_variable())));
            }
            Ok(Search::new(provider, client, base, key, Arc::new(|| SystemClock.now())))
        })
    }

    fn listed(&self, hosts: &[ListedHost]) -> Result<Client, Failed> {
        Ok(Client::listed(hosts.to_vec(), tls()?).limits(self.limits).build())
    }
}

/// What is in `cell`; made if it is needed for the first time.
fn made<T>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T, Failed>) -> Result<&T, Failed> {
    match cell.get() {
        Some(made) => Ok(made),
        None => make().map(|made| cell.get_or_init(|| made)),
    }
}

fn tls() -> Result<Tls, Failed> {
    Tls::system().map_err(|error| Failed::config(&format!("no certificates can be read: {error}")))
}

/// What guards rely on about a tool whose requests only read, or may change something.
pub(crate) fn sends_requests(only_read: bool) -> ToolFacts {
    let (level, category, risk) = match only_read {
        true => (Level::Read, Category::NetworkRead, Risk::Read),
        false => (Level::Write, Category::NetworkWrite, Risk::External),
    };
    ToolFacts { level, category, risk, untrusted_output: true, sends_out: true, ..ToolFacts::default() }
}

/// The code of an answer with an error status.
pub(crate) fn code_of(status: StatusCode) -> ToolErrorCode {
    match status.as_u16() {
        400 | 409 | 412 | 422 => ToolErrorCode::ValidationError,
        401 | 403 => ToolErrorCode::PermissionDenied,
        404 | 410 => ToolErrorCode::NotFound,
        429 => ToolErrorCode::RateLimited,
        _ => ToolErrorCode::IoError,
    }
}

/// Why a request has no answer, as the model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    code: ToolErrorCode,
    text: String,
    may_have_been_sent: bool,
}

impl Failed {
    pub(crate) fn new(fault: Fault, text: String) -> Self {
        let code = match fault {
            Fault::Forbidden => ToolErrorCode::PermissionDenied,
            Fault::Invalid => ToolErrorCode::ValidationError,
            Fault::NotFound => ToolErrorCode::NotFound,
            Fault::Timeout => ToolErrorCode::Timeout,
            Fault::RateLimited => ToolErrorCode::RateLimited,
            Fault::Io => ToolErrorCode::IoError,
            Fault::Config => ToolErrorCode::ConfigError,
        };
        Self { code, text, may_have_been_sent: false }
    }

    pub(crate) fn config(reason: &str) -> Self {
        Self::new(Fault::Config, format!("{reason}: the operator of this installation can change that"))
    }

    /// The response to a call that only reads.
    pub(crate) fn of_read(self) -> ToolResponse {
        ToolResponse::failure(self.code, self.text)
    }

    /// The response to a call that changes something: it says so if that may have happened.
    pub(crate) fn of_write(self) -> ToolResponse {
        if self.may_have_been_sent {
            let text = format!("{}. It may have happened: find out before you repeat it.", self.text);
            return ToolResponse::failure(ToolErrorCode::Unknown, text);
        }
        self.of_read()
    }
}

impl From<Failure> for Failed {
    fn from(Failure { fault, text }: Failure) -> Self {
        Self::new(fault, text)
    }
}

impl From<WebError> for Failed {
    fn from(error: WebError) -> Self {
        let failed = Self::new(error.fault(), error.to_string());
        Self { may_have_been_sent: error.may_have_been_sent(), ..failed }
    }
}

/// Reads PDFs in the sandbox, if the machine has one. By default there is none, and no PDF is read.
#[derive(Debug, Clone, Default)]
pub struct PdfReader(pub Option<Sandbox>);

impl PdfReader {
    /// At most `most` bytes of the text, and whether there was more.
    ///
    /// # Errors
    /// Why it cannot be read, in words for a model.
    pub async fn text(&self, pdf: &[u8], most: usize) -> Result<(String, bool), String> {
        let Some(sandbox) = &self.0 else {
            return Err("this installation has no sandbox to read PDFs in".to_owned());
        };
        match sandbox.convert(Conversion::PdfToText, pdf, most).await {
            Ok(Converted::Text { text, .. }) if text.trim().is_empty() => {
                Err("it has no text, maybe only images of pages".to_owned())
            }
            Ok(Converted::Text { text, cut }) => Ok((text, cut)),
            Ok(Converted::Unreadable(reason)) => Err(reason),
            Err(error) => Err(error.to_string()),
        }
    }
}

//! Why a request was not made or got no answer. The texts are for models and people: what, why, what is allowed.
//!
//! They name hosts, never paths, queries or headers, which may contain secrets; and never the address that a name has,
//! which would reveal the names of an internal network.

use std::time::Duration;

use crate::address::ALLOWED_PORTS;

/// A request that was refused before it was sent, or before it was repeated at the address of a redirect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is no URL.
    #[error("this is not a URL ({0}): write a complete one, like `https://example.com/page`")]
    NotAUrl(String),
    /// A scheme other than http and https.
    #[error("`{0}:` URLs are not allowed: only http and https are")]
    Scheme(String),
    /// The URL contains a user name or a password.
    #[error(
        "the URL names a user or a password before the `@`: leave them out; credentials belong in headers"
    )]
    UserInfo,
    /// A port that is not allowed.
    #[error("port {} is not allowed: allowed are {}", .0, ALLOWED_PORTS)]
    Port(u16),
    /// A host that is no name of the domain name system.
    #[error("`{0}` is not a valid host name")]
    HostName(String),
    /// A name that exists only inside a network.
    #[error("`{0}` is a name of a local network: only hosts on the public internet are allowed")]
    LocalName(String),
    /// An address that is not on the public internet, in the URL or as the answer for its name.
    #[error("`{host}` is {what}: only addresses on the public internet are allowed")]
    NotPublic {
        /// The host as the URL has it after normalisation.
        host: String,
        /// What its address is, for instance `in a private network`.
        what: &'static str,
    },
    /// A host (and port) that is not among those that the operator listed, for clients that may reach only these.
    #[error("`{0}` is not a host that the operator of this installation has allowed for this use")]
    NotListed(String),
    /// The connection ended at another address than the one that was judged.
    #[error("the connection to `{0}` ended at another address than expected")]
    OtherPeer(String),
    /// A chain of redirects is too long.
    #[error("`{host}` redirected more than {most} times: ask for the final address itself")]
    Redirects {
        /// The host of the last redirect.
        host: String,
        /// Redirects that are followed.
        most: usize,
    },
    /// A redirect to something that is no URL.
    #[error("`{0}` redirected to something that is not a URL")]
    BadRedirect(String),
    /// A redirect to a URL that is refused.
    #[error("`{host}` redirected to a URL that is refused: {refusal}")]
    RedirectTo {
        /// The host that redirected.
        host: String,
        /// Why its target is refused.
        refusal: Box<Refusal>,
    },
    /// A redirect from https to http.
    #[error(
        "`{0}` redirected from https to http, which is not followed: what is sent would be readable on the way"
    )]
    Downgrade(String),
    /// A request other than GET and HEAD was redirected: it is not repeated at another address.
    #[error(
        "`{host}` answered the {method} request with a redirect (HTTP {status}); the request was not repeated \
             there. If that address is right, send the request to it: {to}"
    )]
    RedirectOfWrite {
        /// The host that redirected.
        host: String,
        /// The method of the request.
        method: String,
        /// The status of the answer.
        status: u16,
        /// Scheme, host and path of the new address, without query.
        to: String,
    },
    /// A redirect of a request that follows none.
    #[error("`{host}` redirects to {to}, which must be asked for by itself")]
    Redirected {
        /// The host that redirected.
        host: String,
        /// Scheme, host and path of the new address, without query.
        to: String,
    },
    /// A secret header, and a URL over which others could read it.
    #[error("the request to `{0}` carries a secret, which is sent over https only")]
    PlainSecret(String),
    /// A header that callers may not set.
    #[error("the header `{0}` cannot be set: the connection sets it")]
    Header(String),
}

/// What a failure means to a tool that made the request. The names are those of the tools' error codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `PERMISSION_DENIED`: a rule forbids it; the same request will be refused again.
    Forbidden,
    /// `VALIDATION_ERROR`: the arguments are wrong.
    Invalid,
    /// `NOT_FOUND`: the name does not exist.
    NotFound,
    /// `TIMEOUT`.
    Timeout,
    /// `RATE_LIMITED`.
    RateLimited,
    /// `IO_ERROR`: the network or the other side failed; another attempt may succeed.
    Io,
    /// `CONFIG_ERROR`: an operator or tenant must change a setting, for instance a key.
    Config,
}

/// Why a tool cannot do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// What it means to the tool.
    pub fault: Fault,
    /// For models. It contains no secret.
    pub text: String,
}

impl Failure {
    pub(crate) fn new(fault: Fault, text: impl Into<String>) -> Self {
        Self { fault, text: text.into() }
    }
}

impl From<String> for Failure {
    /// What is wrong with the arguments.
    fn from(text: String) -> Self {
        Self::new(Fault::Invalid, text)
    }
}

/// What a request waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Looking the name up, connecting, TLS.
    Connect,
    /// The head of the answer.
    Head,
    /// The rest of the answer.
    Body,
}

/// A request that got no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// Refused by a rule.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The name has no address.
    #[error("the host `{0}` was not found: check the spelling of the URL")]
    NoSuchHost(String),
    /// No connection.
    #[error("no connection to `{host}`: {reason}")]
    Connect {
        /// The host of the URL.
        host: String,
        /// What the operating system or TLS reports.
        reason: String,
    },
    /// The connection broke, or what arrived is not HTTP.
    #[error("`{host}` sent no valid answer: {reason}")]
    Broken {
        /// The host of the URL.
        host: String,
        /// What is wrong.
        reason: String,
    },
    /// A limit of time was reached.
    #[error("`{host}` did not answer in time: {} after {} s", .phase.text(), .limit.as_secs())]
    Timeout {
        /// The host of the URL.
        host: String,
        /// What the request waited for.
        phase: Phase,
        /// The limit that was reached.
        limit: Duration,
    },
    /// A write was answered with "303 See Other", and the page that it leads to could not be read.
    #[error("`{host}` received the request and led to another page, which could not be read: {error}")]
    AfterWrite {
        /// The host that received the request.
        host: String,
        /// Why the page could not be read.
        error: Box<WebError>,
    },
    /// A content type that the caller does not accept.
    #[error("`{host}` sent `{got}`, which cannot be read: only text (HTML, Markdown, JSON, XML, …) can")]
    ContentType {
        /// The host of the URL.
        host: String,
        /// The content type, without parameters; `no content type` if there is none.
        got: String,
    },
    /// A compression that was not asked for.
    #[error("`{host}` compressed its answer as `{encoding}`, which was not asked for and cannot be read")]
    Encoding {
        /// The host of the URL.
        host: String,
        /// The content encoding.
        encoding: String,
    },
}

impl Phase {
    fn text(self) -> &'static str {
        match self {
            Self::Connect => "no connection",
            Self::Head => "no answer",
            Self::Body => "the answer was incomplete",
        }
    }
}

impl WebError {
    /// What the failure means to a tool.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Refused(Refusal::NotAUrl(_) | Refusal::Header(_) | Refusal::HostName(_)) => Fault::Invalid,
            Self::Refused(_) => Fault::Forbidden,
            Self::NoSuchHost(_) => Fault::NotFound,
            Self::Timeout { .. } => Fault::Timeout,
            Self::ContentType { .. } => Fault::Invalid,
            Self::AfterWrite { error, .. } => error.fault(),
            Self::Connect { .. } | Self::Broken { .. } | Self::Encoding { .. } => Fault::Io,
        }
    }

    /// Whether the request may have reached the server, so that what it asks for may have happened.
    pub fn may_have_been_sent(&self) -> bool {
        match self {
            Self::Refused(refusal) => matches!(
                refusal,
                Refusal::Redirects { .. }
                    | Refusal::BadRedirect(_)
                    | Refusal::RedirectTo { .. }
                    | Refusal::Downgrade(_)
                    | Refusal::RedirectOfWrite { .. }
                    | Refusal::Redirected { .. }
            ),
            Self::NoSuchHost(_) | Self::Connect { .. } => false,
            Self::Timeout { phase, .. } => *phase != Phase::Connect,
            Self::Broken { .. }
            | Self::AfterWrite { .. }
            | Self::ContentType { .. }
            | Self::Encoding { .. } => true,
        }
    }
}

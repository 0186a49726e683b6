//! The HTTP client, built once and shared by all models.

use std::sync::Arc;
use std::time::Duration;

use houston_domain::model::{ModelError, ModelErrorCode};
use reqwest::redirect;
use reqwest::{Client, NoProxy, Proxy};
use rustls::{ClientConfig, RootCertStore};

use crate::profile::correction::Learned;
use crate::provider::Lookup;

/// Time-outs of a model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is established, TLS included.
    pub connect: Duration,
    /// From sending the request until the first byte of the answer. Reasoning models think first.
    pub first_byte: Duration,
    /// Between two chunks of the answer.
    pub idle: Duration,
    /// From sending the request to the end of the answer, however steadily it arrives.
    pub total: Duration,
    /// How long an unused connection stays in the pool.
    pub pool_idle: Duration,
}

impl Default for Timeouts {
    /// connect 5 s, first byte 60 s, idle 60 s, total 300 s, pool idle 90 s.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(300),
            pool_idle: Duration::from_secs(90),
        }
    }
}

/// The HTTP client and its time-outs. Cheap to clone; build it once, so that all models share its connections, and what their
/// providers have contradicted of their profiles.
#[derive(Debug, Clone)]
pub struct Http {
    pub(crate) client: Client,
    pub(crate) timeouts: Timeouts,
    pub(crate) learned: Learned,
    /// Whether requests that contradict a model's profile are sent once the other way.
    pub(crate) corrects: bool,
}

impl Http {
    /// Builds the client. Proxies are read through `lookup` from `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and
    /// `NO_PROXY` (upper or lower case). Loopback addresses never go through a proxy.
    ///
    /// It speaks HTTP/1.1 only: over HTTP/2 all calls to a provider would share one connection, and calls beyond its
    /// stream limit (about 100) would silently wait in a queue.
    ///
    /// # Errors
    /// `PROVIDER_NOT_CONFIGURED` when a proxy address is invalid or the TLS configuration fails.
    pub fn new(timeouts: Timeouts, lookup: Lookup<'_>) -> Result<Self, ModelError> {
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls()?)
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(timeouts.connect)
            .pool_idle_timeout(timeouts.pool_idle)
            // A redirect would send the key to another host.
            .redirect(redirect::Policy::none())
            // Retries are made by `routing::retry`; retries of the client would multiply them.
            .retry(reqwest::retry::never())
            .user_agent(concat!("houston/", env!("CARGO_PKG_VERSION")))
            .no_proxy();
        for proxy in proxies(lookup)? {
            builder = builder.proxy(proxy);
        }
        let client = builder.build().map_err(|error| not_configured(&error))?;
        Ok(Self { client, timeouts, learned: Learned::default(), corrects: true })
    }

    /// The same for requests that are sent once, as the profile says, whatever was learned of the model.
    pub(crate) fn exact(&self) -> Self {
        Self { learned: Learned::default(), corrects: false, ..self.clone() }
    }
}

/// TLS on `ring`, trusting Mozilla's root certificates and those of the machine (companies add their own there).
/// Works in images without any certificates.
fn tls() -> Result<ClientConfig, ModelError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| not_configured(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The proxies, one per scheme. An invalid address is named by its variable only: it may contain a password.
fn proxies(lookup: Lookup<'_>) -> Result<Vec<Proxy>, ModelError> {
    let value = |name: &str| {
        let value = lookup(name).or_else(|| lookup(&name.to_ascii_lowercase()));
        value.filter(|value| !value.trim().is_empty())
    };
    let around = format!("localhost,127.0.0.0/8,::1,{}", value("NO_PROXY").unwrap_or_default());
    let mut proxies = Vec::new();
    for (name, address, scheme) in [
        ("HTTPS_PROXY", value("HTTPS_PROXY"), Proxy::https as fn(String) -> reqwest::Result<Proxy>),
        ("HTTP_PROXY", value("HTTP_PROXY"), Proxy::http),
        ("ALL_PROXY", value("ALL_PROXY"), Proxy::all),
    ] {
        let Some(address) = address else { continue };
        let proxy = scheme(address).map_err(|_| {
            let message = format!("{name} is not a valid proxy URL");
            ModelError::new(ModelErrorCode::ProviderNotConfigured, message)
        })?;
        proxies.push(proxy.no_proxy(NoProxy::from_string(&around)));
    }
    Ok(proxies)
}

fn not_configured(error: &dyn std::error::Error) -> ModelError {
    ModelError::new(
        ModelErrorCode::ProviderNotConfigured,
        format!("the HTTP client could not be built: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_proxy_is_reported_without_its_password() {
        let error = Http::new(Timeouts::default(), &|name| {
            (name == "https_proxy").then(|| "http://user:secret@[oops".to_owned())
        });
        let error = error.err().unwrap();
        assert_eq!(error.message, "HTTPS_PROXY is not a valid proxy URL");
        assert!(Http::new(Timeouts::default(), &|_| Some("http://proxy:8080".to_owned())).is_ok());
    }
}

//! Opens the connections of a client, with [`Tls`] on ring. Nothing else of the crate does, and here every address is judged: one that is
//! in the URL, each answer to a look-up, and the other end once the connection is open, before a byte is sent.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::error::{Phase, Refusal, WebError};
use crate::network::{Dial, Dialled, Lookup, Stream};
use crate::target::{Reach, Target, public_address};

/// How many addresses of a host are tried.
const ATTEMPTS: usize = 4;

/// Opens connections for one client.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) reach: Arc<Reach>,
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) dial: Arc<dyn Dial>,
    pub(crate) tls: Tls,
    /// For the look-up, all attempts and TLS together.
    pub(crate) limit: Duration,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<Box<dyn Stream>>, WebError> {
        // The client has judged the URL already; what counts is where the connection goes.
        let target = Target::parse(&uri.to_string(), &self.reach)?;
        let host = target.host().to_owned();
        let limit = self.limit;
        let deadline = Instant::now() + limit;
        let late = |host: String| WebError::Timeout { host, phase: Phase::Connect, limit };
        let addresses =
            timeout_at(deadline, self.addresses(&host)).await.map_err(|_| late(host.clone()))??;
        let stream = self.first_of(&host, &addresses, target.port(), deadline).await?;
        if target.url().scheme() != "https" {
            return Ok(TokioIo::new(stream));
        }
        let failed = |reason: String| WebError::Connect { host: host.clone(), reason };
        let name =
            ServerName::try_from(unbracketed(&host).to_owned()).map_err(|error| failed(error.to_string()))?;
        let handshake = TlsConnector::from(self.tls.0).connect(name, stream);
        let stream = timeout_at(deadline, handshake).await.map_err(|_| late(host.clone()))?;
        let stream: Box<dyn Stream> =
            Box::new(stream.map_err(|error| failed(format!("TLS failed: {error}")))?);
        Ok(TokioIo::new(stream))
    }

    /// The addresses of a host that may be reached. If one of several is refused, the others are still used: the
    /// connection goes to these.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, WebError> {
        let found = if let Ok(address) = unbracketed(host).parse() {
            vec![address]
        } else {
            let found = self.lookup.lookup(host.to_owned()).await;
            found.map_err(|_| WebError::NoSuchHost(host.to_owned()))?
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.judge(host, address) {
                Ok(()) => allowed.push(address),
                Err(refusal) => refused = Some(refusal),
            }
        }
        allowed.truncate(ATTEMPTS);
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(refusal)) => Err(refusal.into()),
            (true, None) => Err(WebError::NoSuchHost(host.to_owned())),
        }
    }

    fn judge(&self, host: &str, address: IpAddr) -> Result<(), Refusal> {
        match &*self.reach {
            Reach::Public => public_address(host, address),
            Reach::Listed(_) => Ok(()),
        }
    }

    /// Tries one address after the other; each gets an equal share of the time that is left.
    async fn first_of(
        &self,
        host: &str,
        addresses: &[IpAddr],
        port: u16,
        deadline: Instant,
    ) -> Result<Box<dyn Stream>, WebError> {
        let host = host.to_owned();
        let mut last = WebError::Timeout { host: host.clone(), phase: Phase::Connect, limit: self.limit };
        for (index, address) in addresses.iter().enumerate() {
            let to = SocketAddr::new(*address, port);
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(addresses.len() - index).unwrap_or(1);
            match timeout_at(Instant::now() + share, self.dial.dial(to)).await {
                Ok(Ok(Dialled { stream, peer })) if peer.ip().to_canonical() == address.to_canonical() => {
                    self.judge(&host, peer.ip())?;
                    return Ok(stream);
                }
                Ok(Ok(_)) => return Err(Refusal::OtherPeer(host).into()),
                Ok(Err(error)) => last = WebError::Connect { host: host.clone(), reason: reason(&error) },
                Err(_) => {}
            }
        }
        Err(last)
    }
}

/// An error of the operating system without its number.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        io::ErrorKind::ConnectionReset => "the connection was reset".to_owned(),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "it is unreachable".to_owned(),
        kind => kind.to_string(),
    }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = WebError;
    type Future = BoxFuture<'static, Result<Self::Response, WebError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), WebError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.clone().connect(uri).boxed()
    }
}

impl Connection for Box<dyn Stream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Which certificates a client trusts. Cheap to clone; reading those of the machine is not.
#[derive(Clone)]
pub struct Tls(pub(crate) Arc<ClientConfig>);

impl Tls {
    /// Trusts Mozilla's root certificates and those of the machine, where companies add their own.
    ///
    /// # Errors
    /// When rustls rejects its own settings.
    pub fn system() -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self::with(roots)
    }

    /// Trusts only these certificates (DER).
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn trusting(certificates: impl IntoIterator<Item = Vec<u8>>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(CertificateDer::from(certificate))?;
        }
        Self::with(roots)
    }

    fn with(roots: RootCertStore) -> Result<Self, rustls::Error> {
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

//! TLS of outgoing connections: rustls on ring.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

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

//! A TLS server's certificate for tests: self-signed, for `example.com` and its subdomains, valid until 2100.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use houston_web::Tls;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

/// DER in base64.
const CERTIFICATE: &str = concat!(
    "MIIBqTCCAU+gAwIBAgIUF+RLjBLfJs4N4X7ZwgY8JRiD5BQwCgYIKoZIzj0EAwIwFzEVMBMGA1UEAwwMaG91c3RvbiB0ZXN0",
    "MCAXDTI2MTEyMzIwMDQwNFoYDzIxMDAxMDI2MjAwNDA0WjAXMRUwEwYDVQQDDAxob3VzdG9uIHRlc3QwWTATBgcqhkjOPQIB",
    "BggqhkjOPQMBBwNCAASIADCTX4MdO6uUvwu1hQrJMj0eHd0VyIZIHsDCV9ffcBl72CuaJDnupRHGoWxBGoiQqQcp25hhoTp1",
    "ccSGpUF6o3cwdTAdBgNVHQ4EFgQUhtWtBlBb/nuL4MBYEjpzozAz3Y8wHwYDVR0jBBgwFoAUhtWtBlBb/nuL4MBYEjpzozAz",
    "3Y8wJQYDVR0RBB4wHIINKi5leGFtcGxlLmNvbYILZXhhbXBsZS5jb20wDAYDVR0TAQH/BAIwADAKBggqhkjOPQQDAgNIADBF",
    "AiAD2pRoUIwk9h9NjrJHxPgucQ3pomP3nE9BRgNLzi4XOgIhAJI1Z3W4qTOh4zKFBrjMlPgrfpQR5O/MeV/wOfs91azh",
);

/// Protects nothing: PKCS#8 in base64.
const KEY: &str = concat!(
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgHDUTXZM16UEmWPpLE2da32o94i9t+NvNoq9B6h3jDBOhRANC",
    "AASIADCTX4MdO6uUvwu1hQrJMj0eHd0VyIZIHsDCV9ffcBl72CuaJDnupRHGoWxBGoiQqQcp25hhoTp1ccSGpUF6",
);

/// Trusts the certificate.
pub(crate) fn trusting() -> Tls {
    Tls::trusting([STANDARD.decode(CERTIFICATE).unwrap()]).unwrap()
}

/// Answers with the certificate.
pub(crate) fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from(STANDARD.decode(CERTIFICATE).unwrap());
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(STANDARD.decode(KEY).unwrap()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

//! Which URLs may be asked for, as far as this can be judged before any name is looked up.

use std::net::IpAddr;

use url::{Host, Url};

use crate::address::{PORTS, not_public};
use crate::error::Refusal;

#[cfg(test)]
mod tests;

/// Top-level names that are not on the public internet: reserved by RFC 2606, 6761, 6762 (appendix G), 7686, 8375 and
/// 9476, and names that routers and companies use.
const LOCAL_NAMES: [&str; 18] = [
    "alt",
    "arpa",
    "corp",
    "domain",
    "example",
    "home",
    "internal",
    "intranet",
    "invalid",
    "lan",
    "local",
    "localdomain",
    "localhost",
    "mail",
    "onion",
    "private",
    "test",
    "workgroup",
];

/// The most characters of a URL.
const MAX_LENGTH: usize = 8 * 1024;

/// Whom a client may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Hosts on the public internet.
    Public,
    /// Only these hosts, whatever their addresses are.
    Listed(Vec<ListedHost>),
}

/// A host and a port that the operator of an installation allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedHost {
    host: String,
    port: u16,
}

impl ListedHost {
    /// Reads host and port from a URL, for instance `http://search.internal:8888`.
    ///
    /// # Errors
    /// When the text is not an http or https URL.
    pub fn of(url: &str) -> Result<Self, Refusal> {
        let url = parse(url)?;
        scheme_and_user(&url)?;
        let (host, port) = host_and_port(&url)?;
        Ok(Self { host, port })
    }
}

/// A URL that a client may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: String,
    port: u16,
}

impl Target {
    /// Parses and judges a URL. Spellings are normalised first, as browsers do: `http://0x7f.1` and `http://①②⑦.0.0.1`
    /// are the address 127.0.0.1.
    ///
    /// # Errors
    /// A [`Refusal`] that says what is allowed.
    pub fn parse(text: &str, reach: &Reach) -> Result<Self, Refusal> {
        Self::judge(parse(text)?, reach)
    }

    /// Judges a URL. Fragments and dots at the end of the host are removed.
    ///
    /// # Errors
    /// A [`Refusal`] that says what is allowed.
    pub fn judge(mut url: Url, reach: &Reach) -> Result<Self, Refusal> {
        scheme_and_user(&url)?;
        url.set_fragment(None);
        let (host, port) = host_and_port(&url)?;
        if let Some(Host::Domain(name)) = url.host()
            && name != host
        {
            url.set_host(Some(&host)).map_err(|_| Refusal::HostName(host.clone()))?;
        }
        let is_listed = |listed: &ListedHost| listed.host == host && listed.port == port;
        match reach {
            Reach::Public => is_public(&url, &host, port)?,
            Reach::Listed(hosts) if hosts.iter().any(is_listed) => {}
            Reach::Listed(_) => return Err(Refusal::NotListed(format!("{host}:{port}"))),
        }
        Ok(Self { url, host, port })
    }

    /// The URL, without fragment.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host: a name in small ASCII letters without a dot at the end, or an address (IPv6 in brackets).
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, also if it is the usual one of the scheme.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn parse(text: &str) -> Result<Url, Refusal> {
    if text.len() > MAX_LENGTH {
        let reason = format!("it has {} characters of at most {MAX_LENGTH}", text.len());
        return Err(Refusal::NotAUrl(reason));
    }
    Url::parse(text).map_err(|error| Refusal::NotAUrl(error.to_string()))
}

fn scheme_and_user(url: &Url) -> Result<(), Refusal> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refusal::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refusal::UserInfo);
    }
    Ok(())
}

fn host_and_port(url: &Url) -> Result<(String, u16), Refusal> {
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(Refusal::NotAUrl("it has no host".to_owned()));
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    Ok((host.to_owned(), port))
}

fn is_public(url: &Url, host: &str, port: u16) -> Result<(), Refusal> {
    if !PORTS.contains(&port) {
        return Err(Refusal::Port(port));
    }
    match url.host() {
        Some(Host::Ipv4(address)) => public_address(host, address.into()),
        Some(Host::Ipv6(address)) => public_address(host, address.into()),
        Some(Host::Domain(_)) => public_name(host),
        None => Err(Refusal::NotAUrl("it has no host".to_owned())),
    }
}

/// Whether an address may be reached. Judged for addresses in URLs, for each answer to a look-up, and for the other end
/// of a connection.
pub(crate) fn public_address(host: &str, address: IpAddr) -> Result<(), Refusal> {
    match not_public(address) {
        Some(what) => Err(Refusal::NotPublic { host: host.to_owned(), what }),
        None => Ok(()),
    }
}

fn public_name(host: &str) -> Result<(), Refusal> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    if host.len() > 253 || !host.split('.').all(is_label) {
        return Err(Refusal::HostName(host.to_owned()));
    }
    match host.rsplit_once('.') {
        Some((_, last)) if !LOCAL_NAMES.contains(&last) => Ok(()),
        _ => Err(Refusal::LocalName(host.to_owned())),
    }
}

//! [`OwnReach`]: which addresses servers of tenants and users may have.

use houston_web::{Client, Limits, ListedHost, Reach, Target, Tls};

/// The public internet over https, and the hosts that the operator lists.
#[derive(Debug)]
pub struct OwnReach {
    listed: Vec<ListedHost>,
}

impl OwnReach {
    pub(crate) fn new(hosts: &[String]) -> Self {
        // They were checked with the settings.
        Self { listed: hosts.iter().filter_map(|url| ListedHost::of(url).ok()).collect() }
    }

    fn is_listed(&self, url: &str) -> bool {
        Target::parse(url, &Reach::Listed(self.listed.clone())).is_ok()
    }

    /// Whether a server may have this address, as far as this can be said before its name is looked up.
    pub(crate) fn judge(&self, url: &str) -> Result<(), String> {
        if self.is_listed(url) {
            return Ok(());
        }
        let target = Target::parse(url, &Reach::Public).map_err(|refusal| refusal.to_string())?;
        match target.url().scheme() {
            "https" => Ok(()),
            _ => {
                Err("must begin with https://: its headers and answers would be readable on the way"
                    .to_owned())
            }
        }
    }

    /// A client for this address.
    pub(crate) fn client(&self, url: &str, tls: Tls, limits: Limits) -> Result<Client, String> {
        self.judge(url)?;
        let builder =
            if self.is_listed(url) { Client::listed(self.listed.clone(), tls) } else { Client::guarded(tls) };
        Ok(builder.limits(limits).build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_public_https_or_listed() {
        let reach = OwnReach::new(&["http://127.0.0.1:4711".to_owned()]);
        for url in ["https://mcp.acme.com/mcp", "http://127.0.0.1:4711/mcp"] {
            assert_eq!(reach.judge(url), Ok(()), "{url}");
        }
        for url in [
            "http://mcp.acme.com/mcp",
            "https://127.0.0.1/mcp",
            "http://127.0.0.1:4712/mcp",
            "https://169.254.169.254/latest",
            "https://[::1]/mcp",
            "https://0x7f.1/mcp",
            "https://mcp.internal/mcp",
            "https://user:key@mcp.acme.com/mcp",
            "file:///etc/passwd",
            "npx some-server",
        ] {
            assert!(reach.judge(url).is_err(), "{url}");
        }
    }
}

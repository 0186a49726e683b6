//! The settings in `jobs/console.toml`.

use houston_domain::setting::{WrongSetting, within};
use serde::{Deserialize, Serialize};

use crate::oidc::settings::Oidc;

/// The settings of the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whether it is served.
    pub enabled: bool,
    /// Where its pages are: `/console`.
    pub path: String,
    /// Its own address, `host:port`; empty: that of the API.
    pub address: String,
    /// Hours after which a viewer signs in again; at most 30 days.
    #[serde(deserialize_with = "within::<1, 720, _, _>")]
    pub session_hours: u32,
    /// Seconds after which a live page asks for itself again.
    #[serde(deserialize_with = "within::<1, 3600, _, _>")]
    pub refresh_s: u32,
    /// What is beside the name on each page, such as the name of the environment.
    pub badge: String,
    /// Signing in with an identity provider.
    pub oidc: Oidc,
}

impl Config {
    /// Checks what types cannot say.
    ///
    /// # Errors
    /// [`WrongSetting`] for the first key that is wrong.
    pub fn check(&self) -> Result<(), WrongSetting> {
        let is_plain = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
        };
        let segments = self.path.strip_prefix('/').unwrap_or_default();
        let first = segments.split('/').next().unwrap_or_default();
        if !segments.split('/').all(is_plain) || segments.contains("..") {
            let reason = "must begin with `/`, not end with it, and have only letters, digits, `-` and `_`";
            return Err(WrongSetting::new("/path", reason));
        }
        if ["v1", "approve", "hooks", "mcp", "compat", "ag-ui", "a2a"].contains(&first) {
            return Err(WrongSetting::new("/path", "the API has this path; `/console` is free"));
        }
        self.oidc.check().map_err(|wrong| wrong.below("/oidc"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(path: &str) -> Config {
        Config {
            enabled: true,
            path: path.to_owned(),
            address: String::new(),
            session_hours: 12,
            refresh_s: 3,
            badge: String::new(),
            oidc: Oidc::default(),
        }
    }

    #[test]
    fn paths_that_the_api_has_are_refused() {
        for path in ["/console", "/ops/houston"] {
            assert_eq!(config(path).check(), Ok(()), "{path}");
        }
        for path in ["", "/", "console", "/console/", "/v1/console", "/a b", "/a/../b", "/{x}"] {
            assert_eq!(config(path).check().unwrap_err().pointer, "/path", "{path}");
        }
    }
}

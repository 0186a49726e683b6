//! The settings below `[oidc]` in `jobs/console.toml`: the provider, and what its groups may do.

use houston_domain::scope::{Scope, Scopes};
use houston_domain::setting::WrongSetting;
use serde::{Deserialize, Serialize};

/// Addresses without TLS are taken only where the answer cannot be changed on its way.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
/// The most groups with a role.
const MAX_GROUPS: usize = 100;

/// How people sign in with an identity provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// The issuer of the provider; empty: there is none.
    pub issuer: String,
    /// What the provider calls this console.
    pub client_id: String,
    /// Where browsers reach the console, without its path: `https://ops.example.com`.
    pub public_url: String,
    /// What the sign-in page calls the provider.
    pub name: String,
    /// What is asked for; `openid` is added.
    pub scopes: Vec<String>,
    /// The claim with the groups of a person.
    pub groups_claim: String,
    /// What groups may do: the first that a person is in counts.
    pub groups: Vec<Group>,
}

/// What the members of a group may do, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name in the claim.
    pub group: String,
    /// What its members may do.
    pub role: Role,
    /// The name of the tenant that they see.
    pub tenant: String,
    /// Whether they also see the workers of the installation, and drain them.
    #[serde(default)]
    pub installation: bool,
}

/// What a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Read what belongs to users.
    Viewer,
    /// And write for them, see how the installation works, and mend it.
    Operator,
    /// Everything of the tenant.
    Admin,
}

impl Role {
    fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Viewer => &[Scope::Read],
            Self::Operator => &[Scope::Read, Scope::Post, Scope::Operate],
            Self::Admin => &[Scope::Admin],
        }
    }
}

impl Group {
    /// The scopes of the keys of its members.
    pub(crate) fn scopes(&self) -> Scopes {
        let beside = [Scope::Operate, Scope::Installation];
        self.role.scopes().iter().chain(beside.iter().filter(|_| self.installation)).copied().collect()
    }
}

impl Oidc {
    /// Whether people sign in with a provider.
    pub(crate) fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }

    /// Whether browsers reach the console over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }

    /// What a person in these groups may do.
    pub(crate) fn grant(&self, groups: &[String]) -> Option<&Group> {
        self.groups.iter().find(|of| groups.contains(&of.group))
    }

    pub(crate) fn check(&self) -> Result<(), WrongSetting> {
        let invalid = |pointer, reason| Err(WrongSetting::new(pointer, reason));
        if !self.is_on() {
            return Ok(());
        }
        if !is_protected(&self.issuer) {
            return invalid("/issuer", "must be a URL with https (http only for this machine)");
        }
        if !is_protected(&self.public_url) || self.public_url.ends_with('/') {
            let reason = "must be the address of the console in browsers without its path, as in `https://ops.example.com`";
            return invalid("/public_url", reason);
        }
        if self.client_id.is_empty() {
            return invalid("/client_id", "must be set: the provider gives it out");
        }
        if self.groups_claim.is_empty() {
            return invalid("/groups_claim", "must be set, as in `groups`");
        }
        let is_whole = |of: &Group| !of.group.is_empty() && !of.tenant.is_empty();
        if !(1..=MAX_GROUPS).contains(&self.groups.len()) || !self.groups.iter().all(is_whole) {
            let reason = "must have 1 to 100 of `{ group = \"ops\", role = \"operator\", tenant = \"default\" }`: others may not sign in";
            return invalid("/groups", reason);
        }
        Ok(())
    }
}

/// Whether what is sent to a URL reaches only whom it names.
pub(crate) fn is_protected(url: &str) -> bool {
    let Ok(parsed) = url::Url::parse(url) else { return false };
    let is_loopback = parsed.host_str().is_some_and(|host| LOOPBACK.contains(&host));
    parsed.has_host() && (parsed.scheme() == "https" || parsed.scheme() == "http" && is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(group: &str, role: Role, installation: bool) -> Group {
        Group { group: group.to_owned(), role, tenant: "demo".to_owned(), installation }
    }

    fn settings() -> Oidc {
        Oidc {
            issuer: "https://login.example.com".to_owned(),
            client_id: "houston".to_owned(),
            public_url: "https://ops.example.com".to_owned(),
            groups_claim: "groups".to_owned(),
            groups: vec![group("admins", Role::Admin, true), group("staff", Role::Viewer, false)],
            ..Oidc::default()
        }
    }

    #[test]
    fn what_is_missing_or_not_protected_is_named() {
        assert_eq!(Oidc::default().check(), Ok(()), "it is off");
        assert_eq!(settings().check(), Ok(()));
        let wrong = |key: &str, of: Oidc| assert_eq!(of.check().unwrap_err().pointer, key);
        wrong("/issuer", Oidc { issuer: "http://login.example.com".to_owned(), ..settings() });
        wrong("/public_url", Oidc { public_url: "https://ops.example.com/".to_owned(), ..settings() });
        wrong("/client_id", Oidc { client_id: String::new(), ..settings() });
        wrong("/groups_claim", Oidc { groups_claim: String::new(), ..settings() });
        wrong("/groups", Oidc { groups: Vec::new(), ..settings() });
        for url in ["http://127.0.0.1:80", "http://localhost:4", "http://[::1]:5/x", "https://a"] {
            assert!(is_protected(url), "{url}");
        }
        for url in ["http://127.0.0.1.example.com", "ftp://localhost", "javascript:alert(1)", "/x", ""] {
            assert!(!is_protected(url), "{url}");
        }
    }

    #[test]
    fn first_group_counts_and_others_have_no_role() {
        let settings = settings();
        let of = |groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
            settings.grant(&groups).map(|group| group.scopes().to_string())
        };
        assert_eq!(of(&["staff"]).as_deref(), Some("read"));
        assert_eq!(of(&["staff", "admins"]).as_deref(), Some("operate, admin, installation"));
        assert_eq!(of(&["Staff", "guests"]), None);
        assert_eq!(of(&[]), None);
    }
}

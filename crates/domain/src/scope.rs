//! What an API key may do: a set of scopes.

use std::fmt;
use std::str::FromStr;

names! {
    /// One thing that a key may do.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Scope {
        /// Read what belongs to users: conversations, events, notes, costs.
        Read = "read",
        /// Write for users: post messages, answer questions, cancel runs, change what belongs to a user.
        Post = "post",
        /// Change agents, teams, guards, skills and endpoints, with the providers and models they use.
        ManageAgents = "manage_agents",
        /// See how the installation works: health, state; reload files. Prompts and other texts need `read` besides.
        Operate = "operate",
        /// Everything of the tenant, and what only this scope allows: keys, erasing users.
        Admin = "admin",
        /// Beside `operate`: for the whole installation and not only the tenant of the key, its workers included. The only scope
        /// that `admin` does not include, since an installation may have several tenants.
        Installation = "installation",
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let scopes = "`read`, `post`, `manage_agents`, `operate`, `admin` and `installation`";
        Self::from_name(name).ok_or_else(|| format!("`{name:.40}` is no scope; scopes are {scopes}"))
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Everything of the tenant.
    pub const ADMIN: Self = Self(1 << Scope::Admin as u8);
    /// Everything of the tenant and of the installation.
    pub const ALL: Self = Self(1 << Scope::Admin as u8 | 1 << Scope::Installation as u8);

    /// Whether it allows what needs `scope`.
    pub const fn allow(self, scope: Scope) -> bool {
        let includes = if matches!(scope, Scope::Installation) { 0 } else { Self::ADMIN.0 };
        self.0 & (includes | 1 << scope as u8) != 0
    }

    /// The scopes by name, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & (1 << *scope as u8) != 0)
    }

    /// Whether it has no scope.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A key that is bound to one user has no scope for what belongs to all: the ones of these it may not have.
    pub fn beyond_a_user(self) -> impl Iterator<Item = Scope> {
        self.iter().filter(|scope| !matches!(scope, Scope::Read | Scope::Post))
    }

    /// The scopes with these names. Names of newer versions are left out: they allow nothing here.
    pub fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        names.into_iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Their names.
    pub fn names(self) -> Vec<String> {
        self.iter().map(|scope| scope.as_str().to_owned()).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |set, scope| set | 1 << scope as u8))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_allows_everything_and_other_scopes_themselves() {
        for scope in Scope::ALL {
            let own: Scopes = [scope].into_iter().collect();
            for asked in Scope::ALL {
                let includes = scope == Scope::Admin && asked != Scope::Installation;
                assert_eq!(own.allow(asked), scope == asked || includes, "{scope} {asked}");
            }
            assert!(!Scopes::default().allow(scope));
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
    }

    #[test]
    fn names_of_newer_versions_allow_nothing() {
        let scopes = Scopes::of_names(["post", "fly"]);
        assert_eq!(scopes.to_string(), "post");
        assert!(Scopes::of_names(["fly"]).is_empty());
        assert_eq!("fly".parse::<Scope>().unwrap_err().to_string().matches("`fly`").count(), 1);
    }
}

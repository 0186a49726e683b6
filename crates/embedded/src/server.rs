//! The two servers, and the versions they need.

use std::fmt;

/// One of the two servers this crate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// PostgreSQL.
    Postgres,
    /// Redis, or Valkey in its place.
    Redis,
}

impl Server {
    /// What must be installed, as text for people.
    pub fn needed(self) -> &'static str {
        self.of("PostgreSQL 15 or newer", "Redis 7.0 or newer (or Valkey 7.2 or newer)")
    }

    /// The environment variable with the URL of a server elsewhere, which makes this one unnecessary.
    pub fn setting(self) -> &'static str {
        self.of("DATABASE_URL", "HOUSTON_REDIS_URL")
    }

    /// Its name in the lock file.
    pub(crate) fn word(self) -> &'static str {
        self.of("postgres", "redis")
    }

    /// What belongs to this one of the two.
    pub(crate) fn of<T>(self, postgres: T, redis: T) -> T {
        match self {
            Self::Postgres => postgres,
            Self::Redis => redis,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of("PostgreSQL", "Redis"))
    }
}

/// A program's version: the first two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number, 0 where there is none.
    pub minor: u32,
}

impl Version {
    /// Reads `15.18`, `7.0.15`, `18beta1`, `17devel`; `None` for a text that begins with no digit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|part| {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            part[..digits].parse().ok()
        });
        let major = numbers.next()??;
        Some(Self { major, minor: numbers.next().flatten().unwrap_or(0) })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_read() {
        let read = |text| Version::parse(text).map(|v| (v.major, v.minor));
        assert_eq!(read("15.18"), Some((15, 18)));
        assert_eq!(read("7.0.15"), Some((7, 0)));
        assert_eq!(read("18beta1"), Some((18, 0)));
        assert_eq!(read("9"), Some((9, 0)));
        assert_eq!(read("(PostgreSQL)"), None);
    }
}

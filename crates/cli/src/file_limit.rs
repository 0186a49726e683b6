//! The limit on open files: each client's connection is one. Shells and service managers begin with 1,024, and allow more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than `server.clients.max_connections` and everything else need. Some hosts allow a thousand million, which makes
/// programs slow that close all of them.
const ENOUGH: u64 = 65_536;

/// Raises the limit of this process, and so of the servers it starts, as far as it is allowed to. The API says in the
/// log when that is too low.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
    if current.is_some_and(|current| current < wanted) {
        // Where this is refused, the limit stays what it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_allowed() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).unwrap();
        raise();
        let raised = getrlimit(Resource::Nofile).current;
        assert!(raised >= Some(maximum.unwrap_or(ENOUGH).min(ENOUGH)), "{raised:?}");
    }
}

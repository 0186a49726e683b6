//! The limit on open files: each client connection is one. Shells and service managers start with 1,024 and allow more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than `server.clients.max_connections` and everything else need. Not unlimited: some hosts allow 10^9, which
/// slows down programs that close all possible descriptors.
const TARGET: u64 = 65_536;

/// Raises the limit of this process, and of the servers it starts, up to [`TARGET`] or the hard limit. The API warns in
/// the log when the limit is too low.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(TARGET, |maximum| maximum.min(TARGET));
    if current.is_some_and(|current| current < wanted) {
        // When refused, the limit stays as it was.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_file_limit_is_raised_up_to_the_hard_limit() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(512), maximum }).unwrap();
        raise();
        let raised = getrlimit(Resource::Nofile).current;
        assert!(raised >= Some(maximum.unwrap_or(TARGET).min(TARGET)), "{raised:?}");
    }
}

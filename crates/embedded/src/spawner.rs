//! The thread that starts child processes.
//!
//! Linux sends the death signal when the *thread* that spawned a child ends, not the process. A caller's thread may end at
//! any time (a blocking task, a test), so a separate thread spawns all children and lives as long as the [`Spawner`].

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

/// What servers inherit of the environment: where programs and libraries are, the language, and where temporary files go. Nothing
/// else: keys of models and passwords stand there, too, and what a server's user runs may read its environment.
const INHERITED: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
];

type Request = (Command, Sender<io::Result<Child>>);

#[derive(Debug)]
pub(crate) struct Spawner {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Spawner {
    pub(crate) fn new() -> io::Result<Self> {
        let (requests, received) = channel::<Request>();
        let work = move || {
            for (mut command, reply) in received {
                // The caller waits for the reply, unless its thread panicked: then the death signal stops the child.
                let _ = reply.send(command.spawn());
            }
        };
        let thread = Builder::new().name("houston-spawner".to_owned()).spawn(work)?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Spawns `command` from the long-lived thread, with what it sets itself of the environment and [`INHERITED`].
    pub(crate) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        limit_environment(&mut command);
        let gone = || io::Error::other("the thread that starts servers has ended");
        let (reply, answer) = channel();
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send((command, reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and if it did, nothing would be left to clean up.
            let _ = thread.join();
        }
    }
}

fn limit_environment(command: &mut Command) {
    let own: Vec<_> =
        command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
    let inherited = INHERITED.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let all: Vec<_> = inherited.chain(own).collect();
    command.env_clear().envs(all);
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn children_inherit_a_list_of_variables() {
        let mut command = Command::new("/usr/bin/env");
        command.env("PG_GRANDPARENT_PID", "1").stdout(Stdio::piped());
        let child = Spawner::new().unwrap().spawn(command).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        // The test runner sets many others (`CARGO_…`, `NEXTEST_…`).
        assert!(std::env::vars_os().count() > names.len(), "{names:?}");
        assert!(names.contains(&"PATH") && names.contains(&"PG_GRANDPARENT_PID"), "{names:?}");
        let listed = |name: &&str| INHERITED.contains(name) || *name == "PG_GRANDPARENT_PID";
        assert!(names.iter().all(listed), "{names:?}");
    }
}

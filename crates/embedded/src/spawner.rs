//! The thread that starts child processes.
//!
//! Linux sends the death signal when the *thread* that spawned a child ends, not the process. A caller's thread may end at
//! any time (a blocking task, a test), so a separate thread spawns all children and lives as long as the [`Spawner`].

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

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

    /// Spawns `command` from the long-lived thread.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
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

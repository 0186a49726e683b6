//! The thread that starts the children.
//!
//! Linux sends the death signal when the *thread* that spawned a child ends, not the process. A caller's thread
//! may end at any time (a blocking task, a test), so one thread of our own does all the spawning and lives exactly
//! as long as the [`Spawner`]: until it is dropped, or the process dies.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

type Order = (Command, Sender<io::Result<Child>>);

#[derive(Debug)]
pub(crate) struct Spawner {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Spawner {
    pub(crate) fn new() -> io::Result<Self> {
        let (orders, inbox) = channel::<Order>();
        let work = move || {
            for (mut command, reply) in inbox {
                // Whoever asked waits for the answer, unless its thread was unwound: then the child is stopped
                // by its death signal at the latest.
                let _ = reply.send(command.spawn());
            }
        };
        let thread = Builder::new().name("houston-spawner".to_owned()).spawn(work)?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Spawns `command` from the long-lived thread.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts servers has ended");
        let (reply, answer) = channel();
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send((command, reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())?
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked; and if it did, there is nothing left to clean up.
            let _ = thread.join();
        }
    }
}

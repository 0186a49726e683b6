//! The pipes to the parent: one JSON value per line.

use std::io::{self, BufRead, Read, StdinLock, Write};

use serde::de::DeserializeOwned;

use crate::protocol::Message;

/// Standard input and output of a child.
pub(super) struct Pipes {
    input: StdinLock<'static>,
}

impl Pipes {
    /// Opens the pipes. Nothing is read.
    pub(super) fn open() -> Self {
        Self { input: io::stdin().lock() }
    }

    /// Writes a message.
    ///
    /// # Errors
    ///
    /// The parent is gone.
    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut output = io::stdout().lock();
        output.write_all(&line)?;
        output.flush()
    }

    /// Reads one line; `None` when the parent has closed the pipe.
    pub(super) fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        Ok((self.input.read_line(&mut line)? > 0).then_some(line))
    }

    pub(super) fn value<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.line()?.map(|line| serde_json::from_str(&line).map_err(io::Error::from)).transpose()
    }

    /// Reads to the end.
    pub(super) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.input.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

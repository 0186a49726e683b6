//! Ownership of the folder: an exclusive file lock that ends with its process, and a note about that process in the file.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;

use crate::error::{Result, file};
use crate::server::Server;

/// The lock, held until dropped. The standard library opens files close-on-exec, so child processes do not inherit it.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

/// Information about the holder, for other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) pid: u32,
    pub(crate) servers: Vec<Server>,
    /// The uid that the servers run as. `None` until they are started: other processes then wait without a time-out, because a
    /// download may take minutes.
    pub(crate) uid: Option<u32>,
}

impl Lock {
    /// Takes the lock if it is free; `None` when another process (or another caller in this one) holds it.
    pub(crate) fn take(path: &Path) -> Result<Option<Self>> {
        let options = File::options().create(true).truncate(false).read(true).write(true).to_owned();
        let file = options.open(path).map_err(file("open", path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(self::file("lock", path)(error)),
        }
    }

    /// Replaces the note. Errors are ignored: the note only helps other processes, and a full disk must not stop the owner.
    pub(crate) fn write(&mut self, note: &Note) {
        let text = note.text();
        let emptied = self.file.rewind().and_then(|()| self.file.set_len(0));
        let _ = emptied.and_then(|()| self.file.write_all(text.as_bytes()));
    }
}

impl Note {
    /// Reads the note of the lock's holder. `None` when there is none, or it is being written.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path).ok()?)
    }

    fn text(&self) -> String {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.word()).collect();
        let state = self.uid.map_or("preparing".to_owned(), |uid| format!("running as {uid}"));
        format!("pid {}\nservers {}\n{state}\n", self.pid, servers.join(" "))
    }

    fn parse(text: &str) -> Option<Self> {
        // The text is complete only with its last newline.
        let mut lines = text.strip_suffix('\n')?.lines();
        let pid = lines.next()?.strip_prefix("pid ")?.parse().ok()?;
        let words = lines.next()?.strip_prefix("servers ")?;
        let uid = match lines.next()? {
            "preparing" => None,
            state => Some(state.strip_prefix("running as ")?.parse().ok()?),
        };
        let servers = [Server::Postgres, Server::Redis];
        let servers = servers.into_iter().filter(|server| words.split(' ').any(|word| word == server.word()));
        Some(Self { pid, servers: servers.collect(), uid })
    }
}

#[cfg(test)]
mod tests {
    use super::{Lock, Note};
    use crate::server::Server;

    #[test]
    fn lock_is_exclusive_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none());
        drop(first);
        assert!(Lock::take(&path).unwrap().is_some());
    }

    #[test]
    fn note_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut lock = Lock::take(&path).unwrap().unwrap();
        let long = Note { pid: 1234, servers: vec![Server::Postgres, Server::Redis], uid: None };
        lock.write(&long);
        assert_eq!(Note::read(&path), Some(long));
        let short = Note { pid: 7, servers: vec![Server::Redis], uid: Some(101) };
        lock.write(&short);
        assert_eq!(Note::read(&path), Some(short));
        assert_eq!(Note::parse("pid 7\nservers redis\nrunning as 10"), None);
    }
}

//! A file that knows which tool acted on the world, how often: the witness for "never twice".
//!
//! Every line is one execution, written and synced before the tool answers, so that whatever kills the process
//! afterwards cannot take it back. Several processes may write at once.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One execution of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The call, as the model named it.
    pub call_id: String,
    /// The key that is the same over all tries of one call.
    pub idempotency_key: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// The ledger.
#[derive(Debug)]
pub struct ToolLedger {
    path: PathBuf,
    file: File,
}

impl ToolLedger {
    /// Opens the ledger at `path`, or begins it.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        Ok(Self { path, file })
    }

    /// Where it is, for another process to open.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes an execution down; it is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub fn write(&self, execution: &Execution) -> io::Result<()> {
        let mut line = serde_json::to_vec(execution)?;
        line.push(b'\n');
        // One write at the end of the file: lines of several processes do not mix.
        let written = (&self.file).write(&line)?;
        if written < line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.file.sync_data()
    }

    /// Everything written so far, by whomever.
    ///
    /// # Errors
    ///
    /// What the file system says, or when a line is not whole.
    pub fn executions(&self) -> io::Result<Vec<Execution>> {
        let text = std::fs::read_to_string(&self.path)?;
        text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
    }

    /// The keys under which something was executed more than once, with how often: empty when all is well.
    ///
    /// # Errors
    ///
    /// As [`Self::executions`].
    pub fn repeated(&self) -> io::Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        for execution in self.executions()? {
            *counts.entry(execution.idempotency_key).or_insert(0) += 1;
        }
        counts.retain(|_, count| *count > 1);
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn execution(call: usize, key: &str) -> Execution {
        Execution {
            call_id: format!("call_{call}"),
            idempotency_key: key.to_owned(),
            at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn writers_do_not_mix_and_repetitions_show() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        thread::scope(|scope| {
            for writer in 0..4 {
                let ledger = ToolLedger::open(&path).unwrap();
                scope.spawn(move || {
                    for call in 0..50 {
                        ledger.write(&execution(call, &format!("{writer}-{call}"))).unwrap();
                    }
                });
            }
        });
        let ledger = ToolLedger::open(&path).unwrap();
        assert_eq!(ledger.executions().unwrap().len(), 200);
        assert!(ledger.repeated().unwrap().is_empty());

        ledger.write(&execution(7, "0-7")).unwrap();
        assert_eq!(ledger.repeated().unwrap(), BTreeMap::from([("0-7".to_owned(), 2)]));
        assert_eq!(ToolLedger::open(ledger.path()).unwrap().executions().unwrap().len(), 201);
    }

    #[test]
    fn half_a_line_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = ToolLedger::open(folder.path().join("ledger")).unwrap();
        ledger.write(&execution(1, "a")).unwrap();
        (&ledger.file).write_all(b"{\"call_id\": \"ca").unwrap();
        assert!(ledger.executions().is_err());
    }
}

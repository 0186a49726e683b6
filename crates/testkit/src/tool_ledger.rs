//! A file that records each execution of a tool, to prove that none happened twice.
//!
//! Each line is one execution, written and synced before the tool returns, so that it survives a crash of the process.
//! Several processes may write at the same time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// One execution of a tool, a line of the file:
///
/// ```json
/// {"call_id": "call_0_0", "idempotency_key": "0190…", "at": "2026-11-22T09:00:00Z"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The model's id of the call.
    pub call_id: String,
    /// The key, the same for all attempts of one call.
    pub idempotency_key: String,
    /// Time of the execution.
    pub at: DateTime<Utc>,
}

/// An open ledger.
#[derive(Debug)]
pub struct ToolLedger {
    path: PathBuf,
    file: File,
}

impl ToolLedger {
    /// Opens the ledger at `path`; creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or written.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path)?;
        Ok(Self { path, file })
    }

    /// Appends an execution; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened or written.
    pub fn write(&self, execution: &Execution) -> io::Result<()> {
        let mut line = serde_json::to_vec(execution)?;
        line.push(b'\n');
        // A single append: lines of several processes do not mix.
        let written = (&self.file).write(&line)?;
        if written < line.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.file.sync_data()
    }

    /// All executions so far, of all processes.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a line is incomplete.
    pub fn executions(&self) -> io::Result<Vec<Execution>> {
        let text = std::fs::read_to_string(&self.path)?;
        text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
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
    fn concurrent_writers_do_not_mix_lines() {
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

        ledger.write(&execution(7, "0-7")).unwrap();
        assert_eq!(ToolLedger::open(&path).unwrap().executions().unwrap().len(), 201);
    }

    #[test]
    fn incomplete_line_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = ToolLedger::open(folder.path().join("ledger")).unwrap();
        ledger.write(&execution(1, "a")).unwrap();
        (&ledger.file).write_all(b"{\"call_id\": \"ca").unwrap();
        assert!(ledger.executions().is_err());
    }
}

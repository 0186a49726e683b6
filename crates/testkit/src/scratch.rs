//! A temporary folder for child processes, removed even if they were killed.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long servers of killed children may keep files open.
const PATIENCE: Duration = Duration::from_secs(10);

/// The temporary folder; removed when this is dropped.
#[derive(Debug)]
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> io::Result<Self> {
        // A short name: the paths of sockets are limited.
        let folder = tempfile::Builder::new().prefix("houston-x-").tempdir()?;
        // Under root, Postgres runs as another user, who needs access to the folder.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.0.path().exists() && fs::remove_dir_all(self.0.path()).is_err() && Instant::now() < end {
            sleep(Duration::from_millis(50));
        }
    }
}

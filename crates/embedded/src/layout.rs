//! What lies where inside the folder, and the URLs that follow from it.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, file};
use crate::privilege::{Identity, caller};

/// `sun_path` holds 104 bytes on macOS and 108 on Linux, with the closing zero.
const LONGEST_SOCKET: usize = 103;
const POSTGRES_SOCKET: &str = ".s.PGSQL.5432";

/// The paths of one folder.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    folder: PathBuf,
    sockets: PathBuf,
}

impl Layout {
    /// Creates the folder when it is missing.
    pub(crate) fn new(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(file("create", folder))?;
        let folder = fs::canonicalize(folder).map_err(file("open", folder))?;
        let inside = folder.join("run");
        let sockets = if fits(&inside) { inside } else { outside(&folder) };
        Ok(Self { folder, sockets })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    pub(crate) fn postgres_data(&self) -> PathBuf {
        self.folder.join("pg")
    }

    /// Where a cluster is made before it gets its name.
    pub(crate) fn postgres_draft(&self) -> PathBuf {
        self.folder.join("pg.init")
    }

    pub(crate) fn postgres_log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }

    pub(crate) fn postgres_socket(&self) -> PathBuf {
        self.sockets.join(POSTGRES_SOCKET)
    }

    pub(crate) fn postgres_pid_file(&self) -> PathBuf {
        self.postgres_data().join("postmaster.pid")
    }

    pub(crate) fn redis_data(&self) -> PathBuf {
        self.folder.join("redis")
    }

    pub(crate) fn redis_log(&self) -> PathBuf {
        self.folder.join("redis.log")
    }

    pub(crate) fn redis_socket(&self) -> PathBuf {
        self.sockets.join("redis.sock")
    }

    pub(crate) fn redis_pid_file(&self) -> PathBuf {
        self.redis_data().join("redis.pid")
    }

    pub(crate) fn wheels(&self) -> PathBuf {
        self.folder.join("wheels")
    }

    /// Everything is said in the URL, so that a stray `PGPORT` or `PGSSLMODE` changes nothing.
    pub(crate) fn database_url(&self) -> String {
        format!("postgres://houston@localhost:5432/houston?host={}&sslmode=disable", self.sockets.display())
    }

    pub(crate) fn redis_url(&self) -> String {
        format!("redis+unix://{}", self.redis_socket().display())
    }

    /// Creates the folder for the sockets, for the owner: mode 0700, given to the user the servers run as.
    ///
    /// Fails when the path in `/tmp` was taken by someone else before.
    pub(crate) fn make_sockets_folder(&self, identity: Identity) -> Result<(), Error> {
        match fs::DirBuilder::new().mode(0o700).create(&self.sockets) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let data = [self.postgres_data(), self.redis_data()];
                let owners = data.iter().filter_map(|folder| fs::symlink_metadata(folder).ok());
                let mut trusted: Vec<u32> = owners.map(|found| found.uid()).collect();
                trusted.push(identity.uid());
                self.check_sockets_folder(&trusted)?;
                fs::set_permissions(&self.sockets, fs::Permissions::from_mode(0o700))
                    .map_err(file("set the mode of", &self.sockets))?;
            }
            Err(error) => return Err(file("create", &self.sockets)(error)),
        }
        identity.give(&self.sockets)
    }

    /// Who can open the folder can open the servers, and in `/tmp` anybody may have made it: it must be a real
    /// folder, closed to others, and owned by the caller or one of `trusted`.
    ///
    /// A folder that does not exist passes: there is nothing in it to trust.
    pub(crate) fn check_sockets_folder(&self, trusted: &[u32]) -> Result<(), Error> {
        let Ok(found) = fs::symlink_metadata(&self.sockets) else { return Ok(()) };
        let (uid, mode) = (found.uid(), found.mode() & 0o7777);
        let ours = uid == caller() || trusted.contains(&uid);
        if !self.is_outside() || (ours && found.is_dir() && mode & 0o077 == 0) {
            return Ok(());
        }
        Err(Error::SocketFolder { path: self.sockets.clone(), uid, mode })
    }

    /// Leaves nothing behind in `/tmp`. Does nothing when a socket is still in there.
    pub(crate) fn remove_outside_sockets(&self) {
        if self.is_outside() {
            // Not empty or already gone: either way there is nothing more to do.
            let _ = fs::remove_dir(&self.sockets);
        }
    }

    fn is_outside(&self) -> bool {
        !self.sockets.starts_with(&self.folder)
    }
}

/// Short enough for a socket address, and plain enough to stand unquoted in a URL and in Postgres's
/// comma-separated `unix_socket_directories`.
fn fits(sockets: &Path) -> bool {
    let bytes = sockets.as_os_str().as_bytes();
    bytes.len() + 1 + POSTGRES_SOCKET.len() <= LONGEST_SOCKET
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(byte))
}

/// A short name that every process derives from the folder alone.
fn outside(folder: &Path) -> PathBuf {
    let mut name = "houston-".to_owned();
    for byte in &Sha256::digest(folder.as_os_str().as_bytes())[..8] {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    Path::new("/tmp").join(name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{fits, outside};

    #[test]
    fn long_or_odd_paths_put_the_sockets_outside() {
        assert!(fits(Path::new("/home/me/project_1/.houston/run")));
        assert!(!fits(Path::new(&format!("/{}/run", "x".repeat(100)))));
        for odd in ["/home/my project/run", "/a,b/run", "/a?b/run", "/é/run", "/a%20/run", "/a#b/run"] {
            assert!(!fits(Path::new(odd)), "{odd}");
        }
    }

    #[test]
    fn the_outside_folder_follows_from_the_path_alone() {
        let one = outside(Path::new("/a"));
        assert_eq!(one, outside(Path::new("/a")));
        assert_ne!(one, outside(Path::new("/b")));
        assert!(fits(&one), "{}", one.display());
    }
}

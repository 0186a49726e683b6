//! Paths inside the folder, and the URLs of the servers.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result, file};
use crate::privilege::{Identity, caller};
use crate::server::Server;

/// Longest path of a socket in bytes. `sun_path` has 104 bytes on macOS and 108 on Linux, including the final zero.
const LONGEST_SOCKET: usize = 103;
const POSTGRES_SOCKET: &str = ".s.PGSQL.5432";

/// The paths of one folder.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    folder: PathBuf,
    sockets: PathBuf,
}

impl Layout {
    /// The layout of `folder`, which is created if it does not exist.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
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

    /// Folder with the data of a server.
    pub(crate) fn data(&self, server: Server) -> PathBuf {
        self.folder.join(server.of("pg", "redis"))
    }

    pub(crate) fn log(&self, server: Server) -> PathBuf {
        self.folder.join(format!("{}.log", server.word()))
    }

    pub(crate) fn socket(&self, server: Server) -> PathBuf {
        self.sockets.join(server.of(POSTGRES_SOCKET, "redis.sock"))
    }

    pub(crate) fn pid_file(&self, server: Server) -> PathBuf {
        self.data(server).join(server.of("postmaster.pid", "redis.pid"))
    }

    pub(crate) fn wheels(&self) -> PathBuf {
        self.folder.join("wheels")
    }

    /// The URL contains all settings, so that variables such as `PGPORT` or `PGSSLMODE` have no effect.
    pub(crate) fn database_url(&self) -> String {
        format!("postgres://houston@localhost:5432/houston?host={}&sslmode=disable", self.sockets.display())
    }

    pub(crate) fn redis_url(&self) -> String {
        format!("redis+unix://{}", self.socket(Server::Redis).display())
    }

    /// Creates the folder for the sockets with mode 0700, owned by the user that the servers run as.
    ///
    /// # Errors
    /// [`Error::Other`] when the folder in `/tmp` exists and belongs to another user.
    pub(crate) fn make_sockets_folder(&self, identity: Identity) -> Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.sockets) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let data = [Server::Postgres, Server::Redis].map(|server| self.data(server));
                let owners = data.iter().filter_map(|folder| fs::symlink_metadata(folder).ok());
                let mut trusted: Vec<u32> = owners.map(|found| found.uid()).collect();
                trusted.push(identity.uid());
                self.check_sockets_folder(&trusted)?;
                fs::set_permissions(&self.sockets, fs::Permissions::from_mode(0o700))
                    .map_err(file("set the mode of", &self.sockets))?;
            }
            Err(error) => return Err(file("create", &self.sockets)(error)),
        }
        identity.change_owner(&self.sockets)
    }

    /// Checks the folder for the sockets: users who can open it can connect to the servers, and any user can create folders
    /// in `/tmp`. It must be a real folder, closed to others, and owned by the caller or one of `trusted`. A folder that does
    /// not exist passes.
    pub(crate) fn check_sockets_folder(&self, trusted: &[u32]) -> Result<()> {
        let Ok(found) = fs::symlink_metadata(&self.sockets) else { return Ok(()) };
        let (uid, mode) = (found.uid(), found.mode() & 0o7777);
        let ours = uid == caller() || trusted.contains(&uid);
        if !self.is_outside() || (ours && found.is_dir() && mode & 0o077 == 0) {
            return Ok(());
        }
        let path = self.sockets.display();
        Err(Error::new(format!(
            "{path} is not a folder that only you can open (owner uid {uid}, mode {mode:o}); remove it, or keep the servers in a \
             folder with a shorter path of plain characters"
        )))
    }

    /// Removes the folder in `/tmp`, unless a socket is still in it.
    pub(crate) fn remove_outside_sockets(&self) {
        if self.is_outside() {
            // An error means that it is not empty or was removed before.
            let _ = fs::remove_dir(&self.sockets);
        }
    }

    fn is_outside(&self) -> bool {
        !self.sockets.starts_with(&self.folder)
    }
}

/// Whether the path is short enough for a socket address, and can be used without quotes in a URL and in Postgres'
/// comma-separated `unix_socket_directories`.
fn fits(sockets: &Path) -> bool {
    let bytes = sockets.as_os_str().as_bytes();
    bytes.len() + 1 + POSTGRES_SOCKET.len() <= LONGEST_SOCKET
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(byte))
}

/// A short path in `/tmp` that every process derives from the folder's path alone.
fn outside(folder: &Path) -> PathBuf {
    let hash = Sha256::digest(folder.as_os_str().as_bytes());
    let digits: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Path::new("/tmp").join(format!("houston-{digits}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{fits, outside};

    #[test]
    fn long_or_unusual_paths_have_their_sockets_in_tmp() {
        assert!(fits(Path::new("/home/me/project_1/.houston/run")));
        assert!(!fits(Path::new(&format!("/{}/run", "x".repeat(100)))));
        for odd in ["/home/my project/run", "/a,b/run", "/a?b/run", "/é/run", "/a%20/run", "/a#b/run"] {
            assert!(!fits(Path::new(odd)), "{odd}");
        }
    }

    #[test]
    fn socket_folder_in_tmp_depends_on_the_path_alone() {
        let one = outside(Path::new("/a"));
        assert_eq!(one, outside(Path::new("/a")));
        assert_ne!(one, outside(Path::new("/b")));
        assert!(fits(&one), "{}", one.display());
    }
}

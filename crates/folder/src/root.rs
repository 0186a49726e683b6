//! [`Root`]: the operator's folder with the workspaces of all agentables. [`Folder`]: one of them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, MetadataExt as _, OpenOptions};
use houston_domain::ensure;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::error::{Error, Result, RootError};
use crate::system::is_of_system;

/// The file with the number of the folder.
const NUMBER: &str = "houston-workspaces";
/// The folder of what is being deleted.
pub(crate) const REMOVED: &str = "removed";
/// The folder of an agentable's files.
const FILES: &str = "files";
/// Things that a process does at once in all folders.
const AT_ONCE: usize = 8;
/// Who may enter the folder of an agentable: the user of this process.
const PRIVATE: u32 = 0o700;

/// The operator's folder with the workspaces.
#[derive(Debug)]
pub struct Root {
    pub(crate) dir: Dir,
    /// The path of the folder, for people.
    pub path: PathBuf,
    /// The number of the folder, not 0: another folder has another one.
    pub number: i32,
    at_once: Semaphore,
}

/// The workspace of one agentable.
#[derive(Debug)]
pub struct Folder {
    /// The folder of the agentable.
    pub(crate) home: Dir,
    /// What the agent sees.
    pub(crate) files: Dir,
}

impl Root {
    /// Opens the operator's folder. An empty one gets a number, by which it is recognised.
    ///
    /// # Errors
    /// [`RootError`] says what is wrong with the folder, and what to do.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        ensure!(path.is_absolute(), RootError::Relative(path.to_owned()));
        let path = path.canonicalize().map_err(|error| RootError::Missing(path.to_owned(), error))?;
        ensure!(!is_of_system(&path), RootError::OfSystem(path));
        let missing = |error| RootError::Missing(path.clone(), error);
        let dir = Dir::open_ambient_dir(&path, ambient_authority()).map_err(missing)?;
        ensure!(dir.dir_metadata().map_err(missing)?.mode() & 0o022 == 0, RootError::OpenToOthers(path));
        let number = number(&dir, &path)?;
        make_dir(&dir, REMOVED).map_err(|error| RootError::ReadOnly(path.clone(), error))?;
        Ok(Self { dir, path, number, at_once: Semaphore::new(AT_ONCE) })
    }

    /// Does `work` on a thread that may block; a process does a few of them at once. What has begun goes on when the future is
    /// dropped.
    pub async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        // The semaphore is never closed.
        let _permit = self.at_once.acquire().await;
        let root = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&root)).await {
            Ok(done) => done,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// The workspace of an agentable; `None`: it has no folder yet.
    pub fn find(&self, tenant: Uuid, agentable: Uuid) -> Result<Option<Folder>> {
        match open_folder(&self.dir, &tenant.to_string(), &agentable.to_string()) {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The workspace of an agentable; it is made if there is none.
    pub fn make(&self, tenant: Uuid, agentable: Uuid) -> Result<Folder> {
        let (tenant, agentable) = (tenant.to_string(), agentable.to_string());
        make_dir(&self.dir, &tenant)?;
        let of_tenant = self.dir.open_dir_nofollow(&tenant)?;
        make_dir(&of_tenant, &agentable)?;
        let home = of_tenant.open_dir_nofollow(&agentable)?;
        make_dir(&home, FILES)?;
        let files = home.open_dir_nofollow(FILES)?;
        Ok(Folder { home, files })
    }

    /// The agentables that have a folder, with their tenants.
    pub fn agentables(&self) -> Result<Vec<(Uuid, Uuid)>> {
        let mut found = Vec::new();
        for tenant in ids(&self.dir)? {
            // Removed meanwhile, or no folder.
            let Ok(of_tenant) = self.dir.open_dir_nofollow(tenant.to_string()) else { continue };
            found.extend(ids(&of_tenant)?.into_iter().map(|agentable| (tenant, agentable)));
        }
        Ok(found)
    }
}

impl Folder {
    /// The path of the files, for a program that can be given no handle: that of the open folder, not one that is opened again.
    ///
    /// # Errors
    /// [`Error::Io`], also when the folder has been removed.
    pub fn path_of_files(&self) -> Result<PathBuf> {
        use std::os::fd::AsRawFd as _;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", self.files.as_raw_fd()))?;
        let (there, here) = (std::fs::symlink_metadata(&path)?, self.files.dir_metadata()?);
        let is_same = {
            use std::os::unix::fs::MetadataExt as _;
            (there.dev(), there.ino())
        } == (here.dev(), here.ino());
        if is_same { Ok(path) } else { Err(Error::Io(ErrorKind::NotFound.into())) }
    }
}

fn open_folder(root: &Dir, tenant: &str, agentable: &str) -> std::io::Result<Folder> {
    let home = root.open_dir_nofollow(tenant)?.open_dir_nofollow(agentable)?;
    let files = home.open_dir_nofollow(FILES)?;
    Ok(Folder { home, files })
}

/// The entries of a folder whose names are ids.
fn ids(dir: &Dir) -> Result<Vec<Uuid>> {
    let mut ids = Vec::new();
    for entry in dir.entries()? {
        let name = entry?.file_name();
        let id = name.to_str().and_then(|name| name.parse::<Uuid>().ok().filter(|id| id.to_string() == name));
        ids.extend(id);
    }
    Ok(ids)
}

/// Makes a folder, unless there is one.
pub(crate) fn make_dir(dir: &Dir, name: &str) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(PRIVATE);
    match dir.create_dir_with(name, &builder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The number of the operator's folder. An empty folder gets one.
fn number(dir: &Dir, path: &Path) -> Result<i32, RootError> {
    let damaged = || RootError::Damaged(path.to_owned());
    let read_only = |error| RootError::ReadOnly(path.to_owned(), error);
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    for _ in 0..2 {
        match dir.open_with(NUMBER, &options) {
            Ok(file) => {
                let mut text = String::new();
                file.take(64).read_to_string(&mut text).map_err(|_| damaged())?;
                can_write(dir).map_err(read_only)?;
                return text.trim().parse().ok().filter(|number| *number > 0).ok_or_else(damaged);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return Err(damaged()),
        }
        let mut entries = dir.entries().map_err(|error| RootError::Missing(path.to_owned(), error))?;
        if entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != "lost+found")) {
            return Err(RootError::NotEmpty(path.to_owned()));
        }
        let made = write_new(dir, NUMBER, &format!("{}\n", rand::random_range(1..=i32::MAX)));
        // Another process may have been first: its number is read.
        made.or_else(|error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
            .map_err(read_only)?;
    }
    Err(damaged())
}

fn write_new(dir: &Dir, name: &str, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    let mut file = dir.open_with(name, &options)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Whether something can be written.
fn can_write(dir: &Dir) -> std::io::Result<()> {
    let name = format!("houston-test-{:x}", rand::random::<u64>());
    write_new(dir, &name, "")?;
    dir.remove_file(&name)
}

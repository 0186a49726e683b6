//! Writing and deleting files.

use std::fs::TryLockError;
use std::io::{ErrorKind, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, OpenOptions};
use houston_domain::workspace::WorkspacePath;

use crate::error::{Error, Obstacle, Result};
use crate::read::{Entered, check_kind, enter, name};
use crate::root::Folder;
use crate::walk::is_hollow;

/// The file that is locked.
const LOCK: &str = "lock";
/// The file that is being written. It is beside the files, so that commands do not see it.
const NEW: &str = "new";
/// How long a lock is waited for.
const LOCK_TIME: Duration = Duration::from_secs(2);
/// How often it is tried.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// A workspace that no other process of Houston changes meanwhile.
#[derive(Debug)]
pub struct Locked<'f> {
    folder: &'f Folder,
    _lock: std::fs::File,
}

impl Folder {
    /// Waits until no other process changes the files.
    ///
    /// # Errors
    /// [`Error::Busy`] after two seconds, [`Error::Io`].
    pub fn lock(&self) -> Result<Locked<'_>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).follow(FollowSymlinks::No);
        let lock = self.home.open_with(LOCK, &options)?.into_std();
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Locked { folder: self, _lock: lock }),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIME => thread::sleep(TRY_EVERY),
                Err(TryLockError::WouldBlock) => return Err(Error::Busy),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
    }

    /// Refuses a path at which no file can be written, because of what is there.
    ///
    /// # Errors
    /// [`Error::Obstacle`], [`Error::Io`].
    pub fn check_free(&self, path: &WorkspacePath) -> Result<()> {
        let mut dir = self.files.try_clone()?;
        for folder in path.folders() {
            match enter(&dir, folder)? {
                Entered::Folder(inner) => dir = inner,
                Entered::Missing => return Ok(()),
                Entered::File => return Err(Obstacle::BelowFile { path: folder.to_owned() }.into()),
            }
        }
        check(&dir, path.as_str()).map(|_| ())
    }
}

impl Locked<'_> {
    /// Writes a file, or replaces it: who reads it meanwhile reads the old text or the new one. Once it returns, the new
    /// one is on the disk.
    ///
    /// # Errors
    /// [`Error::Obstacle`] for what is in the way, [`Error::Io`].
    pub fn write(&self, path: &WorkspacePath, content: &str) -> Result<()> {
        let mut dir = self.folder.files.try_clone()?;
        for folder in path.folders() {
            dir = make(&dir, folder)?;
        }
        let home = &self.folder.home;
        clear(&dir, path.as_str())?;
        match home.remove_file(NEW) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        let mut file = home.open_with(NEW, &options)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        // A link that is there now is replaced, and not what it leads to.
        home.rename(NEW, &dir, name(path.as_str()))?;
        sync(&dir)
    }

    /// Deletes a file, and the folders that are empty then. Nothing happens if there is none.
    ///
    /// # Errors
    /// [`Error::Obstacle`] for what is no file, [`Error::Io`].
    pub fn delete(&self, path: &WorkspacePath) -> Result<()> {
        let mut above: Vec<(Dir, &str)> = Vec::new();
        let mut dir = self.folder.files.try_clone()?;
        for folder in path.folders() {
            match enter(&dir, folder)? {
                Entered::Folder(inner) => above.push((std::mem::replace(&mut dir, inner), name(folder))),
                Entered::Missing | Entered::File => return Ok(()),
            }
        }
        let name = name(path.as_str());
        match dir.symlink_metadata(name) {
            Ok(about) if about.is_dir() => return Ok(()),
            Ok(about) => check_kind(&about, path.as_str())?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        match dir.remove_file(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => sync(&dir)?,
        }
        // A folder exists as long as something is in it.
        for (outer, name) in above.iter().rev() {
            if outer.remove_dir(name).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Opens the folder with the last name of `path`, which is made if there is none.
fn make(dir: &Dir, path: &str) -> Result<Dir> {
    // Once more if it is removed meanwhile.
    for _ in 0..2 {
        match enter(dir, path)? {
            Entered::Folder(inner) => return Ok(inner),
            Entered::File => return Err(Obstacle::BelowFile { path: path.to_owned() }.into()),
            Entered::Missing => match dir.create_dir(name(path)) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            },
        }
    }
    Err(Obstacle::Link { path: path.to_owned() }.into())
}

/// Refuses what is in the place of a file and is none. Returns whether there are folders with nothing in them.
fn check(dir: &Dir, path: &str) -> Result<bool> {
    match dir.symlink_metadata(name(path)) {
        Ok(about) if about.is_dir() => {}
        Ok(about) => return check_kind(&about, path).map(|()| false),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let is_free = is_hollow(&dir.open_dir_nofollow(name(path))?, 1)?;
    if is_free { Ok(true) } else { Err(Obstacle::IsFolder { path: path.to_owned() }.into()) }
}

/// Removes folders in the place of a file, if nothing is in them. Refuses everything else that is no file.
fn clear(dir: &Dir, path: &str) -> Result<()> {
    if check(dir, path)? {
        dir.remove_dir_all(name(path))?;
    }
    Ok(())
}

/// Waits until what a folder lists is on the disk.
fn sync(dir: &Dir) -> Result<()> {
    Ok(dir.open(".")?.sync_all()?)
}

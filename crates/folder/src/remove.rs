//! Deleting the folders of agentables that no longer exist.
//!
//! Commands may have left trees of any depth, and folders without permissions. So each folder is first moved to one place,
//! and only what is in that place is deleted: no tree is descended.

use std::ffi::OsString;
use std::io::ErrorKind;

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, Permissions, PermissionsExt as _};
use uuid::Uuid;

use crate::error::Result;
use crate::root::{REMOVED, Root, make_dir};

/// Entries that one call deletes at most; the rest is deleted by later ones.
const MAX_REMOVED: usize = 200_000;

impl Root {
    /// Deletes the folder of an agentable: it is gone at once, and what was in it soon. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn remove(&self, tenant: Uuid, agentable: Uuid) -> Result<bool> {
        let (tenant, agentable) = (tenant.to_string(), agentable.to_string());
        let of_tenant = match self.dir.open_dir_nofollow(&tenant) {
            Ok(of_tenant) => of_tenant,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let removed = self.removed()?;
        let was_there = match of_tenant.rename(&agentable, &removed, new_name()) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        };
        // Fails while the tenant has others.
        let _ = self.dir.remove_dir(&tenant);
        empty(&removed)?;
        Ok(was_there)
    }

    /// Deletes what earlier calls have not.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io).
    pub fn finish_removing(&self) -> Result<()> {
        empty(&self.removed()?)
    }

    fn removed(&self) -> Result<Dir> {
        make_dir(&self.dir, REMOVED)?;
        Ok(self.dir.open_dir_nofollow(REMOVED)?)
    }
}

fn new_name() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Deletes everything in `removed`. Several processes may do it at once.
fn empty(removed: &Dir) -> Result<()> {
    let mut left = MAX_REMOVED;
    let mut folders = names(removed)?;
    while let Some(name) = folders.pop() {
        let Ok(about) = removed.symlink_metadata(&name) else { continue };
        if !about.is_dir() {
            let _ = removed.remove_file(&name);
            continue;
        }
        // A command may have taken the right to list or change it.
        let _ = removed.set_permissions(&name, Permissions::from_mode(0o700));
        let Ok(dir) = removed.open_dir_nofollow(&name) else { continue };
        for inner in names(&dir)? {
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(());
            }
            let Ok(about) = dir.symlink_metadata(&inner) else { continue };
            if !about.is_dir() {
                let _ = dir.remove_file(&inner);
                continue;
            }
            if dir.remove_dir(&inner).is_ok() {
                continue;
            }
            let moved = new_name();
            let _ = dir.set_permissions(&inner, Permissions::from_mode(0o700));
            if dir.rename(&inner, removed, &moved).is_ok() {
                folders.push(moved.into());
            }
        }
        let _ = removed.remove_dir(&name);
    }
    Ok(())
}

fn names(dir: &Dir) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in dir.entries()? {
        names.push(entry?.file_name());
    }
    Ok(names)
}

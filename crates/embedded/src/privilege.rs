//! The user that the servers run as, and the signal that ends them with their owner.
//!
//! Postgres refuses to run as uid 0. When the caller is root, the servers run as another user: the owner of the existing
//! data, or `postgres`, or `nobody`, the first that can reach the folder and the programs. If none can (in a folder below
//! `/root`, for example), Linux has user namespaces: inside, root has uid 1000, which Postgres accepts, and files still belong
//! to root.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, getppid, kill_process, setsid};

use crate::error::{Error, Result, file};

/// The user that a server runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The caller, who is not root.
    Caller,
    /// Another user, because the caller is root.
    User { uid: u32, gid: u32 },
    /// Root with another uid, in a user namespace.
    #[cfg(target_os = "linux")]
    Namespace,
}

impl Identity {
    /// Chooses the user for `programs`, which store data in `data` and must reach `folders`.
    ///
    /// # Errors
    /// When the caller is root and no other user can reach all paths.
    pub(crate) fn choose(data: &[PathBuf], folders: &[&Path], programs: &[&Path]) -> Result<Self> {
        if caller() != 0 {
            return Ok(Self::Caller);
        }
        let owners = data.iter().filter_map(|folder| fs::symlink_metadata(folder).ok());
        let owners = owners.map(|found| (found.uid(), found.gid())).filter(|(uid, _)| *uid != 0);
        let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let named = ["postgres", "nobody"].iter().filter_map(|name| account(&accounts, name));
        let paths = || folders.iter().chain(programs);
        let mut unreachable = None;
        for (uid, gid) in owners.chain(named) {
            match paths().find(|path| !reachable(path, uid, gid)) {
                None => return Ok(Self::User { uid, gid }),
                Some(path) => unreachable = Some(*path),
            }
        }
        #[cfg(target_os = "linux")]
        if programs.iter().all(|program| runs_in_namespace(program)) {
            return Ok(Self::Namespace);
        }
        Err(Error::new(format!(
            "PostgreSQL does not run as root, and neither `postgres` nor `nobody` can reach {}; choose a folder they can \
             reach, or run as another user",
            unreachable.unwrap_or(Path::new("/")).display()
        )))
    }

    /// The uid of the servers' files, and of their processes outside of a namespace.
    pub(crate) fn uid(self) -> u32 {
        match self {
            Self::Caller => caller(),
            Self::User { uid, .. } => uid,
            #[cfg(target_os = "linux")]
            Self::Namespace => 0,
        }
    }

    /// Changes the owner of `path` and everything in it to this identity. Costs one system call if it is the owner already.
    pub(crate) fn change_owner(self, path: &Path) -> Result<()> {
        let (uid, gid) = match self {
            Self::Caller => return Ok(()),
            Self::User { uid, gid } => (uid, gid),
            #[cfg(target_os = "linux")]
            Self::Namespace => (0, 0),
        };
        let found = fs::symlink_metadata(path).map_err(file("look at", path))?;
        if found.uid() == uid { Ok(()) } else { change_owner_of_all(path, uid, gid) }
    }

    /// Prepares `command` to run as this identity, in a session of its own (so that Ctrl-C in the terminal does not reach it),
    /// and to get `death_signal` when the thread that spawned it ends (only on Linux).
    pub(crate) fn apply(self, command: &mut Command, death_signal: Signal) {
        if let Self::User { uid, gid } = self {
            // The standard library also drops the supplementary groups, and does this before `pre_exec`.
            command.uid(uid).gid(gid);
        }
        let owner = std::process::id();
        let prepare = move || {
            #[cfg(target_os = "linux")]
            if self == Self::Namespace {
                enter_namespace()?;
            }
            detach(owner, death_signal)
        };
        #[expect(unsafe_code, reason = "there is no other way to run code between fork and exec")]
        // SAFETY: the closure only makes system calls; it takes no lock and allocates nothing.
        unsafe {
            command.pre_exec(prepare);
        }
    }
}

/// The effective user id of this process.
pub(crate) fn caller() -> u32 {
    geteuid().as_raw()
}

/// Sends `signal` to process `pid`.
pub(crate) fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(i32::try_from(pid).map_err(io::Error::other)?);
    Ok(kill_process(pid.ok_or(Errno::SRCH)?, signal)?)
}

/// Runs in the child, between fork and exec.
fn detach(owner: u32, death_signal: Signal) -> io::Result<()> {
    setsid()?;
    // Last, because a change of user clears it.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(death_signal))?;
    // The owner may have died before the line above, and then no signal would come.
    if cfg!(target_os = "linux") && Pid::as_raw(getppid()).cast_unsigned() != owner {
        return Err(Errno::SRCH.into());
    }
    let _ = death_signal;
    Ok(())
}

/// Runs in the child, between fork and exec: makes root look like user 1000 to the program.
#[cfg(target_os = "linux")]
fn enter_namespace() -> io::Result<()> {
    #[expect(unsafe_code, reason = "other namespaces would need care with open files")]
    // SAFETY: a plain system call on this process, which has one thread after fork.
    unsafe {
        rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER)?;
    }
    let maps = [
        ("/proc/self/setgroups", "deny"),
        ("/proc/self/uid_map", "1000 0 1"),
        ("/proc/self/gid_map", "1000 0 1"),
    ];
    for (path, text) in maps {
        io::Write::write_all(&mut fs::File::options().write(true).open(path)?, text.as_bytes())?;
    }
    Ok(())
}

/// Whether `program` runs in a user namespace. Containers often forbid namespaces; there, other users usually can reach the
/// programs and folders.
#[cfg(target_os = "linux")]
fn runs_in_namespace(program: &Path) -> bool {
    let mut probe = Command::new(program);
    probe.arg("--version").current_dir("/");
    Identity::Namespace.apply(&mut probe, Signal::KILL);
    probe.output().is_ok_and(|output| output.status.success())
}

/// Uid and gid of a user in the text of `/etc/passwd`. macOS writes `nobody` as -2.
fn account(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.parse().ok().or_else(|| text.parse::<i32>().ok().map(i32::cast_unsigned));
    let mut users = accounts.lines().map(|line| line.split(':'));
    let mut fields = users.find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    let _password = fields.next()?;
    Some((number(fields.next()?)?, number(fields.next()?)?))
}

/// Whether this user can pass through every folder above `path`, and can read and execute `path` if it is a file.
fn reachable(path: &Path, uid: u32, gid: u32) -> bool {
    let may = |path: &Path, bits: u32| {
        fs::metadata(path).is_ok_and(|found| {
            let shift = if found.uid() == uid {
                6
            } else if found.gid() == gid {
                3
            } else {
                0
            };
            (found.mode() >> shift) & bits == bits
        })
    };
    path.ancestors().skip(1).all(|above| may(above, 0o1)) && (!path.is_file() || may(path, 0o5))
}

/// Changes the owner of `path` and everything in it, without following symbolic links.
fn change_owner_of_all(path: &Path, uid: u32, gid: u32) -> Result<()> {
    lchown(path, Some(uid), Some(gid)).map_err(file("change the owner of", path))?;
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        for entry in fs::read_dir(path).map_err(file("read", path))? {
            change_owner_of_all(&entry.map_err(file("read", path))?.path(), uid, gid)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::account;

    #[test]
    fn uid_and_gid_are_read_from_passwd() {
        let text = "root:x:0:0:root:/root:/bin/sh\nnobody:*:-2:-2:Unprivileged:/var/empty:/usr/bin/false\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(account(text, "postgres"), Some((101, 104)));
        assert_eq!(account(text, "nobody"), Some((4_294_967_294, 4_294_967_294)));
        assert_eq!(account(text, "redis"), None);
    }
}

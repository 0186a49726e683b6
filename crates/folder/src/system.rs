//! Folders of the system, in which there must be no workspaces.

use std::path::Path;

/// Folders that belong to the system, with all that is in them.
const OF_SYSTEM: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/root/.ssh"];
/// Folders that are shared, so that workspaces need one of their own in them.
const SHARED: [&str; 12] =
    ["/", "/home", "/media", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp"];

/// Whether `path`, which is absolute and without links, is a folder of the system.
pub(crate) fn is_of_system(path: &Path) -> bool {
    OF_SYSTEM.iter().any(|folder| path.starts_with(folder))
        || SHARED.iter().any(|folder| path == Path::new(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_system_are_known() {
        for path in [
            "/",
            "/etc",
            "/etc/houston",
            "/usr/share/x",
            "/proc/1",
            "/dev/shm/x",
            "/var/lib",
            "/home",
            "/tmp",
        ] {
            assert!(is_of_system(Path::new(path)), "{path}");
        }
        for path in ["/var/lib/houston", "/srv/houston", "/home/ann/houston", "/tmp/x", "/etcetera", "/usrx"]
        {
            assert!(!is_of_system(Path::new(path)), "{path}");
        }
    }
}

//! The package for Debian and Ubuntu.
//!
//! It has no scripts, so nothing is started or enabled by installing it: `systemctl enable --now houston-serve houston-work` does
//! that, once `/etc/houston/houston.env` has addresses.

use anyhow::Result;
use flate2::Compression;

use super::archive::{Entries, Entry, ar, tar_gz};
use super::contents::{Contents, SUMMARY};
use super::tarball::completion;
use super::versions;

/// The file with the settings of the units, which an upgrade must not overwrite.
const SETTINGS: &str = "etc/houston/houston.env";

pub(super) fn name(contents: &Contents) -> String {
    format!("houston_{}_{}.deb", versions::debian(&contents.version), contents.machine.debian)
}

pub(super) fn bytes(contents: &Contents, compression: Compression) -> Result<Vec<u8>> {
    let data = data(contents);
    let installed: usize = data.values().map(|entry| entry.bytes.len().div_ceil(1024)).sum();
    let (control, conffiles) = (control(contents, installed), format!("/{SETTINGS}\n"));
    let control = Entries::from([
        ("./conffiles".to_owned(), Entry::file(conffiles.as_bytes())),
        ("./control".to_owned(), Entry::file(control.as_bytes())),
    ]);
    Ok(ar(&[
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &tar_gz(&control, compression)?),
        ("data.tar.gz", &tar_gz(&data, compression)?),
    ]))
}

fn data(contents: &Contents) -> Entries<'_> {
    let mut entries = Entries::new();
    let mut add = |path: &str, entry| entries.insert(format!("./{path}"), entry);
    add("usr/bin/houston", Entry::program(&contents.binary));
    add("usr/share/doc/houston/copyright", Entry::file(&contents.licence));
    for (page, bytes) in &contents.man {
        add(&format!("usr/share/man/man1/{page}"), Entry::file(bytes));
    }
    for (shell, bytes) in &contents.completions {
        add(&format!("usr/share/{}", completion(shell)), Entry::file(bytes));
    }
    for (unit, bytes) in &contents.units {
        if SETTINGS.ends_with(unit.as_str()) {
            // It has passwords and keys.
            add(SETTINGS, Entry { bytes, mode: 0o600 });
        } else {
            add(&format!("usr/lib/systemd/system/{unit}"), Entry::file(bytes));
        }
    }
    entries
}

/// The servers are only recommended: they may be on other machines.
fn control(contents: &Contents, installed_kib: usize) -> String {
    let Contents { machine, glibc, .. } = contents;
    let version = versions::debian(&contents.version);
    format!(
        "Package: houston\n\
         Version: {version}\n\
         Architecture: {}\n\
         Maintainer: The Houston authors <houston@localhost>\n\
         Installed-Size: {installed_kib}\n\
         Depends: libc6 (>= 2.{glibc}), libgcc-s1, ca-certificates\n\
         Recommends: postgresql (>= 15), redis-server (>= 5:7) | valkey-server\n\
         Suggests: bubblewrap\n\
         Section: net\n\
         Priority: optional\n\
         Description: {SUMMARY}\n \
         An API, workers and a command line. Runs survive crashes, restarts and\n \
         deployments: every step is committed to Postgres. `houston dev` runs\n \
         everything on one machine; for servers there are units of systemd, which\n \
         are not enabled.\n",
        machine.debian
    )
}

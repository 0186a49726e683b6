//! The tarball: one folder, to be copied anywhere.

use anyhow::Result;
use flate2::Compression;

use super::archive::{Entries, Entry, tar_gz};
use super::contents::Contents;

pub(super) fn name(contents: &Contents) -> String {
    format!("{}.tar.gz", folder(contents))
}

fn folder(contents: &Contents) -> String {
    format!("houston-{}-{}-linux", contents.version, contents.machine.usual)
}

pub(super) fn bytes(contents: &Contents, compression: Compression) -> Result<Vec<u8>> {
    let folder = folder(contents);
    let mut entries = Entries::new();
    let mut add = |path: &str, entry| entries.insert(format!("{folder}/{path}"), entry);
    add("bin/houston", Entry::program(&contents.binary));
    add("LICENSE", Entry::file(&contents.licence));
    for (page, bytes) in &contents.man {
        add(&format!("share/man/man1/{page}"), Entry::file(bytes));
    }
    for (shell, bytes) in &contents.completions {
        add(&format!("share/{}", completion(shell)), Entry::file(bytes));
    }
    for (unit, bytes) in &contents.units {
        add(&format!("systemd/{unit}"), Entry::file(bytes));
    }
    tar_gz(&entries, compression)
}

/// The path below `share` where a shell looks for completions.
pub(super) fn completion(shell: &str) -> &'static str {
    match shell {
        "bash" => "bash-completion/completions/houston",
        "fish" => "fish/vendor_completions.d/houston.fish",
        _ => "zsh/vendor-completions/_houston",
    }
}

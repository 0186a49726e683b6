//! The npm package: the binary is its command. One package for each machine; npm refuses to install it on another one.

use anyhow::Result;
use flate2::Compression;
use serde_json::json;

use super::archive::{Entries, Entry, tar_gz};
use super::contents::{Contents, DESCRIPTION, LICENCE, SUMMARY};

pub(super) fn name(contents: &Contents) -> String {
    format!("houston-{}-linux-{}.tgz", contents.version, contents.machine.npm)
}

pub(super) fn bytes(contents: &Contents, compression: Compression) -> Result<Vec<u8>> {
    let manifest = json!({
        "name": "houston",
        "version": contents.version,
        "description": SUMMARY,
        "license": LICENCE,
        "bin": { "houston": "bin/houston" },
        "os": ["linux"],
        "cpu": [contents.machine.npm],
        "libc": ["glibc"],
        "files": ["bin/houston"],
        "preferUnplugged": true,
    });
    let manifest = format!("{manifest:#}\n");
    let entries = Entries::from([
        ("package/package.json".to_owned(), Entry::file(manifest.as_bytes())),
        ("package/README.md".to_owned(), Entry::file(DESCRIPTION.as_bytes())),
        ("package/LICENSE".to_owned(), Entry::file(&contents.licence)),
        ("package/bin/houston".to_owned(), Entry::program(&contents.binary)),
    ]);
    tar_gz(&entries, compression)
}

//! Archives of the formats tar and ar, so that the same files give the same bytes everywhere.

use std::io::Write as _;

use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

/// The time of every file, in seconds since 1970: the first that a zip archive can have, 1980-01-01.
pub(super) const TIME: u64 = 315_532_800;

/// A file of an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'c> {
    pub(super) bytes: &'c [u8],
    pub(super) mode: u32,
}

impl<'c> Entry<'c> {
    pub(super) fn file(bytes: &'c [u8]) -> Self {
        Self { bytes, mode: 0o644 }
    }

    pub(super) fn program(bytes: &'c [u8]) -> Self {
        Self { bytes, mode: 0o755 }
    }
}

/// Files by path, sorted.
pub(super) type Entries<'c> = std::collections::BTreeMap<String, Entry<'c>>;

/// The bytes of a file that others read, such as the data of a `.deb`.
pub(super) fn tar_gz(entries: &Entries<'_>, compression: Compression) -> Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), compression);
    let mut folders = std::collections::BTreeSet::new();
    for (path, entry) in entries {
        for (at, _) in path.match_indices('/') {
            if folders.insert(&path[..at]) {
                gzip.write_all(&header(&path[..=at], 0o755, 0, b'5')?)?;
            }
        }
        gzip.write_all(&header(path, entry.mode, entry.bytes.len(), b'0')?)?;
        gzip.write_all(entry.bytes)?;
        gzip.write_all(&[0_u8; BLOCK][..entry.bytes.len().next_multiple_of(BLOCK) - entry.bytes.len()])?;
    }
    gzip.write_all(&[0_u8; 2 * BLOCK])?;
    Ok(gzip.finish()?)
}

const BLOCK: usize = 512;

/// The header of one entry, as POSIX defines `ustar`.
fn header(path: &str, mode: u32, bytes: usize, kind: u8) -> Result<[u8; BLOCK]> {
    ensure!(path.len() <= 100, "`{path}` is too long for a tar archive");
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, path);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{bytes:011o}"));
    put(136, &format!("{TIME:011o}"));
    // The sum is computed with spaces in its place.
    put(148, "        ");
    put(257, "ustar\u{0}00");
    put(265, "root");
    put(297, "root");
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// An archive of the format that `ar` and dpkg read.
pub(super) fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        archive.extend(
            format!("{name:<16}{TIME:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len()).bytes(),
        );
        archive.extend(*bytes);
        archive.extend(&b"\n"[..bytes.len() % 2]);
    }
    archive
}

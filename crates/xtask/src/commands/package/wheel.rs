//! The wheel: no Python, only the binary, which pip puts beside `python` in an environment.

use std::io::{Cursor, Write as _};

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use flate2::Compression;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::archive::{Entries, Entry};
use super::contents::{Contents, DESCRIPTION, LICENCE, SUMMARY};
use super::versions;

pub(super) fn name(contents: &Contents) -> Result<String> {
    Ok(format!("houston-{}-{}.whl", versions::python(&contents.version)?, tag(contents)))
}

/// Any Python 3, no interface of it, and a Linux with this glibc or a newer one.
fn tag(contents: &Contents) -> String {
    format!("py3-none-manylinux_2_{}_{}", contents.glibc, contents.machine.usual)
}

pub(super) fn bytes(contents: &Contents, compression: Compression) -> Result<Vec<u8>> {
    let version = versions::python(&contents.version)?;
    let (metadata, wheel) = (metadata(&version), wheel(contents));
    let info = format!("houston-{version}.dist-info");
    let mut entries = Entries::from([
        (format!("houston-{version}.data/scripts/houston"), Entry::program(&contents.binary)),
        (format!("{info}/METADATA"), Entry::file(metadata.as_bytes())),
        (format!("{info}/WHEEL"), Entry::file(wheel.as_bytes())),
        (format!("{info}/licenses/LICENSE"), Entry::file(&contents.licence)),
    ]);
    let name = format!("{info}/RECORD");
    let record = record(&entries, &name);
    entries.insert(name, Entry::file(record.as_bytes()));
    zipped(&entries, compression)
}

fn metadata(version: &str) -> String {
    format!(
        "Metadata-Version: 2.4\nName: houston\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: {LICENCE}\n\
         License-File: LICENSE\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{DESCRIPTION}"
    )
}

fn wheel(contents: &Contents) -> String {
    let tag = tag(contents);
    format!("Wheel-Version: 1.0\nGenerator: houston-xtask\nRoot-Is-Purelib: false\nTag: {tag}\n")
}

/// The hash and length of each file, and this file itself without either.
fn record(entries: &Entries<'_>, name: &str) -> String {
    let mut record = String::new();
    for (path, Entry { bytes, .. }) in entries {
        let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        record.push_str(&format!("{path},sha256={hash},{}\n", bytes.len()));
    }
    format!("{record}{name},,\n")
}

fn zipped(entries: &Entries<'_>, compression: Compression) -> Result<Vec<u8>> {
    let stored = compression == Compression::none();
    let method = if stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let options = SimpleFileOptions::default()
        .compression_method(method)
        .compression_level((!stored).then(|| i64::from(compression.level())))
        .last_modified_time(DateTime::DEFAULT);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // The files of `.dist-info` come last, as the format asks for: the sorted order has them there.
    for (path, entry) in entries {
        zip.start_file(path.as_str(), options.unix_permissions(entry.mode))?;
        zip.write_all(entry.bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}

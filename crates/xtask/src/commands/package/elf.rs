//! What a Linux binary needs: the architecture, and the version of glibc.

use anyhow::{Result, bail, ensure};

/// The architectures for which packages are made, with their names in each format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine {
    /// In names of tarballs and wheels.
    pub(super) usual: &'static str,
    pub(super) debian: &'static str,
    pub(super) npm: &'static str,
}

const X86_64: Machine = Machine { usual: "x86_64", debian: "amd64", npm: "x64" };
const ARM_64: Machine = Machine { usual: "aarch64", debian: "arm64", npm: "arm64" };

/// Before the number of a version of glibc, in the names of symbols that the binary imports.
const GLIBC: &[u8] = b"GLIBC_2.";
/// Imported by a binary with packed relocations, which glibc reads since 2.36.
const PACKED_RELOCATIONS: (&[u8], u32) = (b"GLIBC_ABI_DT_RELR", 36);

/// The machine for which a binary was built.
///
/// # Errors
/// If it is no binary for Linux, or one for another machine.
pub(super) fn machine(binary: &[u8]) -> Result<Machine> {
    ensure!(binary.starts_with(b"\x7fELF\x02\x01") && binary.len() > 20, "it is no 64-bit binary for Linux");
    match u16::from_le_bytes([binary[18], binary[19]]) {
        62 => Ok(X86_64),
        183 => Ok(ARM_64),
        other => bail!("there are no packages for the architecture {other} of ELF"),
    }
}

/// The oldest glibc with which a binary runs: 36 for 2.36.
///
/// # Errors
/// If it is not linked with glibc.
pub(super) fn glibc(binary: &[u8]) -> Result<u32> {
    let mut newest = None;
    for at in positions(binary, GLIBC) {
        let digits: String = binary[at + GLIBC.len()..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .map(|byte| char::from(*byte))
            .collect();
        newest = newest.max(digits.parse::<u32>().ok());
    }
    let (name, version) = PACKED_RELOCATIONS;
    if positions(binary, name).next().is_some() {
        newest = newest.max(Some(version));
    }
    match newest {
        Some(version) => Ok(version),
        None => bail!("it is not linked with glibc: the packages say which version they need"),
    }
}

/// Where `wanted` occurs, by its first byte, so that a large binary is read quickly in a debug build, too.
fn positions<'b>(bytes: &'b [u8], wanted: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(found) = memchr::memchr(wanted[0], bytes.get(from..)?) {
            let at = from + found;
            from = at + 1;
            if bytes[at..].starts_with(wanted) {
                return Some(at);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A binary with this machine and these names.
    fn elf(machine: u16, names: &[&str]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(18, 0);
        bytes.extend(machine.to_le_bytes());
        bytes.resize(64, 0);
        for name in names {
            bytes.extend(name.bytes().chain([0]));
        }
        bytes
    }

    #[test]
    fn newest_glibc_of_the_imports_is_found() {
        let old = elf(62, &["GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.17", "GLIBC_PRIVATE"]);
        assert_eq!((machine(&old).unwrap(), glibc(&old).unwrap()), (X86_64, 34));
        let packed = elf(183, &["GLIBC_2.34", "GLIBC_ABI_DT_RELR"]);
        assert_eq!((machine(&packed).unwrap(), glibc(&packed).unwrap()), (ARM_64, 36));
    }

    #[test]
    fn other_binaries_are_refused() {
        for (bytes, words) in
            [(b"#!/bin/sh".to_vec(), "no 64-bit binary"), (elf(243, &["GLIBC_2.34"]), "architecture 243")]
        {
            let error = machine(&bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(glibc(&elf(62, &["musl"])).is_err());
    }
}

//! Link options of release builds.

use std::env::var_os;
use std::process::Command;

/// The first glibc whose loader reads packed relocations.
const PACKED_RELOCATIONS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var_os(name).is_some_and(|found| found == value);
    let is_release = is("PROFILE", "release");
    let is_glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_release && is_glibc {
        // Cargo's `strip` does not reach a package whose profile differs from that of the others.
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    let is_native = var_os("HOST") == var_os("TARGET");
    if is_release && is_glibc && is_native && glibc().is_some_and(|version| version >= PACKED_RELOCATIONS) {
        // The addresses that the loader corrects take 22 KB then, instead of 1.5 MB that stay resident. The binary needs
        // this glibc wherever it runs.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

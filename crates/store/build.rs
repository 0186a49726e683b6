//! Embeds the files of `migrations/functions`, and rebuilds the migrator when a migration is added.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=../../migrations");
    // Read when the script runs: a shared target folder may have the script of another checkout.
    let package =
        env::var_os("CARGO_MANIFEST_DIR").ok_or_else(|| io::Error::other("cargo sets CARGO_MANIFEST_DIR"))?;
    let folder = fs::canonicalize(Path::new(&package).join("../../migrations/functions"))?;
    let mut files = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    let mut list = String::new();
    for path in files {
        let name = path.file_stem().unwrap_or_default();
        let _ = writeln!(list, "({name:?}, include_str!({path:?})),");
    }
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("functions.rs"), format!("&[{list}]"))
}

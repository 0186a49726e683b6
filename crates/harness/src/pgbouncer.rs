//! PgBouncer that keeps prepared statements when it shares connections between transactions. Debian 12 has an older one; that
//! of Debian 13 is unpacked with its libraries under `target/tools`, and nothing of it is installed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use houston_testkit::child::output;
use houston_testkit::console::print_status;
use houston_testkit::programs::{alone, apt, apt_get, find};
use houston_testkit::repository;

/// The first version that keeps prepared statements.
const KEEPS_STATEMENTS: (u32, u32) = (1, 21);
/// The release of Debian that has a later one, and the packages that it needs.
const RELEASE: &str = "trixie";
const PACKAGES: [&str; 7] =
    ["pgbouncer", "libc6", "libcares2", "libevent-2.1-7t64", "libpam0g", "libssl3t64", "libsystemd0"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A PgBouncer on this machine.
#[derive(Debug, Clone)]
pub(crate) struct PgBouncer {
    /// Its path.
    pub(crate) program: PathBuf,
    /// As it prints it: `PgBouncer 1.24.1`.
    pub(crate) version: String,
    /// Whether it keeps prepared statements in transaction mode.
    pub(crate) keeps_statements: bool,
}

impl PgBouncer {
    fn at(program: PathBuf) -> Result<Self> {
        let printed = output(Command::new(&program).arg("--version"))?;
        let version = printed.lines().next().unwrap_or_default().trim().to_owned();
        let keeps_statements = numbers(&version).is_some_and(|numbers| numbers >= KEEPS_STATEMENTS);
        Ok(Self { program, version, keeps_statements })
    }

    /// The one on `PATH`; if that is missing or old, Debian's newer one; if that cannot be had, that of the distribution.
    pub(crate) async fn find_or_install() -> Result<Self> {
        let found = installed().map(Self::at).transpose()?;
        if let Some(found) = found.clone().filter(|found| found.keeps_statements) {
            return Ok(found);
        }
        match tokio::task::spawn_blocking(unpack).await?.and_then(Self::at) {
            Ok(unpacked) => return Ok(unpacked),
            Err(error) => print_status(&format!("a newer PgBouncer cannot be had: {error:#}")),
        }
        if let Some(found) = found {
            return Ok(found);
        }
        apt(&["pgbouncer"]).await?;
        Self::at(installed().context("pgbouncer was installed but is neither on PATH nor in /usr/sbin")?)
    }
}

/// The package puts it where only root looks.
fn installed() -> Option<PathBuf> {
    find("pgbouncer").or_else(|| Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|path| path.is_file()))
}

/// Major and minor version, from `PgBouncer 1.18.0`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split_whitespace().last()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Unpacks the packages under `target/tools`, unless they are there; the path of a script that starts PgBouncer with the
/// libraries beside it.
fn unpack() -> Result<PathBuf> {
    let folder = repository::tools().join("pgbouncer");
    let script = folder.join("pgbouncer");
    let _alone = alone()?;
    if script.is_file() {
        return Ok(script);
    }
    ensure!(find("apt-get").is_some() && find("dpkg-deb").is_some(), "there is no apt-get");
    print_status(&format!("fetching PgBouncer of Debian {RELEASE} with apt-get (this happens once)"));
    let packages = folder.join("packages");
    for needed in ["lists/partial", "cache/archives/partial", "packages", "root"] {
        fs::create_dir_all(folder.join(needed))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {} {RELEASE} main\n", site()?);
    fs::write(folder.join("sources.list"), source)?;
    output(apt_in(&folder).args(["update", "-q"]))?;
    output(apt_in(&folder).args(["download", "-q"]).args(PACKAGES).current_dir(&packages))?;
    let root = folder.join("root");
    for package in fs::read_dir(&packages)? {
        output(Command::new("dpkg-deb").arg("-x").arg(package?.path()).arg(&root))?;
    }
    let loader = loader(&root)?;
    let libraries = loader.parent().unwrap_or(&root).display();
    let start = format!(
        "#!/bin/sh\nexec '{}' --library-path '{libraries}' '{}/usr/sbin/pgbouncer' \"$@\"\n",
        loader.display(),
        root.display()
    );
    fs::write(&script, start)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    Ok(script)
}

/// The address from which this machine gets packages of Debian.
fn site() -> Result<String> {
    // An update with one broken source fails, although the others were read.
    let _ = output(apt_get()?.args(["update", "-q"]));
    let mut list = Command::new("apt-get");
    let listed = output(list.args(["indextargets", "--format", "$(LABEL) $(SITE)", "Created-By: Packages"]))?;
    let site = listed.lines().find_map(|line| line.strip_prefix("Debian "));
    Ok(site.context("apt-get has no packages of Debian")?.trim().to_owned())
}

/// `apt-get` with the sources in `folder` alone, which changes nothing outside it.
fn apt_in(folder: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    for (name, path) in [
        ("Dir::Etc::SourceList", folder.join("sources.list")),
        ("Dir::Etc::SourceParts", PathBuf::from("-")),
        ("Dir::State::Lists", folder.join("lists")),
        ("Dir::Cache", folder.join("cache")),
        ("APT::Sandbox::User", PathBuf::from("root")),
    ] {
        apt.arg("-o").arg(format!("{name}={}", path.display()));
    }
    apt
}

/// The program that loads libraries, among them.
fn loader(root: &Path) -> Result<PathBuf> {
    let folders = fs::read_dir(root.join("usr/lib"))?.flatten().map(|folder| folder.path());
    let mut files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let is_loader = |name: &str| name.starts_with("ld-linux") && name.contains(".so");
    let found = files.find(|file| file.file_name().to_str().is_some_and(is_loader));
    Ok(found.context("the package libc6 has no loader")?.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_says_whether_statements_are_kept() {
        assert_eq!(numbers("PgBouncer 1.18.0"), Some((1, 18)));
        assert!(numbers("PgBouncer 1.24.1") >= Some(KEEPS_STATEMENTS));
        assert_eq!(numbers("something else"), None);
    }
}

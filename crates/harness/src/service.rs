//! Builds of the service, and its agent types with more tools.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use houston_testkit::console::print_status;
use houston_testkit::{child, repository};
use memchr::memmem;

/// The path of the binary of the service as it is deployed: `binary`, or one that is built.
pub(crate) async fn built(binary: Option<&Path>) -> Result<PathBuf> {
    if let Some(binary) = binary {
        return Ok(binary.canonicalize()?);
    }
    print_status("building the release binary");
    let program = build("houston-cli", "houston").await?;
    // Recognised by strings of the `faults` crate.
    let text = std::fs::read(&program)?;
    for trace in ["fault injected", "FAILPOINTS"] {
        let found = memmem::find(&text, trace.as_bytes());
        ensure!(found.is_none(), "the release binary contains crash points (`{trace}`)");
    }
    Ok(program)
}

/// Builds the release binary `name` of `package`; returns its path.
pub(crate) async fn build(package: &str, name: &str) -> Result<PathBuf> {
    let mut cargo = repository::cargo();
    cargo.args(["build", "--release", "--quiet", "--package", package, "--bin", name]);
    child::succeed(cargo).await?;
    Ok(repository::target().join("release").join(name))
}

/// Builds the debug binary `name` with the features of tests; returns its path.
pub(crate) async fn build_like_tests(name: &str) -> Result<PathBuf> {
    child::succeed(repository::cargo_build_like_tests(&["--bin", name])).await?;
    Ok(repository::target().join("debug").join(name))
}

/// Writes the agent type `kind` to the folder `jobs`, with more tools.
pub(crate) fn add_tools(jobs: &Path, kind: &str, tools: &[&str]) -> Result<()> {
    let file = Path::new("agents").join(format!("{kind}.toml"));
    let text = std::fs::read_to_string(repository::root().join("jobs").join(&file))?;
    let added: String = tools.iter().map(|tool| format!("\"{tool}\", ")).collect();
    let changed = text.replacen("tools = [", &format!("tools = [{added}"), 1);
    ensure!(changed != text, "jobs/{} has no tools", file.display());
    std::fs::create_dir_all(jobs.join("agents"))?;
    Ok(std::fs::write(jobs.join(file), changed)?)
}

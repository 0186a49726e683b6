//! `houston skills`: imports skills from folders and zips, lists, prints and removes them.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Subcommand;
use houston_api::{Local, LocalError};
use houston_domain::skill::{SkillDocument, SkillSource as Source, SkillSummary, file};
use houston_protocol::page::Page;
use houston_protocol::problem::ProblemCode;
use houston_protocol::skill::{SkillEntryResponse, SkillRequest, SkillResponse};
use reqwest::Method;
use serde_json::{Value, json};

use super::agentable::{at, one_line, print_table, segment, yes_or_no};
use super::owner::OwnerArg;
use super::{Context, Failure, Result};
use crate::output::{print, print_json, print_stderr};
use crate::skill_source::{self, SkillSource};

/// Import skills (SKILL.md of agentskills.io) for all users of a tenant or for one, list or remove them.
#[derive(Debug, Subcommand)]
pub(crate) enum Skills {
    /// Create skills, or replace those of the same names
    Import {
        /// A SKILL.md, a folder or zip with one, or a folder or zip of such folders
        path: PathBuf,
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// List the skills of a tenant or user, and those that come with the installation
    List {
        #[command(flatten)]
        owner: OwnerArg,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the SKILL.md of a skill, and the names of its files
    Show {
        /// Its name
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Delete a skill
    Remove {
        /// Its name
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
    },
}

impl Skills {
    pub(crate) fn run(self, context: Context) -> Result<()> {
        match self {
            Self::Import { path, owner } => {
                let skills = skill_source::read(&path).map_err(Failure::Usage)?;
                let skills: Vec<(SkillSource, SkillDocument)> =
                    skills.into_iter().map(checked).collect::<Result<_, _>>()?;
                owner.with_api(context, async |api, of| {
                    for (source, document) in skills {
                        import(&api, &format!("{of}/skills/{}", document.name), source).await?;
                    }
                    Ok(())
                })
            }
            Self::List { owner, json } => {
                let bundled: Vec<SkillSummary> =
                    context.registry.skills().iter().map(|skill| skill.summary.clone()).collect();
                owner.with_api(context, async |api, of| {
                    let skills: Page<SkillEntryResponse> = api.get(&format!("{of}/skills")).await?;
                    list(&skills.data, &bundled, json);
                    Ok(())
                })
            }
            Self::Show { name, owner } => owner.with_api(context, async |api, of| {
                let skill = api.get(&format!("{of}/skills/{}", segment(&name))).await;
                let skill: SkillResponse = skill.map_err(|error| not_found(&name, error))?;
                skill.text.lines().for_each(print);
                for (path, text) in &skill.files {
                    print_stderr(&format!("{path}: {} bytes", text.len()));
                }
                Ok(())
            }),
            Self::Remove { name, owner } => owner.with_api(context, async |api, of| {
                let removed = api.delete(&format!("{of}/skills/{}", segment(&name))).await;
                removed.map_err(|error| not_found(&name, error))?;
                print(&format!("{name}: removed"));
                Ok(())
            }),
        }
    }
}

/// A skill with what its text says.
fn checked(source: SkillSource) -> Result<(SkillSource, SkillDocument)> {
    let of = source.folder.clone().unwrap_or_else(|| "SKILL.md".to_owned());
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(anyhow!("{of}: {error}"));
    let document =
        SkillDocument::read(&source.text, source.folder.as_deref()).map_err(|error| wrong(&error))?;
    file::check(&source.files).map_err(|error| wrong(&error))?;
    Ok((source, document))
}

/// Creates the skill at this path, or replaces it.
async fn import(api: &Local, path: &str, source: SkillSource) -> Result<()> {
    let wanted = SkillRequest { text: source.text, files: source.files, enabled: None };
    let skill: SkillResponse = api.change(Method::PUT, path, &wanted).await?;
    let state = if skill.enabled { "" } else { ", not enabled (default_enabled)" };
    print(&format!("{}: imported with {} files{state}", skill.name, skill.files.len()));
    for warning in skill.warnings.iter().chain(&source.left_out) {
        print_stderr(&format!("{}: {warning}", skill.name));
    }
    Ok(())
}

fn not_found(name: &str, error: LocalError) -> Failure {
    let missing = || {
        anyhow!("there is no skill `{}`; `houston skills list` prints those there are", one_line(name, 80))
    };
    // What is not the name of a skill is the name of none.
    if error.is(ProblemCode::InvalidRequest) {
        return Failure::Other(missing());
    }
    Failure::from(error).or_missing(missing)
}

fn list(skills: &[SkillEntryResponse], bundled: &[SkillSummary], json: bool) {
    if json {
        let stored = skills.iter().map(|skill| json!(skill));
        let bundled = bundled.iter().map(|skill| {
            json!({"name": skill.name, "brief": skill.brief, "source": Source::Bundled, "enabled": skill.enabled})
        });
        return print_json(&json!({"skills": stored.chain(bundled).collect::<Vec<Value>>()}));
    }
    if skills.is_empty() && bundled.is_empty() {
        return print("there are no skills; `houston skills import PATH` creates some");
    }
    let row = |[name, source, brief]: [&str; 3], enabled: bool, changed: String| {
        [name.to_owned(), source.to_owned(), yes_or_no(enabled), changed, one_line(brief, 80)]
    };
    let stored = skills
        .iter()
        .map(|skill| row([&skill.name, &skill.source, &skill.brief], skill.enabled, at(skill.updated_at.0)));
    let bundled = bundled
        .iter()
        .map(|skill| row([&skill.name, skill.source.as_str(), &skill.brief], skill.enabled, String::new()));
    print_table(["NAME", "OF", "ENABLED", "CHANGED", "WHAT FOR"], stored.chain(bundled));
}

//! The record of `cargo xtask evidence`, and the figures that documents quote of it.
//!
//! The record is a text: for each part a line with its outcome, its commit and its time, the command, and what that printed.
//! Documents have a block between two marks, which is a template with the figures of the record. A line of the template
//! with a figure that is not in the record is left out. A figure is `{part; line; n}`: of the first line of the part that
//! begins so, the nth word that is a number, from 0. `line` may be `first > second`, a line behind another one, or `end`,
//! the last line. `{part; date}` and `{part; commit}` are those of the part.

use std::fmt;

use anyhow::{Context, Result};

use crate::repository;

/// The record, in the repository.
pub const RECORD: &str = "crates/harness/evidence/record.txt";
/// Documents that quote it, and the templates of their blocks.
pub const QUOTING: [(&str, &str); 2] = [
    ("README.md", "crates/harness/evidence/README.txt"),
    ("deploy/README.md", "crates/harness/evidence/deploy.txt"),
];

const BEGIN: &str = "<!-- written by `cargo xtask evidence` -->\n";
const END: &str = "<!-- end of what is written -->";
/// What begins the line of a part.
const MARK: &str = "══ ";

/// The outcome of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub part: String,
    pub passed: bool,
    pub commit: String,
    /// When it ended: `2026-11-29 23:27 UTC`.
    pub ended: String,
    pub command: String,
    pub printed: String,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, commit, ended, command, printed, .. } = self;
        let outcome = if self.passed { "passed" } else { "failed" };
        writeln!(f, "{MARK}{part}: {outcome}, commit {commit}, {ended}\n$ {command}")?;
        writeln!(f, "{}\n", printed.trim_end())
    }
}

impl Section {
    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.split_once("\n$ ")?;
        let (command, printed) = rest.split_once('\n')?;
        let (part, head) = head.split_once(": ")?;
        let [outcome, commit, ended] = head.split(", ").collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            part: part.to_owned(),
            passed: outcome == "passed",
            commit: commit.strip_prefix("commit ")?.to_owned(),
            ended: ended.to_owned(),
            command: command.to_owned(),
            printed: printed.trim_end().to_owned(),
        })
    }

    fn figure(&self, line: &str, nth: usize) -> Option<&str> {
        let mut lines = self.printed.lines().map(str::trim);
        let mut numbers = match line {
            "end" => lines.next_back()?,
            path => {
                path.split(" > ").try_fold("", |_, begin| lines.find_map(|line| line.strip_prefix(begin)))?
            }
        }
        .split_whitespace()
        .map(|word| word.trim_end_matches(','))
        .filter(|word| word.parse::<f64>().is_ok());
        numbers.nth(nth)
    }
}

/// The sections of a record.
///
/// # Errors
/// If a section has another form.
pub fn parse(record: &str) -> Result<Vec<Section>> {
    let sections = record.split(MARK).skip(1);
    sections
        .map(|text| Section::parse(text).with_context(|| format!("not a section of a record: {text}")))
        .collect()
}

/// The documents that quote the record of the repository: the path of each, what it says, and what it should say.
///
/// # Errors
/// If a file cannot be read, or a document has no block.
pub fn documents() -> Result<Vec<(&'static str, String, String)>> {
    let read = |path: &str| {
        std::fs::read_to_string(repository::root().join(path)).with_context(|| format!("reading {path}"))
    };
    let sections = parse(&read(RECORD)?)?;
    let quoting = QUOTING.iter().map(|(path, template)| {
        let (is, block) = (read(path)?, quote(&read(template)?, &sections));
        let should = is.split_once(BEGIN).zip(is.split_once(END));
        let ((before, _), (_, after)) = should.with_context(|| format!("{path} has no block of figures"))?;
        let should = format!("{before}{BEGIN}{block}{END}{after}");
        Ok((*path, is, should))
    });
    quoting.collect()
}

/// The template with the figures of the record.
fn quote(template: &str, sections: &[Section]) -> String {
    let lines = template.lines().filter_map(|line| {
        let mut pieces = line.split('{');
        let mut text = pieces.next()?.to_owned();
        for piece in pieces {
            let (figure, rest) = piece.split_once('}')?;
            text = text + &value(figure, sections)? + rest;
        }
        Some(text + "\n")
    });
    lines.collect()
}

fn value(figure: &str, sections: &[Section]) -> Option<String> {
    let words: Vec<&str> = figure.split("; ").collect();
    let section = sections.iter().find(|section| words.first() == Some(&section.part.as_str()))?;
    match words[1..] {
        ["commit"] => Some(section.commit.clone()),
        ["date"] => section.ended.get(..10).map(str::to_owned),
        [line, nth] => section.figure(line, nth.parse().ok()?).map(grouped),
        _ => None,
    }
}

/// `1279` as `1,279`.
fn grouped(number: &str) -> String {
    if number.contains('.') {
        return number.to_owned();
    }
    let groups: Vec<_> = number.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_has_the_figures_of_the_record() {
        let section = Section {
            part: "speed".to_owned(),
            passed: true,
            commit: "abc".to_owned(),
            ended: "2026-11-30 00:20 UTC".to_owned(),
            command: "cargo xtask bench".to_owned(),
            printed: "at 32: runs/s   1279  ≥ 2500\n  parts  0.54 / 0.67\nat 128: runs/s 9\n  parts  0.4\n66 of 67 cases, 92 s".to_owned(),
        };
        let sections = parse(&format!("A title\n\n{section}")).unwrap();
        assert_eq!(sections, [section]);
        let template = "{speed; at 32; 0} a second, {speed; at 128 > parts; 0} ms\nno {speed; other; 0}\n\
                        {speed; end; 1} of {speed; parts; 1} on {speed; date} ({speed; commit})";
        assert_eq!(quote(template, &sections), "1,279 a second, 0.4 ms\n67 of 0.67 on 2026-11-30 (abc)\n");
        assert_eq!(grouped("1234567"), "1,234,567");
        assert!(parse("══ speed: passed").is_err());
    }
}

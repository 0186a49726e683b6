//! How the formats write a version. The binary says it as semver does (`1.2.0-rc.1`), and so do the tarball and npm; Debian and Python
//! have rules of their own, by which they decide what is newer.

use anyhow::{Context, Result};

/// As Debian writes it: `1.2.0~rc.1`. What follows a `~` comes before the version without it, so that a release replaces its candidates.
pub(super) fn debian(version: &str) -> String {
    let (release, candidate, build) = parts(version);
    let mut written = release.to_owned();
    // A `-` would begin the revision of a package.
    if let Some(candidate) = candidate {
        written.push_str(&format!("~{}", candidate.replace('-', ".")));
    }
    if let Some(build) = build {
        written.push_str(&format!("+{}", build.replace('-', ".")));
    }
    written
}

/// As PEP 440 writes it: `1.2.0rc1`.
///
/// # Errors
/// If the pre-release is none that PEP 440 knows in this order: alpha, beta, rc.
pub(super) fn python(version: &str) -> Result<String> {
    let (release, candidate, build) = parts(version);
    let mut written = release.to_owned();
    if let Some(candidate) = candidate {
        let candidate = python_candidate(candidate).with_context(|| {
            format!(
                "a wheel cannot have the version `{version}`: pre-releases are called alpha.1, beta.1 or rc.1"
            )
        })?;
        written.push_str(&candidate);
    }
    if let Some(build) = build {
        written.push_str(&format!("+{}", build.replace('-', ".").to_ascii_lowercase()));
    }
    Ok(written)
}

/// `rc1` for `rc.1`, if PEP 440 knows the word.
fn python_candidate(candidate: &str) -> Option<String> {
    let end = candidate.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(candidate.len());
    let (word, number) = candidate.split_at(end);
    let word = match word {
        "alpha" => "a",
        "beta" => "b",
        "rc" => "rc",
        _ => return None,
    };
    let number = number.trim_start_matches('.');
    let number = if number.is_empty() { 0 } else { number.parse::<u32>().ok()? };
    Some(format!("{word}{number}"))
}

/// The release, its candidate and its build: `1.2.0`, `rc.1` and `abc` of `1.2.0-rc.1+abc`.
fn parts(version: &str) -> (&str, Option<&str>, Option<&str>) {
    let (version, build) = match version.split_once('+') {
        Some((version, build)) => (version, Some(build)),
        None => (version, None),
    };
    match version.split_once('-') {
        Some((release, candidate)) => (release, Some(candidate), build),
        None => (version, None, build),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_releases_are_written_as_each_format_sorts_them() {
        for (version, of_debian, of_python) in [
            ("1.2.0", "1.2.0", "1.2.0"),
            ("1.2.0-rc.1", "1.2.0~rc.1", "1.2.0rc1"),
            ("1.2.0-alpha", "1.2.0~alpha", "1.2.0a0"),
            ("1.2.0-beta2", "1.2.0~beta2", "1.2.0b2"),
            ("1.2.0-rc.1+Build-7", "1.2.0~rc.1+Build.7", "1.2.0rc1+build.7"),
            ("1.2.0+abc", "1.2.0+abc", "1.2.0+abc"),
        ] {
            assert_eq!(debian(version), of_debian);
            assert_eq!(python(version).unwrap(), of_python);
        }
        for unknown in ["1.2.0-nightly.3", "1.2.0-rc.1.2", "1.2.0-1"] {
            let error = python(unknown).unwrap_err().to_string();
            assert!(error.contains(unknown) && error.contains("alpha.1, beta.1 or rc.1"), "{error}");
        }
    }
}

//! Reads skills from folders, zips and single files. What is read is bounded before it is in memory, and no path leads out of the
//! folder or the zip.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use houston_domain::skill::document::MAX_TEXT_BYTES;
use houston_domain::skill::entry::TEXT_FILE;
use houston_domain::skill::file::{FOLDERS, MAX_FILE_BYTES, is_path};
use zip::ZipArchive;

/// Entries of a zip, and of a folder.
const MAX_ENTRIES: usize = 1_000;
/// Skills of one import.
const MAX_SKILLS: usize = 100;
/// Bytes of all files of an import, decompressed.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A skill as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SkillSource {
    /// The name of its folder, if it has one.
    pub(crate) folder: Option<String>,
    /// SKILL.md.
    pub(crate) text: String,
    /// Texts of its files, by path.
    pub(crate) files: BTreeMap<String, String>,
    /// Files that were left out, and why.
    pub(crate) left_out: Vec<String>,
}

/// Files of a skill by their path in its folder.
type Files = BTreeMap<String, Vec<u8>>;

/// Reads the skills at `path`: a SKILL.md, a folder with one, a folder of such folders, or a zip of either.
///
/// # Errors
/// What cannot be read, or exceeds a limit.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<SkillSource>> {
    let what = || path.display().to_string();
    let found = std::fs::metadata(path).with_context(what)?;
    let mut budget = Budget { bytes: MAX_BYTES, entries: MAX_ENTRIES };
    let skills = if found.is_dir() {
        of_folder(path, &mut budget).with_context(what)?
    } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) {
        of_zip(path, &mut budget).with_context(what)?
    } else {
        let text = budget.read(File::open(path).with_context(what)?, MAX_TEXT_BYTES).with_context(what)?;
        vec![(None, Files::from([(TEXT_FILE.to_owned(), text)]))]
    };
    ensure!(
        !skills.is_empty(),
        "{}: there is no {TEXT_FILE}: give a {TEXT_FILE}, a folder or zip with one, or a folder or zip of such folders",
        path.display()
    );
    skills.into_iter().map(|(folder, files)| assemble(folder, files)).collect()
}

/// How much may still be read.
struct Budget {
    bytes: u64,
    entries: usize,
}

impl Budget {
    fn count(&mut self) -> anyhow::Result<()> {
        self.entries =
            self.entries.checked_sub(1).ok_or_else(|| anyhow!("it has more than {MAX_ENTRIES} files"))?;
        Ok(())
    }

    /// Reads at most `most` bytes; more are an error.
    fn read(&mut self, source: impl Read, most: usize) -> anyhow::Result<Vec<u8>> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        source.take(most.min(self.bytes) + 1).read_to_end(&mut bytes)?;
        let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        ensure!(read <= most, "a file has more than {most} bytes");
        self.bytes =
            self.bytes.checked_sub(read).ok_or_else(|| anyhow!("it has more than {MAX_BYTES} bytes"))?;
        Ok(bytes)
    }
}

fn most_bytes(path: &str) -> usize {
    if path == TEXT_FILE { MAX_TEXT_BYTES } else { MAX_FILE_BYTES }
}

/// The name of the folder of each skill, and its files.
type Found = Vec<(Option<String>, Files)>;

fn of_folder(path: &Path, budget: &mut Budget) -> anyhow::Result<Found> {
    let name = |path: &Path| {
        // `.` has a name only when it is resolved.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        path.file_name().map(|name| name.to_string_lossy().into_owned())
    };
    if path.join(TEXT_FILE).is_file() {
        return Ok(vec![(name(path), files_of(path, budget)?)]);
    }
    let mut skills = Found::new();
    for folder in entries(path)? {
        if folder.join(TEXT_FILE).is_file() {
            ensure!(skills.len() < MAX_SKILLS, "it has more than {MAX_SKILLS} skills");
            skills.push((name(&folder), files_of(&folder, budget)?));
        }
    }
    Ok(skills)
}

/// The files of a skill's folder. Symbolic links are not followed.
fn files_of(folder: &Path, budget: &mut Budget) -> anyhow::Result<Files> {
    let mut files = Files::new();
    files.insert(TEXT_FILE.to_owned(), budget.read(File::open(folder.join(TEXT_FILE))?, MAX_TEXT_BYTES)?);
    for name in FOLDERS {
        let path = folder.join(name);
        if !std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        for file in entries(&path)? {
            budget.count()?;
            let Some(file_name) = file.file_name().and_then(|name| name.to_str()) else { continue };
            let path = format!("{name}/{file_name}");
            if std::fs::symlink_metadata(&file)?.is_file() {
                let read =
                    budget.read(File::open(&file)?, most_bytes(&path)).with_context(|| path.clone())?;
                files.insert(path, read);
            }
        }
    }
    Ok(files)
}

/// The paths of the entries of a folder, sorted, without hidden ones.
fn entries(folder: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            paths.push(entry.path());
        }
        ensure!(paths.len() <= MAX_ENTRIES, "{} has more than {MAX_ENTRIES} entries", folder.display());
    }
    paths.sort();
    Ok(paths)
}

fn of_zip(path: &Path, budget: &mut Budget) -> anyhow::Result<Found> {
    let mut archive = ZipArchive::new(File::open(path)?).context("it is no zip")?;
    let mut skills: BTreeMap<String, Files> = BTreeMap::new();
    ensure!(archive.len() <= MAX_ENTRIES, "it has more than {MAX_ENTRIES} entries");
    for nth in 0..archive.len() {
        let entry = archive.by_index(nth)?;
        let inside =
            entry.enclosed_name().ok_or_else(|| anyhow!("an entry has a path that leads out of the zip"))?;
        if entry.is_dir() {
            continue;
        }
        ensure!(!entry.is_symlink(), "{} is a symbolic link, which is not allowed", inside.display());
        let inside =
            inside.to_str().ok_or_else(|| anyhow!("an entry has a name that is not UTF-8"))?.to_owned();
        let (folder, file) = split(&inside);
        // What else lies in it is not read.
        if inside.starts_with("__MACOSX/") || file != TEXT_FILE && !is_path(file) {
            continue;
        }
        budget.count()?;
        let bytes = budget.read(entry, most_bytes(file)).with_context(|| inside.clone())?;
        let files = skills.entry(folder.to_owned()).or_default();
        ensure!(files.insert(file.to_owned(), bytes).is_none(), "{inside} is in it twice");
    }
    skills.retain(|_, files| files.contains_key(TEXT_FILE));
    ensure!(skills.len() <= MAX_SKILLS, "it has more than {MAX_SKILLS} skills");
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let named = skills.into_iter().map(|(folder, files)| {
        let name = folder.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned);
        (name.or_else(|| stem.clone()), files)
    });
    Ok(named.collect())
}

/// A path in a zip as the folder of its skill and its path there.
fn split(path: &str) -> (&str, &str) {
    let names: Vec<&str> = path.rsplitn(3, '/').collect();
    let file_start = match names.as_slice() {
        [name, folder, ..] if FOLDERS.contains(folder) => path.len() - name.len() - folder.len() - 1,
        [name, ..] => path.len() - name.len(),
        [] => 0,
    };
    (path[..file_start].trim_end_matches('/'), &path[file_start..])
}

fn assemble(folder: Option<String>, files: Files) -> anyhow::Result<SkillSource> {
    let (mut texts, mut left_out) = (BTreeMap::new(), Vec::new());
    let mut text = None;
    for (path, bytes) in files {
        match String::from_utf8(bytes) {
            Ok(content) if path == TEXT_FILE => text = Some(content),
            Err(_) if path == TEXT_FILE => bail!("{TEXT_FILE} is not UTF-8"),
            Ok(content) if is_path(&path) && !content.contains('\0') => {
                texts.insert(path, content);
            }
            Ok(_) => left_out.push(format!("{path}: its name or its content is not allowed")),
            Err(_) => left_out.push(format!("{path}: it is not text")),
        }
    }
    let text = text.ok_or_else(|| anyhow!("there is no {TEXT_FILE}"))?;
    Ok(SkillSource { folder, text, files: texts, left_out })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    type Entries<'e> = &'e [(&'e str, &'e [u8])];

    const TEA: &str = "---\nname: tea\ndescription: Makes tea.\n---\nBoil.";

    fn zipped(entries: Entries<'_>) -> anyhow::Result<Vec<SkillSource>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drinks.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, bytes) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        read(&path)
    }

    #[test]
    fn folder_zip_and_file_are_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let tea = folder.path().join("tea");
        std::fs::create_dir_all(tea.join("scripts/deep")).unwrap();
        for (path, text) in
            [("SKILL.md", TEA), ("scripts/boil.js", "return 100"), ("scripts/deep/x.js", ""), (".git", "")]
        {
            std::fs::write(tea.join(path), text).unwrap();
        }
        std::fs::write(tea.join("scripts/b.bin"), [0xff]).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", tea.join("scripts/secret.js")).unwrap();
        let alone = read(&tea).unwrap();
        assert_eq!(alone, read(folder.path()).unwrap(), "a folder of skills");
        assert_eq!(alone[0].folder.as_deref(), Some("tea"));
        assert_eq!(alone[0].files.keys().collect::<Vec<_>>(), ["scripts/boil.js"]);
        assert_eq!(alone[0].left_out, ["scripts/b.bin: it is not text"]);
        let entries: [(&str, &[u8]); 4] = [
            ("x/tea/SKILL.md", TEA.as_bytes()),
            ("x/tea/scripts/boil.js", b"return 100"),
            ("x/tea/scripts/deep/x.js", b""),
            ("x/tea/scripts/b.bin", &[0xff]),
        ];
        assert_eq!(zipped(&entries).unwrap(), alone);
        let file = read(&tea.join("SKILL.md")).unwrap();
        assert_eq!((file[0].folder.as_deref(), file[0].text.as_str()), (None, TEA));
        let root = zipped(&[("SKILL.md", TEA.as_bytes())]).unwrap();
        assert_eq!(root[0].folder.as_deref(), Some("drinks"));
        assert!(read(&tea.join("scripts")).is_err());
    }

    #[test]
    fn hostile_zips_are_refused() {
        let bomb = vec![b'x'; 2 * MAX_TEXT_BYTES];
        let many: Vec<String> = (0..200).map(|n| format!("s{n}/SKILL.md")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), TEA.as_bytes())).collect();
        let large = vec![b'x'; MAX_FILE_BYTES];
        let names: Vec<String> = (0..200).map(|n| format!("tea/assets/{n}.txt")).collect();
        let larger: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), large.as_slice())).collect();
        let cases: [(Entries<'_>, &str); 5] = [
            (&[("../SKILL.md", TEA.as_bytes())], "leads out"),
            (&[("SKILL.md", &bomb)], "more than 262144 bytes"),
            (&many, "more than 100 skills"),
            (&larger, "more than 16777216 bytes"),
            (&[("README.md", b"x")], "there is no SKILL.md"),
        ];
        for (entries, words) in cases {
            let error = format!("{:#}", zipped(entries).unwrap_err());
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}

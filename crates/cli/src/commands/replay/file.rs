//! Files of replays, read and written with a limit.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use houston_domain::trace::{MAX_BYTES, Trace};

use crate::commands::Failure;

/// Reads the trace of a file, which may be a pipe.
pub(in crate::commands) fn read(path: &Path) -> Result<Trace, Failure> {
    let text = text(path, MAX_BYTES)?;
    Trace::parse(&text).map_err(|error| Failure::Other(anyhow!("{}: {error}", path.display())))
}

/// Reads at most so many bytes of text.
pub(in crate::commands) fn text(path: &Path, most: usize) -> Result<String, Failure> {
    let name = path.display();
    let unreadable = || format!("{name} cannot be read");
    let file = File::open(path).with_context(unreadable).map_err(Failure::Usage)?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).with_context(unreadable).map_err(Failure::Usage)?;
    if bytes.len() > most {
        return Err(Failure::Usage(anyhow!("{name} is larger than {most} bytes, which are read at most")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::Other(anyhow!("{name}: line {line}: is not UTF-8"))
    })
}

pub(in crate::commands) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    Ok(std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(path: &Path, most: usize) -> String {
        match text(path, most) {
            Err(Failure::Usage(error) | Failure::Other(error)) => format!("{error:#}"),
            Ok(text) => panic!("{text}"),
        }
    }

    #[test]
    fn files_without_end_and_other_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(failure(Path::new("/dev/zero"), 1_000).contains("larger than 1000 bytes"));
        let file = folder.path().join("x.trace.jsonl");
        std::fs::write(&file, b"{}\n\n{\"a\":\"\xff\"}\n").unwrap();
        assert!(failure(&file, 1_000).ends_with("line 3: is not UTF-8"));
        assert!(failure(folder.path(), 1_000).contains("cannot be read"));
        assert!(failure(&folder.path().join("none"), 1_000).contains("cannot be read"));
    }
}

//! How this program was started, so that commands it prints can be pasted into a shell.

use std::path::Path;

/// The command that starts this program again: its name, its path, or `cargo run … --`.
pub(crate) fn of_this_program(environment: impl Fn(&str) -> Option<String>) -> String {
    let started_as = std::env::args().next().unwrap_or_default();
    let by_cargo = environment("CARGO_MANIFEST_DIR").is_some() && environment("CARGO").is_some();
    called(&started_as, by_cargo)
}

fn called(started_as: &str, by_cargo: bool) -> String {
    let path = Path::new(started_as);
    let name = path.file_name().map_or("houston".into(), |name| name.to_string_lossy());
    let folders: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    if by_cargo && folders.contains(&"target") {
        let release = if folders.contains(&"release") { " --release" } else { "" };
        let example =
            if folders.contains(&"examples") { format!(" --example {name}") } else { String::new() };
        return format!("cargo run{release}{example} --");
    }
    if started_as.is_empty() { "houston".to_owned() } else { quoted(started_as) }
}

/// The text quoted as one word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_is_as_it_was_started() {
        for (started_as, by_cargo, expected) in [
            ("houston", false, "houston"),
            ("/usr/local/bin/houston", false, "/usr/local/bin/houston"),
            ("target/release/houston", true, "cargo run --release --"),
            ("/src/target/debug/houston", true, "cargo run --"),
            ("target/debug/examples/custom_tool", true, "cargo run --example custom_tool --"),
            ("./target/release/houston", false, "./target/release/houston"),
            ("/my tools/houston", false, "'/my tools/houston'"),
            ("it's", false, r"'it'\''s'"),
        ] {
            assert_eq!(called(started_as, by_cargo), expected);
        }
    }
}

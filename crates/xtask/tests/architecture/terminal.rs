//! Only listed files of `cli` write to the terminal, since text of users, models and providers may contain terminal
//! escape sequences.

use crate::workspace::sources;

/// The module that removes escape sequences, and the editor, which gets only such text.
const WRITERS: [&str; 2] = ["crates/cli/src/output.rs", "crates/cli/src/chat/editor.rs"];

/// Code that writes to a terminal, or opens it.
const WAYS: [&str; 11] = [
    "::stdout",
    "::stderr",
    " stdout(",
    " stderr(",
    "print!(",
    "println!(",
    "ExternalPrinter",
    "create_external_printer",
    "/dev/tty",
    "/dev/stdout",
    "/dev/stderr",
];

#[test]
fn only_listed_files_write_to_the_terminal() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for source in sources().iter().filter(|source| source.path.starts_with("crates/cli/src/")) {
        let found = WAYS.iter().filter(|way| source.text.contains(**way));
        match WRITERS.contains(&source.path.as_str()) {
            true => seen += found.count(),
            false => wrong.extend(found.map(|way| format!("{} has `{way}`: use crate::output", source.path))),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 4, "this test finds too few writers");
}

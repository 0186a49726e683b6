//! Only listed files of `cli` write to the terminal, since text of users, models and providers may contain terminal
//! escape sequences.

use crate::sources::sources;

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
        let is_writer = WRITERS.contains(&source.path.as_str());
        for (line, text) in source.text.lines().enumerate() {
            for way in WAYS.iter().filter(|way| text.contains(**way)) {
                if is_writer {
                    seen += 1;
                } else {
                    wrong.push(format!("{}:{} has `{way}`: use crate::output", source.path, line + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 4, "this test finds too few writers");
}

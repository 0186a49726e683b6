//! Who may write to a terminal: text of users, models and providers could command it.

use crate::sources::sources;

/// Where text is made harmless, and the editor, which is given nothing else.
const WRITERS: [&str; 2] = ["crates/cli/src/output.rs", "crates/cli/src/chat/editor.rs"];

/// What writes to a terminal, or opens a way to it.
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
fn the_command_line_writes_in_one_place() {
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
    assert!(seen >= 4, "this test has lost sight of the writers");
}

//! Commands in the Markdown files exist in this binary.

use std::path::Path;
use std::process::Command;

use houston_testkit::documentation;
use houston_testkit::sources::sources;

#[test]
fn commands_in_the_documentation_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut help = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_houston")).arg("help").args(words).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let programs: [&[&str]; 2] = [&["houston"], &["cargo", "run", "--release", "--"]];
    let (mut wrong, mut count) = (Vec::new(), 0);
    for document in sources(root, "", "md").unwrap() {
        for program in programs {
            for found in document.commands(program) {
                count += 1;
                let words: Vec<&str> = found.text.split(' ').skip(program.len()).collect();
                if let Some(mistake) = documentation::mistake(&words, &mut help) {
                    wrong.push(format!("{}:{} {mistake}", document.path, found.line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 15, "this test does not find the commands: {count}");
}

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<SkillDocument, String> {
    SkillDocument::read(text, None)
}

#[test]
fn skill_of_agentskills_io_is_read() {
    let text = "---\nname: pdf-forms\ndescription: Fills forms in PDF files. Use it when a form is attached.\n\
                license: Apache-2.0\ncompatibility: Needs a PDF tool\nmetadata:\n  author: ann\n  version: \"1.0\"\n\
                allowed-tools: Read Bash(git:*)\n---\n\n# Forms\n\nDo this.\n";
    let skill = read(text).unwrap();
    assert_eq!(skill.name, "pdf-forms");
    assert_eq!(skill.brief, "Fills forms in PDF files.");
    assert_eq!(skill.license.as_deref(), Some("Apache-2.0"));
    assert_eq!(skill.compatibility.as_deref(), Some("Needs a PDF tool"));
    assert_eq!(skill.metadata["version"], "1.0");
    assert_eq!(skill.allowed_tools, ["Read", "Bash(git:*)"]);
    assert!(skill.triggers.is_empty() && skill.default_enabled && skill.warnings.is_empty(), "{skill:?}");
    assert_eq!(body(text), "# Forms\n\nDo this.");
}

#[test]
fn triggers_are_read_wherever_they_are_written() {
    let top = "triggers:\n  keywords: [\"hello\", greet]\n  verbs: [say]\n  patterns: [\"greet\\\\s+\\\\w+\"]\nversion: 1.0.0\n\
               default_enabled: false";
    let nested = "metadata:\n  houston:\n    triggers:\n      keywords:\n        - hello\n        - greet\n      verbs: say\n      \
                  patterns:\n        - 'greet\\s+\\w+'\n    version: 1.0.0\n    default_enabled: false";
    let dotted = "metadata:\n  houston.triggers.keywords: hello, greet\n  houston.triggers.verbs: say\n  \
                  houston.triggers.patterns: 'greet\\s+\\w+'\n  houston.version: 1.0.0\n  houston.default_enabled: no";
    for fields in [top, nested, dotted] {
        let skill = read(&format!("---\nname: hello\ndescription: Greets.\n{fields}\n---\nHi.")).unwrap();
        assert_eq!(skill.triggers.keywords, ["hello", "greet"], "{fields}");
        assert_eq!(skill.triggers.verbs, ["say"], "{fields}");
        assert_eq!(skill.triggers.patterns, ["greet\\s+\\w+"], "{fields}");
        assert_eq!(skill.version.as_deref(), Some("1.0.0"), "{fields}");
        assert!(!skill.default_enabled && skill.warnings.is_empty(), "{skill:?}");
    }
}

#[test]
fn what_can_be_mended_is_mended_with_a_warning() {
    let skill =
        read("\u{feff}---\r\nname: My Skill!\r\ndescription: Use it for: tea\r\n---\r\nBoil.").unwrap();
    assert_eq!((skill.name.as_str(), skill.description.as_str()), ("my-skill", "Use it for: tea"));
    assert_eq!(skill.warnings.len(), 2, "{:?}", skill.warnings);
    let skill = SkillDocument::read("---\nname: other\ndescription: x\n---\n", Some("tea")).unwrap();
    assert_eq!(skill.name, "tea");
    assert!(skill.warnings[0].contains("other") && skill.warnings[0].contains("tea"), "{:?}", skill.warnings);
    let skill = read(&format!(
        "---\nname: tea\ndescription: {}\ntoolsets: [a]\ntriggers:\n  patterns: ['(', '{}', 'tea']\n---\n",
        "x".repeat(2_000),
        "y".repeat(201)
    ));
    let skill = skill.unwrap();
    assert_eq!(
        (skill.description.len(), skill.triggers.patterns.as_slice()),
        (1_024, ["tea".to_owned()].as_slice())
    );
    assert_eq!(skill.warnings.len(), 4, "{:?}", skill.warnings);
    assert!(skill.brief.chars().count() <= 120);
}

#[test]
fn what_is_no_skill_is_refused_with_the_reason() {
    let nested = format!("---\ndescription: x\nname: tea\nmetadata: {}\n---\n", "[".repeat(10_000));
    for (text, words) in [
        ("# Tea", "must begin with front matter"),
        ("---\nname: tea\n", "must begin with front matter"),
        ("---\nname: tea\n---\nBoil.", "no description"),
        ("---\nname: tea\ndescription: '  '\n---\n", "no description"),
        ("---\ndescription: x\nname: '!'\n---\n", "no usable name"),
        ("---\ndescription: &a x\nname: *a\n---\n", "anchors"),
        ("---\njust text\n---\n", "lines like"),
        ("---\n---\n", "empty"),
        ("---\nname: tea\ndescription: \"x\n---\n", "cannot be read"),
        ("---\ndescription: x\u{0}\n---\n", "U+0000"),
        (nested.as_str(), "cannot be read"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text:.60}: {error}");
    }
    assert!(read(&"x".repeat(MAX_TEXT_BYTES + 1)).unwrap_err().contains("bytes; at most 262144 are allowed"));
}

proptest! {
    #[test]
    fn no_text_makes_reading_fail_otherwise(
        lines in proptest::collection::vec(prop_oneof![
            Just("name: tea".to_owned()), Just("description: Tea: hot".to_owned()), Just("  - [a, {b: c}]".to_owned()),
            Just("metadata:".to_owned()), Just("triggers: {keywords: [a], patterns: ['(']}".to_owned()), Just("---".to_owned()),
            Just("a: |".to_owned()), Just("? x".to_owned()), Just("%TAG ! x".to_owned()), "\\PC{0,20}", "[ \t:'\"\\[\\]{}&*!|>%@`#-]{0,12}",
        ], 0..12),
        folder in proptest::option::of("\\PC{0,12}"),
    ) {
        let text = format!("---\n{}\n---\nbody", lines.join("\n"));
        if let Ok(skill) = SkillDocument::read(&text, folder.as_deref()) {
            prop_assert!(is_name(&skill.name), "{}", skill.name);
            prop_assert!(!skill.description.trim().is_empty());
            prop_assert!(!skill.brief.contains('\n') && skill.brief.chars().count() <= 120);
        }
    }
}

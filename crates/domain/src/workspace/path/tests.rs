use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::*;
use crate::guard::{GuardSettings, Layer, LayerKind, is_open, judged_path};

fn refused(raw: &str) -> String {
    WorkspacePath::file(raw).map(|path| path.to_string()).expect_err(raw)
}

#[test]
fn paths_have_one_spelling() {
    for (raw, path) in [
        ("a", "a"),
        ("a.md", "a.md"),
        ("a/b", "a/b"),
        ("./a", "a"),
        ("././a/./b", "a/b"),
        ("a//b", "a/b"),
        ("a///b//c", "a/b/c"),
        ("a/./b", "a/b"),
        (".env", ".env"),
        (".ssh/config", ".ssh/config"),
        ("...a", "...a"),
        ("a..b", "a..b"),
        ("..a", "..a"),
        ("a b/c d.md", "a b/c d.md"),
        ("[id].tsx", "[id].tsx"),
        ("{a,b}", "{a,b}"),
        ("%2e%2e/a", "%2e%2e/a"),
        ("$HOME/a", "$HOME/a"),
        ("-rf", "-rf"),
        ("a~", "a~"),
        ("~a", "~a"),
        ("Grüße.md", "Grüße.md"),
        ("Gru\u{308}ße.md", "Grüße.md"),
        ("日本/語.txt", "日本/語.txt"),
        ("🙂.md", "🙂.md"),
        ("\u{212a}.md", "K.md"),
    ] {
        assert_eq!(WorkspacePath::file(raw).unwrap().as_str(), path, "{raw:?}");
    }
}

/// What came through where paths were checked in other ways, and every spelling of `..`, `/` and names that some file
/// system reads as something else.
#[test]
fn paths_that_may_lead_out_are_refused() {
    let [absolute, edge, empty, folder, parent] =
        ["it is absolute", "a name in it begins", "it names no file", "it ends with `/`", "it contains `..`"]
            .map(str::to_owned);
    let forbidden = |letter: char| format!("it contains `{letter}`");
    let invisible = |code: u32| format!("it contains the character U+{code:04X}");
    for (raw, error) in [
        ("", &empty),
        (".", &empty),
        ("./.", &empty),
        ("a/", &folder),
        ("a//", &folder),
        ("./", &folder),
        ("/", &absolute),
        ("//", &absolute),
        ("/etc/passwd", &absolute),
        ("~", &absolute),
        ("~/a", &absolute),
        ("./~", &absolute),
        (".//~/a", &absolute),
        ("//etc/passwd", &absolute),
        ("//host/share", &absolute),
        ("/proc/self/environ", &absolute),
        ("/proc/1/root/etc/passwd", &absolute),
        ("\\etc", &absolute),
        ("\\\\host\\share", &absolute),
        ("\\\\?\\C:\\a", &absolute),
        ("C:", &absolute),
        ("C:\\a", &absolute),
        ("c:/a", &absolute),
        ("z:a", &absolute),
        ("~", &absolute),
        ("~/.ssh/id_rsa", &absolute),
        ("..", &parent),
        ("../a", &parent),
        ("a/..", &parent),
        ("a/../b", &parent),
        ("a/../../b", &parent),
        ("./../a", &parent),
        ("a/./../../../b", &parent),
        ("a//..//..//b", &parent),
        ("nosuch/../../outside", &parent),
        ("a\\b", &forbidden('\\')),
        ("..\\a", &forbidden('\\')),
        ("a\\..\\..\\b", &forbidden('\\')),
        ("a/..\\b", &forbidden('\\')),
        ("file:///etc/passwd", &forbidden(':')),
        ("https://example.com/a", &forbidden(':')),
        ("a.txt::$DATA", &forbidden(':')),
        ("a/b:c", &forbidden(':')),
        ("*.md", &forbidden('*')),
        ("a?", &forbidden('?')),
        ("a|b", &forbidden('|')),
        ("a>b", &forbidden('>')),
        ("a<b", &forbidden('<')),
        ("a\"b", &forbidden('"')),
        ("\0", &invisible(0)),
        ("a\0b", &invisible(0)),
        ("a.md\0.png", &invisible(0)),
        ("a\nb", &invisible(0x0a)),
        ("a\tb", &invisible(0x09)),
        ("a\rb", &invisible(0x0d)),
        ("a\u{1b}[2Jb", &invisible(0x1b)),
        ("a\u{7f}", &invisible(0x7f)),
        ("a\u{85}b", &invisible(0x85)),
        ("a\u{a0}b", &invisible(0xa0)),
        ("a\u{ad}b", &invisible(0xad)),
        ("a\u{200b}b", &invisible(0x200b)),
        (".e\u{200d}nv", &invisible(0x200d)),
        ("a\u{2028}b", &invisible(0x2028)),
        ("txt.\u{202e}dm", &invisible(0x202e)),
        ("a\u{2066}b", &invisible(0x2066)),
        ("\u{feff}a", &invisible(0xfeff)),
        ("a\u{e0041}", &invisible(0xe0041)),
        ("...", &edge),
        ("a/...", &edge),
        ("a./b", &edge),
        ("a.", &edge),
        ("a /b", &edge),
        (" a", &edge),
        ("a/ b", &edge),
        (".. /a", &edge),
        (" ../a", &edge),
        ("a ", &edge),
    ] {
        assert!(refused(raw).starts_with(error), "{raw:?}");
    }
}

#[test]
fn long_and_deep_paths_are_refused() {
    let name = "n".repeat(MAX_NAME_BYTES);
    assert!(WorkspacePath::file(&name).is_ok());
    assert_eq!(refused(&format!("{name}n")), "a name in it has 256 bytes; at most 255 are allowed");
    let deep = vec!["a"; MAX_DEPTH].join("/");
    assert!(WorkspacePath::file(&deep).is_ok());
    assert_eq!(refused(&format!("{deep}/a")), "it has 17 names; at most 16 are allowed");
    let long = format!("{name}/{name}");
    assert!(WorkspacePath::file(&long).is_ok(), "{}", long.len());
    assert_eq!(refused(&format!("{long}/a")), "it has 513 bytes; at most 512 are allowed");
    assert!(refused(&"a/".repeat(10_000)).starts_with("it ends with `/`"));
    assert_eq!(refused(&"a".repeat(10_000)), "it has 10000 bytes; at most 512 are allowed");
}

#[test]
fn folders_may_be_the_workspace_and_end_with_a_slash() {
    for raw in ["", ".", "./", "/"] {
        assert_eq!(WorkspacePath::folder(raw), Ok(None), "{raw:?}");
    }
    let folder = WorkspacePath::folder("a/b/").unwrap().unwrap();
    assert_eq!(folder.as_str(), "a/b");
    assert!(folder.contains("a/b/c") && folder.contains("a/b/c/d"));
    assert!(!folder.contains("a/b") && !folder.contains("a/bc") && !folder.contains("a"));
    assert_eq!(WorkspacePath::folder("/a"), Err(ABSOLUTE.to_owned()));
    assert!(WorkspacePath::folder("../").unwrap_err().starts_with("it contains `..`"));
    let file = WorkspacePath::file("a/b/c").unwrap();
    assert_eq!(file.folders().collect::<Vec<_>>(), ["a", "a/b"]);
    assert_eq!(WorkspacePath::file("a").unwrap().folders().count(), 0);
}

fn check(raw: &str) -> Result<(), TestCaseError> {
    let Ok(path) = WorkspacePath::file(raw) else { return Ok(()) };
    let text = path.as_str();
    prop_assert!(!text.is_empty() && text.len() <= MAX_PATH_BYTES, "{text:?}");
    prop_assert!(text.split('/').all(|name| !["", ".", ".."].contains(&name)), "{text:?}");
    prop_assert!(!text.contains(['\\', ':', '\0']) && !text.chars().any(char::is_control), "{text:?}");
    prop_assert_eq!(WorkspacePath::file(text), Ok(path.clone()), "its normal form is itself");
    // Guards see what the model wrote: they must judge the file that is opened.
    let within = judged_path(raw);
    prop_assert_eq!(within.as_deref(), Some(text), "{:?}", raw);
    Ok(())
}

static SENSITIVE: LazyLock<[Arc<Layer>; 1]> = LazyLock::new(|| {
    let settings: GuardSettings = toml::from_str("sensitive = ['.env*', '*key*']").unwrap();
    [Arc::new(Layer::compile(LayerKind::Kind, "test", &settings).unwrap())]
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn accepted_paths_stay_within_and_are_judged(raw in "[ab./\\\\ ~:\u{308}\u{0}u]{0,14}") {
        check(&raw)?;
    }

    #[test]
    fn any_text_is_a_path_or_refused(raw in "\\PC{0,60}") {
        check(&raw)?;
    }

    #[test]
    fn refused_and_accepted_paths_are_never_the_same_file(one in "[aU\u{308}/.]{1,8}", other in "[aU\u{308}/.]{1,8}") {
        let (first, second) = (WorkspacePath::file(&one), WorkspacePath::file(&other));
        if let (Ok(first), Ok(second)) = (first, second) {
            prop_assert_eq!(first == second, judged_path(&one) == judged_path(&other), "{} {}", one, other);
        }
    }

    /// No spelling of a sensitive name passes without a question because the tool normalizes it afterwards.
    #[test]
    fn sensitive_files_are_sensitive_in_any_spelling(raw in "[.eEnNvV/\u{212a}kKyY\u{308}]{1,8}") {
        if let Ok(path) = WorkspacePath::file(&raw) {
            prop_assert!(!is_open(&*SENSITIVE, &raw) || is_open(&*SENSITIVE, path.as_str()), "{:?}", raw);
        }
    }
}

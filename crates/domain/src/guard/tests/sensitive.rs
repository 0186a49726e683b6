//! Paths that may hold secrets, in the spellings that lead to the same file.

use serde_json::json;

use super::super::Grant;
use super::*;

const SENSITIVE: &str =
    "sensitive = ['.env*', '*credential*', '*secret*', '.ssh/**', '**/*.pem', 'id_*', '.npmrc', '.git/config']
     profile = 'permissive'
     [[rule]]
     tool = '*'
     decide = 'allow'";

fn verdict(path: &str) -> Verdict {
    let grants =
        [serde_json::from_value::<Grant>(json!({"tool": "*"})).unwrap().compile(LayerKind::User).unwrap()];
    let layers = layers(SENSITIVE, &[(LayerKind::User, "[[rule]]\ntool = '*'\ndecide = 'allow'")]);
    judge(&layers, "read_file", &json!({"path": path}), &Situation { grants: &grants, ..full() })
}

#[test]
fn every_spelling_of_a_secret_asks_each_time() {
    for path in [
        ".env",
        "./a/../.env",
        "A/.ENV",
        "a\\.env",
        ".\\a\\..\\.Env.Local",
        "cfg/.env.prod",
        ".env/key",
        "a//.env",
        ".env/",
        ".env/.",
        "a/./.env",
        " .env",
        ".env ",
        "a/.env ",
        ".env.",
        ".env. .",
        ".\u{200b}env",
        ".e\u{200d}nv",
        ".env\u{feff}",
        ".e\u{ad}nv",
        "\u{ff0e}env",
        ".\u{ff25}\u{ff2e}\u{ff36}",
        "a\u{ff0f}.env",
        "\u{202e}.env",
        ".env\t",
        ".env::$DATA",
        ".\u{17f}\u{17f}h/config",
        ".ssh",
        ".SSH/id_rsa",
        "home/.ssh/hosts",
        "\u{212a}/key.PEM",
        "a/b/server.pem",
        "server.pem::$DATA",
        "id_ed25519",
        "keys/ID_RSA",
        "my-Secrets.txt",
        "secret/a.txt",
        "aws_credentials",
        "x/.npmrc",
        ".git/config",
        "sub/.git/config",
        "sub/.git/./config",
    ] {
        let verdict = verdict(path);
        let Decision::Ask { why, lasting, .. } = &verdict.decision else { panic!("{path:?}: {verdict:?}") };
        assert!(!lasting, "{path:?}");
        assert!(why.contains("may hold secrets"), "{path:?}: {why}");
        assert!(verdict.by.rule.starts_with("sensitive: "), "{path:?}: {:?}", verdict.by);
    }
}

#[test]
fn spellings_that_leave_the_workspace_are_denied() {
    for path in
        ["/a/.env", "../.env", "a/../../.env", "..\\.env", "C:\\.env", "\\\\host\\.env", ".env\0", ".. /.env"]
    {
        assert_eq!(ruling(&verdict(path)), Ruling::Deny, "{path:?}");
    }
}

#[test]
fn other_paths_do_not_ask() {
    for path in [
        "env",
        "a/environment.md",
        "pem",
        "a.pem.md",
        "kid_games",
        "ssh/config",
        "git/config",
        ".git/conf",
        "",
    ] {
        assert_eq!(ruling(&verdict(path)), Ruling::Allow, "{path:?}");
    }
}

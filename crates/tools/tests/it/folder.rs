//! The tools for files where workspaces are folders: what others change there, crashes, and that nothing else differs from
//! rows.

use std::os::unix::fs::symlink;
use std::time::Duration;

use houston_domain::id::AgentableId;
use houston_domain::knowledge::KnowledgeLimits;
use houston_domain::tool_call::ToolResponse;
use houston_domain::workspace::FileLimits;
use houston_store::record::Owner;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::test_run::{Files, TestRun};

async fn write(run: &TestRun, path: &str, content: &str) -> String {
    run.says("write_file", json!({"path": path, "content": content})).await
}

async fn error(run: &TestRun, tool: &str, input: Value) -> String {
    match run.call(tool, input).await {
        ToolResponse::Failure { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_leave_is_named_and_never_followed() {
    let tools = TestRun::start_in(Files::Folder).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "CANARY").unwrap();
    write(&tools, "a.md", "mine").await;
    symlink(outside.path().join("secret"), tools.inside("link")).unwrap();
    symlink(outside.path(), tools.inside("dir")).unwrap();
    std::fs::hard_link(outside.path().join("secret"), tools.inside("hard")).unwrap();
    std::fs::write(tools.inside("image.png"), b"\x89PNG\xff").unwrap();
    std::fs::write(tools.inside("c:d"), "hidden").unwrap();
    std::fs::create_dir(tools.inside("odd")).unwrap();
    std::fs::write(tools.inside("odd/e:f"), "hidden").unwrap();

    for (tool, input, says) in [
        ("read_file", json!({"path": "link"}), "link is a link; links are not followed"),
        ("read_file", json!({"path": "dir/secret"}), "dir is a link"),
        ("write_file", json!({"path": "dir/new", "content": "x"}), "dir is a link"),
        ("write_file", json!({"path": "link", "content": "x"}), "link is a link"),
        ("edit_file", json!({"path": "link", "old": "CANARY", "new": "x"}), "link is a link"),
        ("delete_file", json!({"path": "link"}), "link is a link"),
        ("read_file", json!({"path": "hard"}), "several names (hard links)"),
        ("read_file", json!({"path": "image.png"}), "image.png is no text: it has 5 bytes"),
        ("write_file", json!({"path": "odd", "content": "x"}), "odd is a folder with something in it"),
    ] {
        let text = error(&tools, tool, input.clone()).await;
        assert!(text.contains(says), "{tool} {input}: {text}");
    }
    assert_eq!(tools.preview("edit_file", &json!({"path": "link", "old": "CANARY", "new": "x"})).await, None);
    let listed = tools.says("list_files", json!({})).await;
    for line in ["a.md (4 bytes)", "hard (6 bytes)", "image.png (5 bytes)"] {
        assert!(listed.contains(line), "{listed}");
    }
    assert!(!listed.contains("link") && !listed.contains("c:d"), "{listed}");
    let found = tools.says("search_files", json!({"regex": "CANARY|mine"})).await;
    assert!(found.contains("a.md:1: mine") && !found.contains(":1: CANARY"), "{found}");
    assert!(found.contains("2 files could not be searched"), "{found}");
    assert_eq!(tools.says("delete_file", json!({"path": "image.png"})).await, "Deleted image.png.");
    assert_eq!(std::fs::read_to_string(outside.path().join("secret")).unwrap(), "CANARY");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_change_counts_as_written_by_strangers() {
    let tools = TestRun::start_in(Files::Folder).await;
    write(&tools, "a.md", "mine\n").await;
    write(&tools, "b.md", "mine\n").await;
    std::fs::write(tools.inside("a.md"), "theirs\n").unwrap();
    std::fs::write(tools.inside("new.md"), "theirs\n").unwrap();
    for path in ["a.md", "new.md"] {
        let read = tools.says("read_file", json!({"path": path})).await;
        assert!(read.contains(&format!("<untrusted source=\"{path}\">\ntheirs")), "{read}");
    }
    assert!(tools.says("read_file", json!({"path": "b.md"})).await.ends_with("\n\nmine\n"));
    let stale = json!({"path": "a.md", "content": "x", "expected_sha": "00000000"});
    assert!(error(&tools, "write_file", stale).await.contains("a.md has changed since you read it"));
    write(&tools, "a.md", "mine again").await;
    assert!(tools.says("read_file", json!({"path": "a.md"})).await.ends_with("\n\nmine again"));
    std::fs::remove_file(tools.inside("a.md")).unwrap();
    assert!(error(&tools, "read_file", json!({"path": "a.md"})).await.contains("there is no file a.md"));
}

/// The process dies after the step is committed and before the file is written.
#[tokio::test(flavor = "multi_thread")]
async fn committed_change_is_made_after_a_crash() {
    let tools = TestRun::start_in(Files::Folder).await;
    write(&tools, "kept", "1").await;
    write(&tools, "gone", "1").await;
    // As a process leaves it that had committed: rows, and nothing in the folder.
    tools.sql(
        "update houston.workspace_files set place = 'new', content = '2', bytes = 1, sha256 = sha256('2') where path = 'kept';
         update houston.workspace_files set place = 'removed', content = '', bytes = 0, sha256 = '' where path = 'gone'",
    );
    std::fs::remove_file(tools.inside("kept")).unwrap();
    assert!(tools.says("read_file", json!({"path": "kept"})).await.ends_with("\n\n2"));
    assert_eq!(tools.says("list_files", json!({})).await, "kept (1 byte)");
    assert!(error(&tools, "read_file", json!({"path": "gone"})).await.contains("there is no file gone"));
    tools.runs().tidy_folders().await.unwrap();
    assert_eq!(std::fs::read_to_string(tools.inside("kept")).unwrap(), "2");
    assert!(!tools.inside("gone").exists());
    assert_eq!(
        tools.sql("select string_agg(path || ' ' || place, ',') from houston.workspace_files").trim(),
        "kept folder"
    );
}

/// Files that were rows before the operator set a folder.
#[tokio::test(flavor = "multi_thread")]
async fn rows_from_before_become_files() {
    let tools = TestRun::start_in(Files::Folder).await;
    tools.sql(&format!(
        "insert into houston.workspace_files (agentable_id, path, tenant_id, content, sha256, bytes, created_at, updated_at)
         values ('{}', 'old', '{}', 'text', sha256('text'), 4, now(), now())",
        tools.goal.0, tools.tenant.0
    ));
    assert!(tools.says("read_file", json!({"path": "old"})).await.ends_with("\n\ntext"));
    write(&tools, "other", "x").await;
    assert_eq!(std::fs::read_to_string(tools.inside("old")).unwrap(), "text");
}

#[tokio::test(flavor = "multi_thread")]
async fn folder_goes_with_its_agentable() {
    let tools = TestRun::start_in(Files::Folder).await;
    write(&tools, "a", "x").await;
    let home = tools.inside("").parent().unwrap().to_owned();
    // A folder without an agentable is removed; that of the goal is not.
    let leftover = home.with_file_name(tools.ids.next::<AgentableId>().0.to_string());
    std::fs::create_dir_all(leftover.join("files/x")).unwrap();
    assert_eq!(tools.runs().tidy_folders().await.unwrap(), 1);
    assert!(!leftover.exists() && tools.inside("a").exists());

    let target = houston_store::erasure::Target::Agentable("goal", tools.goal);
    tools.store.tenant(tools.tenant).request_erasure(target, tools.ids.next(), None).await.unwrap();
    while !matches!(
        tools.store.background().erase_some(100).await.unwrap(),
        houston_store::erasure::sweep::Swept::Done(_)
    ) {}
    assert!(!home.exists(), "nothing is left when the erasure is completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn database_keeps_to_its_folder() {
    let tools = TestRun::start_in(Files::Folder).await;
    write(&tools, "a", "x").await;
    let with = |folder: &tempfile::TempDir| {
        let root = houston_folder::Root::open(folder.path()).unwrap();
        tools.store.clone().with_folder(std::sync::Arc::new(root))
    };
    tools.store.check_folder(true).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let refused = with(&other).check_folder(false).await.unwrap_err().to_string();
    assert!(refused.contains("are in another folder than"), "{refused}");
    let none = TestRun::start().await;
    none.store.check_folder(false).await.unwrap();
    // Folders without an agentable are deleted: another installation must not begin with them.
    let theirs = none.store.clone().with_folder(std::sync::Arc::new(
        houston_folder::Root::open(tools.folder.as_ref().unwrap().path()).unwrap(),
    ));
    let refused = theirs.check_folder(false).await.unwrap_err().to_string();
    assert!(refused.contains("of another installation"), "{refused}");
    write(&none, "a", "x").await;
    none.sql("update houston.workspace_files set place = 'folder'");
    let refused = none.store.check_folder(false).await.unwrap_err().to_string();
    assert!(refused.contains("but none is set"), "{refused}");
}

/// Where bwrap does not work, the test says so and passes.
#[tokio::test(flavor = "multi_thread")]
async fn commands_work_on_the_files_of_the_agent() {
    let works = match houston_sandbox::Shell::find(1) {
        Ok(shell) => shell.check().await,
        Err(error) => Err(error),
    };
    if let Err(reason) = works {
        eprintln!("SKIPPED: {reason}");
        return;
    }
    let limits =
        KnowledgeLimits { files: FileLimits { max_files: 10, max_bytes: 100 }, ..KnowledgeLimits::default() };
    let tools = TestRun::start_in_with(Files::Folder, limits).await;
    let run =
        async |command: &str| tools.execute("run_shell", json!({"command": command})).await.text().to_owned();
    write(&tools, "notes/a.txt", "b\na\n").await;
    assert_eq!(run("pwd; sort notes/a.txt | tee sorted.txt").await, "/work\na\nb");
    let read = tools.says("read_file", json!({"path": "sorted.txt"})).await;
    assert!(read.ends_with("<untrusted source=\"sorted.txt\">\na\nb\n</untrusted>"), "{read}");
    assert_eq!(run("cat sorted.txt").await, "<untrusted source=\"run_shell\">\na\nb\n</untrusted>");

    // Neither Houston's own files beside the workspace nor those of others are there, and a link leads nowhere.
    let outside = tools.folder.as_ref().unwrap().path().join("houston-workspaces");
    let looked = run(&format!(
        "ls -A ..; cat ../lock; cat {}; ln -s {} out; cat out",
        outside.display(),
        outside.display()
    ))
    .await;
    assert!(looked.matches("No such file").count() >= 3 && !looked.contains("removed"), "{looked}");
    assert!(error(&tools, "read_file", json!({"path": "out"})).await.contains("out is a link"));

    let full = run("seq 1 200 > many.txt; rm out").await;
    assert!(
        full.contains(
            "[The workspace has 3 files with 700 bytes now; at most 10 files with 100 bytes are allowed."
        ),
        "{full}"
    );
    let refused = error(&tools, "write_file", json!({"path": "b", "content": "x"})).await;
    assert!(refused.contains("would have 701 bytes; at most 100 are allowed"), "{refused}");
    tools.says("delete_file", json!({"path": "many.txt"})).await;
    write(&tools, "b", "x").await;

    let killed = run("i=0; while :; do i=$((i+1)); echo x > f$i; done").await;
    assert!(
        killed.contains("and was killed. What it wrote is there.") && killed.contains("[The workspace has "),
        "{killed}"
    );
    // Over its limit, a workspace has the next command killed, too.
    run("rm -f f*").await;
    let bomb = run("d=d; while mkdir $d && cd $d; do :; done").await;
    assert!(bomb.contains("folders in more than"), "{bomb}");
}

/// A call of a tool with few paths and texts, so that calls meet.
fn call() -> impl Strategy<Value = (&'static str, Value, bool)> {
    let path = prop::sample::select(vec!["a", "b", "a/b", "a/c", "b/c/d", "./b", "B"]);
    let text = prop::sample::select(vec!["", "one\n", "one\ntwo\n", "two", "1234567890"]);
    let sha = prop::option::weighted(0.3, prop::sample::select(vec!["none", "00000000"]));
    let written = (path.clone(), text.clone(), sha.clone()).prop_map(|(path, content, sha)| {
        let mut input = json!({"path": path, "content": content});
        if let Some(sha) = sha {
            input["expected_sha"] = json!(sha);
        }
        ("write_file", input)
    });
    let edited = (path.clone(), text.clone(), text)
        .prop_map(|(path, old, new)| ("edit_file", json!({"path": path, "old": old, "new": new})));
    let deleted = path.clone().prop_map(|path| ("delete_file", json!({"path": path})));
    let read = path.prop_map(|path| ("read_file", json!({"path": path})));
    let looked = prop::sample::select(vec![
        ("list_files", json!({})),
        ("list_files", json!({"path": "a", "depth": 1})),
        ("find_files", json!({"glob": "**/{b,c}"})),
        ("search_files", json!({"regex": "o"})),
    ]);
    (prop_oneof![4 => written, 2 => edited, 2 => deleted, 2 => read, 2 => looked], prop::bool::weighted(0.2))
        .prop_map(|((tool, input), untrusted)| (tool, input, untrusted))
}

/// Sequences of calls, one step after the other, some of them lost before they are committed: models read the same in both, and
/// so do people.
#[tokio::test(flavor = "multi_thread")]
async fn rows_and_folders_give_the_same_results() {
    let limits =
        KnowledgeLimits { files: FileLimits { max_files: 4, max_bytes: 30 }, ..KnowledgeLimits::default() };
    let rows = TestRun::start_in_with(Files::Rows, limits).await;
    let folder = TestRun::start_in_with(Files::Folder, limits).await;
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..12 {
        let steps =
            prop::collection::vec((prop::collection::vec(call(), 1..4), prop::bool::weighted(0.15)), 12);
        for (calls, is_lost) in steps.new_tree(&mut runner).unwrap().current() {
            let untrusted = calls.iter().any(|(.., untrusted)| *untrusted);
            let calls: Vec<(&str, Value)> = calls.into_iter().map(|(tool, input, _)| (tool, input)).collect();
            let mut answers = Vec::new();
            for run in [&rows, &folder] {
                answers.push(match is_lost {
                    true => run.call_and_drop(&calls).await,
                    false => run.call_as(Owner { untrusted, ..run.owner() }, &calls).await,
                });
            }
            assert_eq!(answers[0], answers[1], "{calls:?}");
        }
        let mut listed = Vec::new();
        for run in [&rows, &folder] {
            let files = run.store.tenant(run.tenant).files(run.goal, None, 100).await.unwrap();
            listed.push(
                files.into_iter().map(|file| (file.path, file.version, file.untrusted)).collect::<Vec<_>>(),
            );
        }
        assert_eq!(listed[0], listed[1]);
    }
    // What is in the folder is what the rows say, with nothing else.
    let waiting = folder.sql("select count(*) from houston.workspace_files where place <> 'folder'");
    assert_eq!(waiting.trim(), "0");
    let expected = rows.sql("select string_agg(path, ',' order by path) from houston.workspace_files");
    let found = walk(&folder.inside(""), "");
    assert_eq!(found.join(","), expected.trim());
    tokio::time::timeout(Duration::from_secs(10), folder.runs().tidy_folders()).await.unwrap().unwrap();
}

fn walk(folder: &std::path::Path, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(walk(&entry.path(), &format!("{path}/"))),
            false => found.push(path),
        }
    }
    found.sort();
    found
}

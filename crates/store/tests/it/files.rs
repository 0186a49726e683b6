//! Files of workspaces: what happens to them when their agentable ends or begins anew.

use std::sync::Arc;

use houston_domain::id::AgentableId;
use houston_domain::run::RunStatus;
use houston_domain::workspace::{MAX_PATH_BYTES, WorkspacePath};
use houston_folder::Root;
use houston_store::claim::CrashPolicy;
use houston_store::conversation::ExportOptions;

use crate::tasks::{create, end};
use crate::test_store::{ClaimRun as _, TestStore};

fn write(test: &TestStore, agentable: AgentableId, path: &str) {
    test.sql(&format!(
        "insert into houston.workspace_files (agentable_id, path, tenant_id, content, sha256, bytes, created_at, updated_at)
         values ('{}', '{path}', '{}', 'x', '', 1, now(), now())",
        agentable.0, test.tenant.0
    ));
}

async fn paths(test: &TestStore, agentable: AgentableId) -> Vec<String> {
    let files = test.requests().files(agentable, None, 100).await.unwrap();
    files.into_iter().map(|file| file.path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_an_ended_task_pass_to_its_creator() {
    let test = TestStore::start().await;
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    let folder = task.id.public_id("task");
    let (long, deep) = ("n".repeat(MAX_PATH_BYTES - 20), vec!["d"; 16].join("/"));
    for path in ["report.md", "data/a.csv", "taken.md", &long, &deep] {
        write(&test, task.id, path);
    }
    write(&test, test.goal, "report.md");
    let taken = format!("{folder}/taken.md");
    write(&test, test.goal, &taken);
    let (token, message) = (test.ids.next(), test.ids.next());
    let working = test.runs().claim_run(task.id, test.worker, token, message, CrashPolicy::default()).await;
    end(&test, &working.unwrap().unwrap(), RunStatus::Completed).await.unwrap();
    let passed =
        ["report.md".to_owned(), format!("{folder}/data/a.csv"), format!("{folder}/report.md"), taken];
    assert_eq!(paths(&test, test.goal).await, passed);
    assert_eq!(
        paths(&test, task.id).await,
        [deep, long, "taken.md".to_owned()],
        "what cannot be moved stays"
    );
    // Those go with the task.
    test.sql("update houston.runs set ended_at = now() - interval '9 days' where ended_at is not null");
    test.sql("update houston.agentables set created_at = now() - interval '9 days' where kind = 'task'");
    let day = std::time::Duration::from_secs(86_400);
    assert_eq!(test.runs().delete_finished(&["task".to_owned()], day, 10).await.unwrap(), 1);
    assert_eq!(test.sql("select count(*) from houston.workspace_files").trim(), "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_task_keep_to_the_limits_and_to_one_tree() {
    let test = TestStore::start().await;
    test.sql("update houston.settings set value = 4 where name = 'files.max_files'");
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    let folder = task.id.public_id("task");
    for path in ["a", "b", "c", "taken/x"] {
        write(&test, task.id, path);
    }
    test.sql("update houston.workspace_files set untrusted = path = 'a'");
    // A file where the task has a folder.
    write(&test, test.goal, &format!("{folder}/taken"));
    write(&test, test.goal, "mine");
    let (token, message) = (test.ids.next(), test.ids.next());
    let working = test.runs().claim_run(task.id, test.worker, token, message, CrashPolicy::default()).await;
    end(&test, &working.unwrap().unwrap(), RunStatus::Completed).await.unwrap();
    let mut expected =
        vec![format!("{folder}/a"), format!("{folder}/b"), format!("{folder}/taken"), "mine".to_owned()];
    expected.sort();
    assert_eq!(paths(&test, test.goal).await, expected);
    assert_eq!(paths(&test, task.id).await, ["c", "taken/x"]);
    let marked = test.sql("select path from houston.workspace_files where untrusted");
    assert_eq!(marked.trim(), format!("{folder}/a"), "the mark moves, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_a_folder_pass_on_and_are_reset() {
    let folder = tempfile::tempdir().unwrap();
    let mut test = TestStore::start().await;
    test.store = test.store.with_folder(Arc::new(Root::open(folder.path()).unwrap()));
    test.post("go").await;
    let claimed = test.claim().await.unwrap();
    let task = create(&test, &claimed).await.unwrap().unwrap();
    write(&test, task.id, "report.md");
    test.runs().command_files(test.tenant, task.id).unwrap().ready().await.unwrap();
    let home = |agentable: AgentableId| {
        folder.path().join(test.tenant.0.to_string()).join(agentable.0.to_string()).join("files")
    };
    assert_eq!(std::fs::read_to_string(home(task.id).join("report.md")).unwrap(), "x");
    let (token, message) = (test.ids.next(), test.ids.next());
    let working = test.runs().claim_run(task.id, test.worker, token, message, CrashPolicy::default()).await;
    end(&test, &working.unwrap().unwrap(), RunStatus::Completed).await.unwrap();

    let passed = format!("{}/report.md", task.id.public_id("task"));
    assert_eq!(paths(&test, test.goal).await, std::slice::from_ref(&passed), "at once");
    let at = WorkspacePath::file(&passed).unwrap();
    assert_eq!(test.requests().file(test.goal, &at).await.unwrap().content, "x");
    test.runs().tidy_folders().await.unwrap();
    assert_eq!(std::fs::read_to_string(home(test.goal).join(&passed)).unwrap(), "x");
    assert!(!home(task.id).join("report.md").exists(), "it was moved");
    assert_eq!(test.requests().file(test.goal, &at).await.unwrap().content, "x");

    let agentable = test.requests().agentable("goal", test.goal).await.unwrap();
    let options = ExportOptions { until: None, knowledge: true, max_bytes: 100_000 };
    let exported = test.requests().conversation(&agentable, &options).await.unwrap();
    assert_eq!(
        exported.files.iter().map(|file| (&*file.path, &*file.content)).collect::<Vec<_>>(),
        [(&*passed, "x")]
    );
    test.sql("update houston.run_locks set run_open = false, holder = null");
    let gone = test.requests().reset(test.goal, true, test.ids.next()).await.unwrap();
    assert_eq!((gone.files, paths(&test, test.goal).await.len()), (1, 0));
    assert!(!home(test.goal).join(&passed).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_deletes_files_only_with_all_knowledge() {
    let test = TestStore::start().await;
    write(&test, test.goal, "a");
    let kept = test.requests().reset(test.goal, false, test.ids.next()).await.unwrap();
    assert_eq!((kept.files, paths(&test, test.goal).await.len()), (0, 1));
    let gone = test.requests().reset(test.goal, true, test.ids.next()).await.unwrap();
    assert_eq!((gone.files, paths(&test, test.goal).await.len()), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_files_follow_the_bytes_of_their_paths() {
    let test = TestStore::start().await;
    for path in ["b", "a/ä", "a-b", "B", "a/b"] {
        write(&test, test.goal, path);
    }
    assert_eq!(paths(&test, test.goal).await, ["B", "a-b", "a/b", "a/ä", "b"]);
    let after = test.requests().files(test.goal, Some("a/b".to_owned()), 1).await.unwrap();
    assert_eq!(after[0].path, "a/ä");
}

//! The files of a workspace over HTTP, which only its agent writes.

use serde_json::json;

use crate::test_api::{TestApi, make_tenant};

fn write(api: &TestApi, path: &str, content: &str) {
    let insert = format!(
        "insert into houston.workspace_files (agentable_id, path, tenant_id, content, sha256, bytes, created_at, updated_at)
         select id, '{path}', tenant_id, '{content}', sha256(convert_to('{content}', 'UTF8')),
                octet_length('{content}'), now(), now()
           from houston.agentables where id = '{}'",
        api.agentable().0
    );
    api.sql(&insert);
}

#[tokio::test]
async fn files_are_listed_by_path_and_read() {
    let api = TestApi::start().await;
    let files = api.path("/files");
    assert_eq!(api.get(&files).await.ok()["data"], json!([]));
    write(&api, "a.md", "hello");
    write(&api, "notes/über uns.md", "ä");
    let page = api.get(&format!("{files}?limit=1")).await.ok();
    let first = &page["data"][0];
    let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(
        (&first["path"], &first["bytes"], &first["sha256"]),
        (&json!("a.md"), &json!(5), &json!(sha256))
    );
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = api.get(&format!("{files}?cursor={cursor}")).await.ok();
    assert_eq!((&next["data"][0]["path"], &next["has_more"]), (&json!("notes/über uns.md"), &json!(false)));
    for wrong in ["m1", "p0", "pzz"] {
        api.get(&format!("{files}?cursor={wrong}")).await.refused(422, "invalid_cursor");
    }
    let file = api.get(&format!("{files}/a.md")).await.ok();
    assert_eq!((&file["content"], &file["sha256"]), (&json!("hello"), &json!(sha256)));
    let file = api.get(&format!("{files}/notes%2F%C3%BCber%20uns.md")).await.ok();
    assert_eq!((&file["path"], &file["content"]), (&json!("notes/über uns.md"), &json!("ä")));
    for missing in ["b.md", "..%2Fa.md", "%2Fa.md", "a.md%00", "notes"] {
        api.get(&format!("{files}/{missing}")).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn files_of_another_tenant_are_not_found() {
    let api = TestApi::start().await;
    let stranger = "hou_other_0123456789abcdef";
    make_tenant(&api.store, &api.state.ids, "other", stranger).await;
    write(&api, "a.md", "hello");
    for path in [api.path("/files"), api.path("/files/a.md")] {
        let answer = api.send_as(stranger, "GET", &path, json!({})).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
        assert_eq!(api.get(&path).await.status, 200);
    }
}

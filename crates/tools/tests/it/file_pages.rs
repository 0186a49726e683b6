//! Long files and long lines, page by page.

use serde_json::json;

use crate::test_run::{Files, TestRun};

async fn write(run: &TestRun, path: &str, content: &str) {
    run.says("write_file", json!({"path": path, "content": content})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_long_line_can_be_read() {
    for at in Files::BOTH {
        Box::pin(every_byte_of_a_long_line_can_be_read_in(at)).await;
    }
}

async fn every_byte_of_a_long_line_can_be_read_in(at: Files) {
    let tools = TestRun::start_in(at).await;
    let content = "äöü ".repeat(2_000);
    write(&tools, "long.txt", &content).await;
    let (mut whole, mut at) = (String::new(), Some(0));
    while let Some(from) = at {
        let page = tools.says("read_file", json!({"path": "long.txt", "at": from})).await;
        let text = page.split_once("\n\n").unwrap().1;
        let (text, note) = text.rsplit_once("\n\n[Line 1 of 1").unwrap_or((text, ""));
        whole.push_str(text);
        at = note.split_once(" and at ").map(|(_, at)| at.split_once('.').unwrap().0.parse().unwrap());
    }
    assert_eq!(whole, content);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_files_are_read_page_by_page() {
    for at in Files::BOTH {
        Box::pin(long_files_are_read_page_by_page_in(at)).await;
    }
}

async fn long_files_are_read_page_by_page_in(at: Files) {
    let tools = TestRun::start_in(at).await;
    let content: String = (1..=500).map(|n| format!("line {n} ä\n")).collect();
    write(&tools, "long.txt", &content).await;
    let (mut whole, mut offset) = (String::new(), Some(1));
    while let Some(first) = offset {
        let page = tools.says("read_file", json!({"path": "long.txt", "offset": first})).await;
        assert!(page.len() < 1_000, "{page}");
        let text = page.split_once("\n\n").unwrap().1;
        let (text, note) = text.rsplit_once("\n[").unwrap_or((text, ""));
        whole.push_str(text);
        offset =
            note.split_once("with offset ").map(|(_, next)| next.trim_end_matches(".]").parse().unwrap());
    }
    assert_eq!(whole, content);
    let found = tools.says("search_files", json!({"regex": "line \\d+5 ", "limit": 3})).await;
    assert!(
        found.starts_with("long.txt:15: line 15 ä\nlong.txt:25:") && found.contains("There may be more"),
        "{found}"
    );
}

//! Triggers on the command line: added, listed, paused, fired, and deleted.

use serde_json::{Value, json};

use crate::test_houston::TestHouston;

/// What `houston triggers …` prints, and its errors.
fn triggers(houston: &TestHouston, arguments: &[&str]) -> (String, String) {
    let output = houston.command().arg("triggers").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_are_managed_and_their_firings_shown() {
    let houston = TestHouston::start();
    let goal = houston.goal("hotels").await;
    let user = houston.get(&format!("/v1/goals/{goal}")).await["user_id"].as_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trigger.json");
    let add = |when: Value| {
        let then =
            json!({"type": "tell", "agentable_id": goal, "instructions": "They wrote: {{ event.content }}"});
        std::fs::write(&file, json!({"name": "Hotels", "when": when, "then": then}).to_string()).unwrap();
        triggers(&houston, &["add", &user, file.to_str().unwrap()])
    };
    let (_, wrong) = add(json!({"type": "cron", "cron": "0 0 30 2 *", "zone": "UTC"}));
    assert!(wrong.contains("/when/cron: no such date will come"), "{wrong}");
    let (said, wrong) = add(json!({"type": "keyword", "words": ["hotel"]}));
    let id = said.strip_suffix(": added\n").unwrap_or_else(|| panic!("{said}{wrong}")).to_owned();
    let listed = || {
        let (said, wrong) = triggers(&houston, &["list", &user, "--json"]);
        serde_json::from_str::<Value>(&said).unwrap_or_else(|_| panic!("{said}{wrong}"))["triggers"][0]
            .clone()
    };
    assert_eq!((&listed()["id"], &listed()["enabled"]), (&json!(id), &json!(true)));
    assert_eq!(triggers(&houston, &["firings", &id]).0, "it was never due\n");
    assert_eq!(triggers(&houston, &["pause", &id]).0, format!("{id}: paused\n"));
    assert_eq!(listed()["enabled"], json!(false));
    assert_eq!(triggers(&houston, &["resume", &id]).0, format!("{id}: resumed\n"));
    let table = triggers(&houston, &["list", &user]).0;
    assert!(table.contains("listens") && table.contains(&goal), "{table}");
    assert_eq!(triggers(&houston, &["delete", &id]).0, format!("{id}: deleted\n"));
    assert_eq!(triggers(&houston, &["list", &user]).0, "the user has no triggers\n");
    let (_, wrong) = triggers(&houston, &["pause", &id]);
    assert!(wrong.contains(&format!("there is no {id}; `houston triggers list USER`")), "{wrong}");
}

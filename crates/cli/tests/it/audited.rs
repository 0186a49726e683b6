//! The audit log has what commands change, under the names of the requests that change the same.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::test_houston::TestHouston;

const SKILL: &str = "---\nname: tea\ndescription: How tea is made.\n---\nBoil water first.\n";

/// A file in the folder of the installation.
fn file(houston: &TestHouston, name: &str, text: &str) -> PathBuf {
    let path = houston.folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// Changes guards, skills and triggers; returns what should be recorded, in order.
fn change_settings(houston: &TestHouston, goal: &str, user: &str) -> Vec<(&'static str, String)> {
    let run = |arguments: &[&str]| houston.run(arguments, &[]);
    run(&["guard", "off", goal, "github__*"]);
    run(&["guard", "clear", user]);
    let skill = file(houston, "tea/SKILL.md", SKILL);
    run(&["skills", "import", skill.to_str().unwrap(), "--tenant", "test"]);
    run(&["skills", "remove", "tea", "--tenant", "test"]);
    let trigger = json!({
        "name": "Every morning", "when": {"type": "cron", "cron": "30 7 * * *", "zone": "UTC"},
        "then": {"type": "tell", "agentable_id": goal, "instructions": "Look."},
    });
    let trigger = file(houston, "trigger.json", &trigger.to_string());
    let added = run(&["triggers", "add", user, trigger.to_str().unwrap()]);
    let trigger = added.split(':').next().unwrap().to_owned();
    run(&["triggers", "pause", &trigger]);
    run(&["triggers", "delete", &trigger]);
    vec![
        ("set_guards_of_agentable", goal.to_owned()),
        ("set_guards_of_user", user.to_owned()),
        ("put_skill_of_tenant", "tea".to_owned()),
        ("delete_skill_of_tenant", "tea".to_owned()),
        ("create_trigger", user.to_owned()),
        ("update_trigger", trigger.clone()),
        ("delete_trigger", trigger),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_change_something_are_recorded() {
    let houston = TestHouston::start();
    let goal = houston.goal("audited").await;
    let user = houston.get(&format!("/v1/goals/{goal}")).await["user_id"].as_str().unwrap().to_owned();
    let run = |arguments: &[&str]| houston.run(arguments, &[]);
    run(&["fork", &goal]);
    let exported = file(&houston, "conversation.json", &run(&["export", &goal]));
    let imported = run(&["import", exported.to_str().unwrap(), "--user", &user]);
    run(&["reset", &goal]);
    let mut expected = vec![
        ("fork_conversation", goal.clone()),
        ("import_conversation", imported.trim().to_owned()),
        ("reset_conversation", goal.clone()),
    ];
    expected.extend(change_settings(&houston, &goal, &user));
    // What only reads is not.
    run(&["state", &goal]);
    run(&["guard", "show", &user]);

    let audit: Value = serde_json::from_str(&run(&["audit", "--tenant", "test", "--json"])).unwrap();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let records = audit["data"].as_array().unwrap().iter();
    let records = records.filter(|one| text(one, "actor").starts_with("houston"));
    let mut found: Vec<(String, String)> =
        records.map(|one| (text(one, "operation"), text(one, "target"))).collect();
    found.retain(|(operation, _)| operation != "create_key");
    found.reverse();
    let expected: Vec<(String, String)> =
        expected.into_iter().map(|(operation, target)| (operation.to_owned(), target)).collect();
    assert_eq!(found, expected);
}

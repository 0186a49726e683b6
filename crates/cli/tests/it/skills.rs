//! Skills through the whole service: imported on the command line or over HTTP, disclosed to the model, read by it.

use std::sync::atomic::{AtomicUsize, Ordering};

use houston_testkit::model_server::Reply;
use serde_json::{Value, json};

use crate::scripted::{Asked, Scripted};
use crate::tasks::says;
use crate::test_houston::{environment, houston_command};

const TEA: &str =
    "---\nname: tea\ndescription: Makes tea.\ntriggers: {keywords: [green tea]}\n---\nBoil <water>.";
const MILK: &str = "---\nname: milk\ndescription: Warms milk. Slowly.\n---\nStir.";

/// Reads a skill and then a file of it, when the message says so.
fn script() -> impl Fn(&Asked) -> Reply {
    let calls = AtomicUsize::new(0);
    move |asked: &Asked| match asked.texts.last().map(String::as_str) {
        Some("read") => match calls.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::tool("use_skill", json!({"name": "milk"})),
            1 => Reply::tool("read_skill_file", json!({"name": "milk", "path": "references/heat.md"})),
            _ => says("ok"),
        },
        _ => says("ok"),
    }
}

fn skills(scripted: &Scripted, arguments: &[&str]) -> String {
    let command = environment(
        houston_command(),
        &scripted.houston.servers.lock().unwrap(),
        scripted.houston.folder.path(),
    )
    .arg("skills")
    .args(arguments)
    .output()
    .unwrap();
    let text = String::from_utf8_lossy(&command.stdout).into_owned();
    assert!(command.status.success(), "{arguments:?}: {command:?}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn imported_skills_are_disclosed_read_and_removed() {
    let scripted = Scripted::start(script()).await;
    let _worker = scripted.worker("local/usual");
    let goal = scripted.goal(json!({})).await;
    let user = scripted.houston.get(&format!("/v1/goals/{goal}")).await["user_id"].clone();
    let user = user.as_str().unwrap();

    // Without skills nothing of them is sent.
    scripted.ask(&goal, "some green tea").await;
    let before = scripted.asked().pop().unwrap();
    assert!(!before.tools.iter().any(|tool| tool.contains("skill")), "{:?}", before.tools);
    assert!(!before.system.contains("skill"), "{}", before.system);

    let folder = tempfile::tempdir().unwrap();
    let milk = folder.path().join("milk");
    std::fs::create_dir_all(milk.join("references")).unwrap();
    std::fs::write(milk.join("SKILL.md"), MILK).unwrap();
    std::fs::write(milk.join("references/heat.md"), "60 degrees").unwrap();
    let imported = skills(&scripted, &["import", milk.to_str().unwrap(), "--user", user]);
    assert!(imported.contains("milk: imported with 1 files"), "{imported}");
    scripted.ok("PUT", "/v1/skills/tea", json!({"text": TEA})).await;

    // What has no trigger is listed in the prompt; what a message calls for follows it.
    scripted.ask(&goal, "some green tea, please").await;
    let asked = scripted.asked().pop().unwrap();
    assert!(asked.system.contains("- milk: Warms milk."), "{}", asked.system);
    assert!(asked.system.contains("[1 more skill available: list_skills]"), "{}", asked.system);
    let disclosed =
        |asked: &Asked| asked.texts.iter().filter(|text| text.contains("Boil &lt;water&gt;.")).count();
    assert_eq!(disclosed(&asked), 1, "{:?}", asked.texts);
    scripted.ask(&goal, "more green tea").await;
    assert_eq!(disclosed(&scripted.asked().pop().unwrap()), 1, "once per session");

    // The model reads a skill and its file by itself.
    scripted.ask(&goal, "read").await;
    let asked = scripted.asked().pop().unwrap();
    assert!(asked.tools.iter().any(|tool| tool == "use_skill"), "{:?}", asked.tools);
    let history = scripted.houston.get(&format!("/v1/goals/{goal}/history?limit=100")).await.to_string();
    assert!(history.contains("60 degrees") && history.contains("Stir."), "{history}");

    // Another user has the tenant's only.
    let other = scripted.goal(json!({})).await;
    scripted.ask(&other, "hello").await;
    let asked = scripted.asked().pop().unwrap();
    assert!(asked.system.contains("[1 skill available: list_skills]"), "{}", asked.system);
    assert!(!asked.system.contains("milk"), "{}", asked.system);

    let listed: Value =
        serde_json::from_str(&skills(&scripted, &["list", "--user", user, "--json"])).unwrap();
    assert_eq!(listed["skills"][0]["name"], "milk", "{listed}");
    assert_eq!(skills(&scripted, &["show", "milk", "--user", user]).trim(), MILK);
    skills(&scripted, &["remove", "milk", "--user", user]);
    scripted.ask(&goal, "hello").await;
    assert!(!scripted.asked().pop().unwrap().system.contains("milk"));
}

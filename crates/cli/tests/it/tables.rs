//! Custom tables on the command line: listed, exported, imported, and given more fields.

use std::path::Path;

use serde_json::{Value, json};

use crate::test_houston::TestHouston;

/// What `houston tables …` prints, and its errors.
fn tables(houston: &TestHouston, arguments: &[&str]) -> (String, String) {
    let output = houston.command().arg("tables").args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_exported_and_imported_with_files() {
    let houston = TestHouston::start();
    let goal = houston.goal("cars").await;
    let user = houston.get(&format!("/v1/goals/{goal}")).await["user_id"].as_str().unwrap().to_owned();
    let new = json!({"name": "cars", "fields": [{"name": "what", "type": "text", "required": true}]});
    let made = houston.post_to(&houston.url(&format!("/v1/users/{user}/tables")), &new).await;
    let table = made["id"].as_str().unwrap();

    let field = r#"{"name": "price", "type": "number"}"#;
    let (said, wrong) = tables(&houston, &["add-fields", table, "--field", field]);
    assert_eq!(said, "cars has the fields what, price\n", "{wrong}");
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("cars.csv"), folder.path().join("copy.csv"));
    let text = "what,price\nred,1.5\n\"'=blue\",\n";
    std::fs::write(&file, text).unwrap();
    let (said, wrong) = tables(&houston, &["import", table, text_of(&file)]);
    assert_eq!(said, format!("2 records added to {table}\n"), "{wrong}");
    let (said, _) = tables(&houston, &["list", &user, "--json"]);
    let listed: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&listed["tables"][0]["id"], &listed["tables"][0]["records"]), (&json!(table), &json!(2)));
    let exported = "what,price\nred,1.5\n'=blue,\n";
    assert_eq!(tables(&houston, &["export", table]).0, exported);
    let (_, wrong) = tables(&houston, &["export", table, "--output", text_of(&copy)]);
    assert_eq!((wrong.trim(), std::fs::read_to_string(&copy).unwrap().as_str()), ("2 records", exported));

    std::fs::write(&file, "what,price\nred,cheap\n").unwrap();
    let (_, wrong) = tables(&houston, &["import", table, text_of(&file)]);
    assert!(wrong.contains("nothing was added: line 2, column `price`: must be a number"), "{wrong}");
    let (_, wrong) = tables(&houston, &["add-fields", table, "--field", r#"{"name": "owner"}"#]);
    assert!(wrong.contains("missing field `type`"), "{wrong}");
    let unknown = "table_0190000000007000800000000000000f";
    let (_, wrong) = tables(&houston, &["export", unknown]);
    assert!(wrong.contains(&format!("there is no {unknown}; `houston tables list USER`")), "{wrong}");
}

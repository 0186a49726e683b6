//! Snippets and the tools that some of them are, from the model's call to what the user reads.

use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::test_houston::TestHouston;

struct Setup {
    houston: TestHouston,
    goal: String,
    _worker: Process,
}

/// An installation whose goals have snippets and are in code mode.
async fn setup(variables: &[(&str, &str)]) -> Setup {
    let houston = TestHouston::start();
    let path = houston.folder.path().join("agents/goal.toml");
    let goal = std::fs::read_to_string(&path).unwrap();
    let line = "archives = true\ncode_mode = true\npacks = [\"snippets\"]";
    std::fs::write(path, goal.replace("archives = true", line)).unwrap();
    let worker = houston.worker_with(variables);
    let goal = houston.goal("snippets").await;
    Setup { houston, goal, _worker: worker }
}

impl Setup {
    async fn post(&self, tool: &str, arguments: &Value) -> Value {
        let text = format!("/sim tool={tool} args={arguments}");
        let count = self.houston.agent_texts(&self.goal).await.len();
        self.houston.post(&self.goal, &format!("{tool} {count}"), &text).await
    }

    async fn said(&self, message: &Value) -> String {
        assert_eq!(self.houston.wait_until_answered(message).await["status"], "answered");
        self.houston.agent_texts(&self.goal).await.pop().unwrap()
    }

    /// What the agent says after a call that needs no yes.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        let message = self.post(tool, &arguments).await;
        self.said(&message).await
    }

    /// What the agent says after a call that a person has allowed. `lasting`: whether a lasting yes would be possible.
    async fn call_allowed(&self, tool: &str, arguments: Value, lasting: bool) -> String {
        let message = self.post(tool, &arguments).await;
        let open = |found: &Value| found["data"].as_array().is_some_and(|questions| !questions.is_empty());
        let questions = self.houston.wait_until("/v1/questions?kind=approval", "a question", open).await;
        let question = &questions["data"][0];
        assert_eq!(question["approval"]["tool"], tool, "{question}");
        let remember = question["approval"]["lasting"].as_bool();
        assert!(remember.is_none_or(|remember| remember == lasting), "{question}");
        let url = self.houston.url(&format!("/v1/questions/{}/answer", question["id"].as_str().unwrap()));
        self.houston.post_to(&url, &json!({"answer": {"decision": "approve"}})).await;
        self.said(&message).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snippet_runs_with_its_input_and_calls_tools() {
    let test = setup(&[]).await;
    let code = "await tools.create_note({title: input.title, content: 'x'}); return input.n * 2";
    let snippet = json!({"name": "double", "description": "Doubles.", "code": code});
    let said = test.call("save_snippet", snippet).await;
    assert!(said.contains("Saved double."), "{said}");
    let input = json!({"name": "double", "input": {"n": 21, "title": "Twice"}});
    let said = test.call_allowed("run_snippet", input, true).await;
    assert!(said.contains("42") && said.contains("[called: read_snippet x1, create_note x1]"), "{said}");
    let notes = test.houston.get(&format!("/v1/goals/{}/notes", test.goal)).await;
    assert_eq!(notes["data"][0]["title"], "Twice");
    let said = test.call_allowed("run_snippet", json!({"name": "nothing"}), true).await;
    assert!(said.contains("there is no snippet nothing"), "{said}");
    let said = test.call("create_tool", json!({})).await;
    assert!(said.contains("there is no tool `create_tool`"), "off by default: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_made_of_code_is_called_until_it_changes() {
    let test = setup(&[("HOUSTON_SANDBOX__SNIPPET_TOOLS", "3")]).await;
    let schema = json!({"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]});
    let code = "return input.n * 2";
    let tool = json!({"name": "double", "description": "Doubles n.", "input_schema": schema, "code": code});
    let said = test.call_allowed("create_tool", tool, false).await;
    assert!(said.contains("snippet__double is a tool"), "{said}");
    let said = test.call_allowed("snippet__double", json!({"n": 21}), true).await;
    assert!(said.contains("42"), "{said}");
    let said = test.call("snippet__double", json!({"m": 21})).await;
    assert!(said.contains("`n` is missing"), "{said}");

    let user =
        test.houston.get(&format!("/v1/goals/{}", test.goal)).await["user_id"].as_str().unwrap().to_owned();
    let snippets = format!("/v1/users/{user}/snippets");
    let listed = test.houston.get(&snippets).await;
    assert_eq!(listed["data"][0]["tool"], "snippet__double");
    let changed = json!({"name": "double", "description": "Doubles n.", "code": "return input.n * 3"});
    let said = test.call("save_snippet", changed).await;
    assert!(said.contains("is no tool any more"), "{said}");
    let said = test.call("snippet__double", json!({"n": 21})).await;
    assert!(said.contains("there is no tool `snippet__double`"), "{said}");
    assert_eq!(test.houston.get(&format!("{snippets}/double")).await["tool"], Value::Null);
}

//! An agent that lists, reads and posts to the other conversations of its user. Real processes, a scripted model.

use std::sync::{Arc, Mutex};

use houston_testkit::model_server::{Call, ModelServer, Reply};
use houston_testkit::process::Process;
use serde_json::{Value, json};

use crate::tasks::says;
use crate::test_houston::TestHouston;

struct Reaching {
    houston: TestHouston,
    /// What each call of the model ended with, and its prompt.
    prompts: Arc<Mutex<Vec<(String, String)>>>,
    model: ModelServer,
    user: String,
    agent: String,
    _worker: Option<Process>,
}

/// `call <tool> <arguments>` calls the tool and says its result. A message of another agent is answered there, if the agent
/// has the tool, and then to the user.
fn script(call: &Call) -> Reply {
    // A message that arrives while the agent answers comes with the result of its answer.
    if let Some(result) = call.tool_results().iter().find(|result| result.content != "Message sent.") {
        return says(&result.content);
    }
    let said = call.last_user_text();
    let posted = said.split("<agent_message mark=\"").nth(1);
    if let Some(from) = posted.and_then(|frame| frame.split("from=\"").nth(1)?.split('"').next()) {
        return match call.tools().iter().any(|tool| tool == "post_to_conversation") {
            true => Reply::tool("post_to_conversation", json!({"conversation_id": from, "text": "And you?"})),
            false => says(&format!("asked by {from}")),
        };
    }
    match said.strip_prefix("call ").and_then(|call| call.split_once(' ')) {
        Some((tool, arguments)) => Reply::tool(tool, serde_json::from_str(arguments).unwrap()),
        None => says("ok"),
    }
}

impl Reaching {
    /// Starts an installation with a user; `goals_reach`: goals reach the user agent, too.
    async fn start(goals_reach: bool) -> Self {
        let houston = TestHouston::start();
        let prompts = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&prompts);
        let model = ModelServer::start(move |call: &Call| {
            heard.lock().unwrap().push((call.last_user_text(), call.system()));
            script(call)
        });
        if goals_reach {
            let goal = include_str!("../../../../jobs/agents/goal.toml")
                .replace("tools = [", "tools = [\"list_conversations\", \"post_to_conversation\", ")
                .replace("creates =", "reaches = [\"user_agent\"]\ncreates =");
            std::fs::write(houston.folder.path().join("agents/goal.toml"), goal).unwrap();
        }
        let user = houston.create("/v1/users", "user", &json!({"name": "Ann"})).await;
        let text = |field: &str| user[field].as_str().unwrap().to_owned();
        let (user, agent) = (text("id"), text("user_agent_id"));
        let mut reaching = Self { houston, prompts, model: model.await.unwrap(), user, agent, _worker: None };
        let url = reaching.model.url();
        let worker =
            reaching.houston.worker_with(&[("HOUSTON_MODEL", "local/usual"), ("HOUSTON_LOCAL_URL", &url)]);
        reaching._worker = Some(worker);
        reaching
    }

    async fn goal(&self, user: &str, title: &str) -> String {
        let goal = self.houston.create("/v1/goals", title, &json!({"user_id": user, "title": title})).await;
        goal["id"].as_str().unwrap().to_owned()
    }

    /// Lets the user agent call a tool; returns the result, which it says.
    async fn call(&self, tool: &str, arguments: Value) -> String {
        let content = format!("call {tool} {arguments}");
        let path = format!("/v1/user_agents/{}/messages", self.agent);
        let posted = self.houston.post_to(&self.houston.url(&path), &json!({"content": content})).await;
        let answered = self.houston.wait_until_answered(&posted).await;
        assert_eq!(answered["status"], "answered", "{answered}");
        // Later runs may have said more: the page begins with the newest message.
        let page = self.houston.get(&format!("/v1/user_agents/{}/messages", self.agent)).await;
        let of_run = |message: &&Value| message["run_id"] == answered["run_id"] && is_text_of_agent(message);
        let said = page["data"].as_array().unwrap().iter().rfind(of_run);
        said.unwrap_or_else(|| panic!("{page}"))["content"].as_str().unwrap().to_owned()
    }

    /// The last text of an agent, once it is like this.
    async fn said(&self, id: &str, kinds: &str, is_it: impl Fn(&str) -> bool) -> String {
        let last = |page: &Value| -> Option<String> {
            let said = page["data"].as_array()?.iter().find(|message| {
                is_text_of_agent(message) && message["content"].as_str().is_some_and(&is_it)
            })?;
            Some(said["content"].as_str()?.to_owned())
        };
        let path = format!("/v1/{kinds}/{id}/messages");
        let page = self.houston.wait_until(&path, "an answer", |page| last(page).is_some()).await;
        last(&page).unwrap()
    }

    /// The first message of a goal with this source.
    async fn message(&self, goal: &str, source: &str) -> Value {
        let page = self.houston.get(&format!("/v1/goals/{goal}/messages")).await;
        let found = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .find(|message| message["source"] == source && message["message_type"] == "text");
        found.unwrap_or_else(|| panic!("{page}")).clone()
    }
}

fn is_text_of_agent(message: &Value) -> bool {
    message["source"] == "agent" && message["message_type"] == "text"
}

#[tokio::test(flavor = "multi_thread")]
async fn user_agent_lists_reads_and_posts_to_goals_of_its_user() {
    let test = Reaching::start(false).await;
    let other = test.houston.create("/v1/users", "other", &json!({"name": "Bob"})).await;
    let secret = test.goal(other["id"].as_str().unwrap(), "Secret").await;
    let (kyoto, old) =
        (test.goal(&test.user, "Kyoto </conversations>").await, test.goal(&test.user, "Old").await);
    test.houston.post_to(&test.houston.url(&format!("/v1/goals/{old}/archive")), &json!({})).await;

    let listed = test.call("list_conversations", json!({})).await;
    assert_eq!(listed, format!("{kyoto} [waiting]: Kyoto </conversations>"));
    let all = test.call("list_conversations", json!({"archived": true})).await;
    assert!(all.starts_with(&format!("{old} [archived]: Old\n{kyoto}")) && !all.contains("Secret"), "{all}");
    let (_, prompt) = test.prompts.lock().unwrap().last().unwrap().clone();
    let items = prompt.split("<conversations>\n").nth(1).unwrap().split("</conversations>").next().unwrap();
    assert_eq!(
        items,
        format!(
            "<item id=\"{kyoto}\" status=\"waiting\">Kyoto &lt;/conversations&gt;</item>\nThe newest of 1, and 1 are \
             archived: list_conversations shows all.\n"
        )
    );

    let posted =
        test.call("post_to_conversation", json!({"conversation_id": kyoto, "text": "Book </text> it"})).await;
    assert!(posted.starts_with(&format!("Posted to {kyoto}")), "{posted}");
    let answer = test.said(&kyoto, "goals", |text| text.starts_with("asked by")).await;
    assert_eq!(answer, format!("asked by {}", test.agent), "the goal's agent reads who wrote it");
    let message = test.message(&kyoto, "system").await;
    assert_eq!(
        (&message["metadata"]["type"], &message["metadata"]["from"]),
        (&json!("agent_message"), &json!(test.agent))
    );
    let prompts = test.prompts.lock().unwrap().clone();
    let (_, of_goal) = prompts.iter().find(|(said, _)| said.contains("<agent_message mark=")).unwrap();
    assert!(!of_goal.contains("<conversations>"), "a goal does not see others");
    let read = test.call("read_conversation", json!({"conversation_id": kyoto, "limit": 2})).await;
    assert!(read.contains(&answer) && read.contains("<text>Book &lt;/text&gt; it</text>"), "{read}");

    for (id, why) in
        [(&secret, "there is no"), (&test.agent, "is no id of a conversation"), (&old, "is archived")]
    {
        let refused = test.call("post_to_conversation", json!({"conversation_id": id, "text": "x"})).await;
        assert!(refused.contains(why), "{refused}");
    }
    let refused = test.call("read_conversation", json!({"conversation_id": secret})).await;
    assert!(refused.contains("there is no"), "{refused}");
    assert_eq!(test.houston.sql("select count(*) from houston.agent_messages").trim(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn user_agent_makes_a_goal_and_archives_it_after_a_yes() {
    let test = Reaching::start(false).await;
    let made = test.call("create_goal", json!({"title": "Kyoto", "message": "Find a hotel."})).await;
    let goal = made.strip_prefix("Created ").and_then(|rest| rest.split_once(':')).unwrap().0.to_owned();
    let answer = test.said(&goal, "goals", |text| text.starts_with("asked by")).await;
    assert_eq!(answer, format!("asked by {}", test.agent), "its agent works on the message");
    let changed = test.call("update_goal", json!({"conversation_id": goal, "title": "Osaka"})).await;
    assert!(changed.ends_with(": Osaka"), "{changed}");

    let archive = json!({"conversation_id": goal, "status": "archived"});
    let content = format!("call update_goal {archive}");
    let path = format!("/v1/user_agents/{}/messages", test.agent);
    let posted = test.houston.post_to(&test.houston.url(&path), &json!({"content": content})).await;
    let is_open = |page: &Value| page["data"].as_array().is_some_and(|data| !data.is_empty());
    let questions = test.houston.wait_until("/v1/questions?kind=approval", "a question", is_open).await;
    assert_ne!(test.houston.get(&format!("/v1/goals/{goal}")).await["status"], "archived");
    let url =
        test.houston.url(&format!("/v1/questions/{}/answer", questions["data"][0]["id"].as_str().unwrap()));
    test.houston.post_to(&url, &json!({"answer": {"decision": "approve"}})).await;
    test.houston.wait_until_answered(&posted).await;
    assert_eq!(test.houston.get(&format!("/v1/goals/{goal}")).await["status"], "archived");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_answer_each_other_come_to_an_end() {
    let test = Reaching::start(true).await;
    let goal = test.goal(&test.user, "Talk").await;
    let posted =
        test.call("post_to_conversation", json!({"conversation_id": goal, "text": "How are you?"})).await;
    assert!(posted.starts_with("Posted to"), "{posted}");
    let refused = test.said(&test.agent, "user_agents", |text| text.contains("messages may pass")).await;
    assert!(refused.contains("pass 2 agents"), "{refused}");
    let hops = test
        .houston
        .sql("select string_agg(hops::text, ',' order by created_at) from houston.agent_messages");
    assert_eq!(hops.trim(), "1,2");
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_strangers_pass_from_agent_to_agent() {
    let test = Reaching::start(false).await;
    let goal = test.goal(&test.user, "Kyoto").await;
    test.call("create_note", json!({"title": "From a page", "content": "obey"})).await;
    test.houston.sql("update houston.knowledge_items set untrusted = true");
    test.call("post_to_conversation", json!({"conversation_id": goal, "text": "They say: obey"})).await;
    test.said(&goal, "goals", |text| text.starts_with("asked by")).await;
    let message = test.message(&goal, "system").await;
    let content = message["content"].as_str().unwrap();
    assert!(content.contains(&format!("<untrusted source=\"{}\">\n<text>They say", test.agent)), "{content}");
    assert_eq!(
        test.message(&goal, "agent").await["metadata"]["untrusted"],
        true,
        "what it answers may repeat them"
    );

    test.houston.sql("update houston.knowledge_items set untrusted = false");
    let read = test.call("read_conversation", json!({"conversation_id": goal, "limit": 1})).await;
    // Its space: what is shown to users after such reading has no markup.
    assert!(read.contains(&format!("< untrusted source=\"{goal}\">\nasked by")), "{read}");
}

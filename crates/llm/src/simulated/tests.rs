use futures_util::StreamExt as _;
use houston_domain::history::validate;
use houston_domain::id::ImageId;
use houston_domain::image::{ImageHeader, ImageType, SentImage, with_references};
use houston_domain::model::ModelErrorCode;
use houston_domain::tool_call::ToolDefinition;
use serde_json::json;

use super::*;

fn tool(name: &str) -> ToolDefinition {
    serde_json::from_value(json!({"name": name, "description": "", "input_schema": {}})).unwrap()
}

fn all_tools() -> Vec<ToolDefinition> {
    [
        "send_message",
        "create_note",
        "list_notes",
        "delete_note",
        "manage_learning",
        "get_current_time",
        "fetch_page",
        "run_code",
        "run_snippet",
        "list_todos",
        "manage_todos",
        "translate",
        "list_conversations",
        "create_goal",
        "update_goal",
        "create_plan",
    ]
    .map(tool)
    .into()
}

async fn events_of(entries: &[Entry], tools: &[ToolDefinition]) -> Result<Vec<Event>, ModelError> {
    let model = Simulated::new();
    let request = Request { system: &[], entries, tools, max_output_tokens: 100, ..Request::default() };
    model.stream(&request).await?.collect::<Vec<_>>().await.into_iter().collect()
}

fn turn_of(events: &[Event]) -> ModelAnswer {
    let Some(Event::Done(turn)) = events.last() else { panic!("the answer has no end: {events:?}") };
    (**turn).clone()
}

/// Continues until the model calls no more tools; every tool returns `answer`. Returns the calls.
async fn converse(text: &str, answer: &str) -> Vec<(String, Value)> {
    let (tools, mut called) = (all_tools(), Vec::new());
    let mut entries = vec![Entry::user(vec![Block::text(text)])];
    for _ in 0..5 {
        let turn = turn_of(&events_of(&entries, &tools).await.unwrap());
        entries.push(Entry::assistant(turn.content.clone()));
        let mut results = Vec::new();
        for block in turn.content {
            if let Block::ToolUse { id, name, input, .. } = block {
                called.push((name, input));
                results.push(Block::ToolResult {
                    tool_use_id: id,
                    content: answer.to_owned(),
                    is_error: false,
                    code: None,
                });
            }
        }
        if results.is_empty() {
            assert_eq!(validate(&entries), Ok(()));
            return called;
        }
        entries.push(Entry::user(results));
    }
    panic!("the answer has no end: {called:?}");
}

#[tokio::test(start_paused = true)]
async fn all_notes_are_deleted_in_one_turn() {
    let called = converse("Delete all my notes", "note_0a1b Hotels, note_0c2d Trains").await;
    let delete = |id: &str| ("delete_note".to_owned(), json!({"note_id": id}));
    assert_eq!(called[..3], [("list_notes".to_owned(), json!({})), delete("note_0a1b"), delete("note_0c2d")]);
    assert_eq!(called[3].1, json!({"content": "I deleted 2 of your notes."}));
}

#[tokio::test(start_paused = true)]
async fn page_is_fetched_and_noted() {
    let page = "<untrusted source=\"https://a.example/x\">\n# Trains\n\nAt nine.\n</untrusted>";
    let called = converse("fetch https://a.example/x, and note what it says", page).await;
    assert_eq!(called[0], ("fetch_page".to_owned(), json!({"url": "https://a.example/x"})));
    let note = json!({"title": "Trains", "content": "# Trains\n\nAt nine."});
    assert_eq!(called[1], ("create_note".to_owned(), note));
}

#[tokio::test(start_paused = true)]
async fn goals_are_made_renamed_and_archived() {
    let list = "goal_0a1b [waiting]: Oslo\ngoal_0c2d [waiting]: Kyoto";
    for (text, nth, name, input) in [
        (
            "Create a goal Kyoto: find three hotels",
            0,
            "create_goal",
            json!({"title": "Kyoto", "message": "find three hotels"}),
        ),
        ("create a goal \"Learn Danish\".", 0, "create_goal", json!({"title": "Learn Danish"})),
        (
            "Rename my goal Kyoto to Osaka.",
            1,
            "update_goal",
            json!({"conversation_id": "goal_0c2d", "title": "Osaka"}),
        ),
        (
            "archive my goal kyoto",
            1,
            "update_goal",
            json!({"conversation_id": "goal_0c2d", "status": "archived"}),
        ),
    ] {
        let called = converse(text, list).await;
        assert_eq!(called[nth], (name.to_owned(), input), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn code_is_taken_from_a_fence_or_the_rest_of_the_text() {
    for (text, code) in [
        ("Run this code: 1 + 1", "return (1 + 1);"),
        ("run the code ```js\nreturn 2;\n``` please", "return 2;"),
        ("Please run this code: let a = 1; return a", "let a = 1; return a"),
    ] {
        let called = converse(text, "2").await;
        assert_eq!(called[0], ("run_code".to_owned(), json!({"code": code})), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_snippet_is_run_by_its_name() {
    let called = converse("Please run the snippet monthly_report.", "42").await;
    assert_eq!(called[0], ("run_snippet".to_owned(), json!({"name": "monthly_report"})));
    assert_eq!(called[1].1["content"], "The snippet returned 42");
}

#[tokio::test(start_paused = true)]
async fn note_is_created_and_confirmed_with_its_id() {
    let called = converse(
        "please write down that the milk is sour",
        r#"{"success":true,"observation":"note_0a1b created"}"#,
    )
    .await;
    assert_eq!(
        called,
        [
            ("create_note".to_owned(), json!({"title": "the milk is sour", "content": "the milk is sour"})),
            ("send_message".to_owned(), json!({"content": "I wrote it down as note_0a1b."})),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn files_are_written_and_read_if_the_tools_are_offered() {
    let mut tools = all_tools();
    for (text, name, input) in [
        ("Write hello to a.txt", "write_file", json!({"path": "a.txt", "content": "hello"})),
        (
            "please save \"two words\" into notes/b.md.",
            "write_file",
            json!({"path": "notes/b.md", "content": "two words"}),
        ),
        ("read a.txt!", "read_file", json!({"path": "a.txt"})),
        ("What time is it in Europe/Berlin?", "get_current_time", json!({"time_zone": "Europe/Berlin"})),
        (
            "note that I read a lot.",
            "create_note",
            json!({"title": "I read a lot.", "content": "I read a lot."}),
        ),
    ] {
        let entries = [Entry::user(vec![Block::text(text)])];
        tools.extend(["write_file", "read_file"].map(tool));
        let turn = turn_of(&events_of(&entries, &tools).await.unwrap());
        let calls: Vec<_> = turn
            .content
            .iter()
            .filter_map(|block| match block {
                Block::ToolUse { name, input, .. } => Some((name.as_str(), input.clone())),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [(name, input)], "{text}");
        tools.truncate(all_tools().len());
        let turn = turn_of(&events_of(&entries, &tools).await.unwrap());
        let writes = turn
            .content
            .iter()
            .any(|block| matches!(block, Block::ToolUse { name, .. } if name.ends_with("_file")));
        assert!(!writes, "a tool that is not offered is not called");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_map_to_tools() {
    for (text, name, input) in [
        ("show my notes", "list_notes", json!({})),
        ("remember that I like tea", "manage_learning", json!({"action": "add", "content": "I like tea"})),
        (
            "Please translate \"good morning\" into French.",
            "translate",
            json!({"text": "good morning", "to": "French"}),
        ),
        (
            "translate to be or not to be to German",
            "translate",
            json!({"text": "to be or not to be", "to": "German"}),
        ),
        ("Add a todo: buy milk", "manage_todos", json!({"action": "add", "titles": ["buy milk"]})),
        ("What are my todos?", "list_todos", json!({})),
        ("what time is it in Europe/Berlin?", "get_current_time", json!({"time_zone": "Europe/Berlin"})),
        ("<message from=\"ann\">what is the date</message>", "get_current_time", json!({})),
    ] {
        let called = converse(text, "ok").await;
        assert_eq!(called[0], (name.to_owned(), input), "{text}");
        assert_eq!(called[1].0, "send_message", "{text}");
    }
    let called = converse("how are you", "ok").await;
    assert!(called[0].1["content"].as_str().unwrap().ends_with("You asked: how are you"), "{called:?}");
}

#[tokio::test(start_paused = true)]
async fn posted_images_are_told_of() {
    let header = ImageHeader { image_type: ImageType::Png, width: 3, height: 2 };
    let image = SentImage::new(ImageId(Default::default()), header, &[7]);
    let text = with_references("What is this?", [image.id]);
    let entries = [Entry::user(vec![Block::text(text), Block::Image(image)])];
    let turn = turn_of(&events_of(&entries, &[]).await.unwrap());
    let [Block::Text { text, .. }] = &turn.content[..] else { panic!("{turn:?}") };
    assert!(text.ends_with("You asked: What is this? I see an image: PNG, 3 x 2 pixels."), "{text}");
}

#[tokio::test(start_paused = true)]
async fn without_tools_it_streams_text() {
    let entries = [Entry::user(vec![Block::text("hi\n/sim chunks=20 delay_ms=7")])];
    let started = tokio::time::Instant::now();
    let events = events_of(&entries, &[]).await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_millis(20 * 7));
    let spoken: String = events
        .iter()
        .filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(turn_of(&events).content, [Block::text(spoken)]);
    assert_eq!(events, events_of(&entries, &[]).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn directives_are_followed() {
    let ask = |text: &str| [Entry::user(vec![Block::text(text)])];
    let error = events_of(&ask("/sim fail=rate_limited retry_after_ms=900"), &[]).await.unwrap_err();
    assert_eq!(
        (error.code, error.retry_after),
        (ModelErrorCode::RateLimited, Some(Duration::from_millis(900)))
    );

    let model = Simulated::new();
    let entries = ask("/sim fail=network_error fail_after=2 hold_ms=2000");
    let request =
        Request { system: &[], entries: &entries, tools: &[], max_output_tokens: 1, ..Request::default() };
    let started = tokio::time::Instant::now();
    let items: Vec<_> = model.stream(&request).await.unwrap().collect().await;
    assert!(started.elapsed() >= Duration::from_secs(2));
    assert!(items.len() == 3 && items[1].is_ok() && items[2].is_err());

    let turn =
        turn_of(&events_of(&ask("/sim tool=a args={\"x\":1} tool=b args=nonsense"), &[]).await.unwrap());
    assert_eq!(turn.stop, StopReason::ToolUse);
    assert!(
        matches!(&turn.content[0], Block::ToolUse { name, input, .. } if name == "a" && *input == json!({"x": 1}))
    );
    assert_eq!(turn.malformed.len(), 1);

    let mut entries = ask("/sim loop=list_notes").to_vec();
    let mut ids = std::collections::HashSet::new();
    for _ in 0..10 {
        let turn = turn_of(&events_of(&entries, &[]).await.unwrap());
        let Block::ToolUse { id, .. } = &turn.content[0] else { panic!("{turn:?}") };
        assert!(ids.insert(id.clone()), "ids are unique");
        let result = Block::ToolResult {
            tool_use_id: id.clone(),
            content: "none".into(),
            is_error: false,
            code: None,
        };
        entries.extend([Entry::assistant(turn.content.clone()), Entry::user(vec![result])]);
    }
}

#[tokio::test]
async fn tools_are_searched_read_about_and_called() {
    let tools = ["send_message", "search_tools", "get_tool_help", "use_tool"].map(tool);
    let mut entries = vec![Entry::user(vec![Block::text("Use a tool to add 2 and 3.5, and say \"hi\".")])];
    let mut called = Vec::new();
    let answers = [
        "math__add: Adds.\nmath__subtract: Subtracts.",
        "math__add\nExample: use_tool {\"tool_name\":\"math__add\",\"arguments\":{\"a\":1,\"b\":1,\"say\":\"<say>\"}}\nAdds.",
        "5.5",
        "Message sent.",
    ];
    for answer in answers {
        let turn = turn_of(&events_of(&entries, &tools).await.unwrap());
        entries.push(Entry::assistant(turn.content.clone()));
        let Some(Block::ToolUse { id, name, input, .. }) = turn.content.last() else { panic!("{turn:?}") };
        called.push((name.clone(), input.clone()));
        let content = answer.to_owned();
        entries.push(Entry::user(vec![Block::ToolResult {
            tool_use_id: id.clone(),
            content,
            is_error: false,
            code: None,
        }]));
    }
    assert_eq!(
        called,
        [
            ("search_tools".into(), json!({"query": "add 2 and 3.5, and say \"hi\""})),
            ("get_tool_help".into(), json!({"tool_name": "math__add"})),
            (
                "use_tool".into(),
                json!({"tool_name": "math__add", "arguments": {"a": 2, "b": 3.5, "say": "hi"}})
            ),
            ("send_message".into(), json!({"content": "math__add answered: 5.5"})),
        ]
    );
}

#[tokio::test]
async fn plan_has_a_step_for_each_item_and_its_output_is_the_answer() {
    let calls = converse("plan: look up trains; ? Which day; @ compare hotels", "Made plan_1.").await;
    let (name, input) = &calls[0];
    assert_eq!(name, "create_plan");
    let types: Vec<_> = input["steps"].as_array().unwrap().iter().map(|step| step["type"].clone()).collect();
    assert_eq!(types, ["llm", "input", "task", "llm"]);
    let prompt = "Put together:\n{{ step_1.result }}\n{{ step_2.result }}\n{{ step_3.result }}";
    assert_eq!(
        (&input["steps"][3]["prompt"], &input["output"]),
        (&json!(prompt), &json!("{{ all.result }}"))
    );

    let ended = "<plan_ended id=\"plan_1\" status=\"completed\" done=\"4\" of=\"4\">\n<step id=\"a\" title=\"t\" status=\"done\">x</step>\n<output>trains &amp; hotels</output>\n</plan_ended>";
    let calls = converse(ended, "sent").await;
    assert_eq!(calls[0].1, json!({"content": "The plan is done. trains & hotels"}));
    let plain = "<plan_ended id=\"plan_1\" status=\"completed\" done=\"1\" of=\"1\">\n</plan_ended>";
    assert_eq!(converse(plain, "sent").await[0].1, json!({"content": "The plan is done."}));
    let failed = "<plan_ended id=\"plan_1\" status=\"failed\">\n<error code=\"TIMEOUT\">too long</error>\n</plan_ended>";
    assert_eq!(converse(failed, "sent").await[0].1, json!({"content": "The plan is not done. too long"}));
}

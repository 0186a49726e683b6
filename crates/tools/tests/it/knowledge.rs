//! The knowledge tools, and what of their data a run starts from.

use houston_domain::id::{FeedItemId, LearningId, MemoryId, NoteId};
use houston_domain::knowledge::{KnowledgeLimits, PromptLimits};
use houston_domain::profile::ProfileList;
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use houston_store::record::Owner;
use serde_json::json;
use uuid::Uuid;

use crate::test_run::{TestRun, goal};

async fn note(run: &TestRun, title: &str, content: &str) -> NoteId {
    named(&run.says("create_note", json!({"title": title, "content": content})).await)
}

async fn save(run: &TestRun, content: &str) -> MemoryId {
    let saved = run.says("manage_memory", json!({"action": "save", "content": content})).await;
    named(saved.trim_end_matches('.'))
}

/// The id that an answer names second: `Created note_…: milk`.
fn named<Id: std::str::FromStr<Err: std::fmt::Debug>>(answer: &str) -> Id {
    answer.split([' ', ':']).nth(1).unwrap().parse().unwrap()
}

fn failed(answer: &ToolResponse) -> (ToolErrorCode, &str) {
    match answer {
        ToolResponse::Failure { error, code } => (*code, error),
        ToolResponse::Success { observation } => panic!("it worked: {observation}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_excerpts_and_the_rest_is_read_by_id() {
    let tools = TestRun::start().await;
    assert_eq!(tools.says("list_notes", json!({"limit": 10})).await, "There are no notes yet.");
    let long = format!("Brot {}", "x".repeat(300));
    let (milk, bread) = (note(&tools, "milk", "buy it").await, note(&tools, "bread", &long).await);
    let listed = tools.says("list_notes", json!({"limit": 10})).await;
    assert!(listed.contains(&format!("{milk}: milk\nbuy it")), "a short note is whole: {listed}");
    assert!(listed.contains("[305 characters: read_note]") && !listed.contains(&long), "{listed}");
    assert_eq!(tools.says("read_note", json!({"note_id": bread})).await, format!("{bread}: bread\n{long}"));

    let first = tools.says("list_notes", json!({"limit": 1})).await;
    assert!(first.contains("bread") && first.contains("`before`") && !first.contains("milk"), "{first}");
    let older = tools.says("list_notes", json!({"limit": 1, "before": bread})).await;
    assert!(older.contains("milk") && !older.contains("`before`"), "{older}");
    for (query, finds) in [("BROT", true), ("bred", true), ("who has the bread", true), ("cheese", false)] {
        let found = tools.says("list_notes", json!({"query": query})).await;
        assert_eq!(found.contains("bread"), finds, "{query}: {found}");
    }

    tools.says("update_note", json!({"note_id": milk, "content": "two litres"})).await;
    assert_eq!(tools.says("read_note", json!({"note_id": milk})).await, format!("{milk}: milk\ntwo litres"));
    tools.says("delete_note", json!({"note_id": milk})).await;
    for gone in ["read_note", "delete_note"] {
        let answer = tools.call(gone, json!({"note_id": milk})).await;
        let (code, text) = failed(&answer);
        assert!(code == ToolErrorCode::NotFound && text.contains("list_notes"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recall_finds_exact_and_similar_words_best_match_first() {
    let tools = TestRun::start().await;
    let sushi = save(&tools, "Ada likes sushi restaurants in Tokyo").await;
    let train = save(&tools, "Takes the night train to Vienna every March").await;
    let recall = async |query: &str| {
        tools.says("manage_memory", json!({"action": "recall", "query": query, "limit": 5})).await
    };
    for (query, best) in [
        ("sushi", sushi),
        ("Tokio restaurant", sushi),
        ("which trains does she take", train),
        ("VIENNA", train),
    ] {
        let found = recall(query).await;
        assert!(found.starts_with(&best.to_string()), "{query}: {found}");
    }
    assert!(recall("quantum").await.starts_with("Nothing like it"));
    let one = json!({"action": "recall", "query": "the sushi train", "limit": 1});
    assert_eq!(tools.says("manage_memory", one).await.matches("memory_").count(), 1);

    let content = format!("Ada hates sushi. {}", "y".repeat(300));
    let correct = json!({"action": "save", "content": content, "memory_id": sushi});
    tools.says("manage_memory", correct).await;
    let found = recall("sushi").await;
    assert!(found.contains("[317 characters: manage_memory with `read`]"), "{found}");
    assert_eq!(tools.says("manage_memory", json!({"action": "read", "memory_id": sushi})).await, content);
    tools.says("manage_memory", json!({"action": "forget", "memory_id": sushi})).await;
    assert!(recall("sushi").await.starts_with("Nothing like it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_cannot_reach_other_users_or_notes_of_other_goals() {
    let tools = TestRun::start().await;
    let (note, memory) = (note(&tools, "mine", "secret").await, save(&tools, "secret").await);
    let create = json!({"title": "mine", "content": "secret"});
    let item: FeedItemId = named(&tools.says("create_feed_item", create).await);
    let learnt = tools.says("manage_learning", json!({"action": "add", "content": "secret"})).await;
    let learning: LearningId = learnt.trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap();

    let other = goal(&tools.store, &tools.ids, tools.tenant).await;
    let other = tools.store.tenant(tools.tenant).agentable("goal", other).await.unwrap();
    let stranger = Owner { user: other.user, agentable: other.id, ..tools.owner() };
    let answers = tools
        .call_as(
            stranger,
            &[
                ("read_note", json!({"note_id": note})),
                ("update_note", json!({"note_id": note, "title": "stolen"})),
                ("delete_note", json!({"note_id": note})),
                ("manage_memory", json!({"action": "read", "memory_id": memory})),
                ("manage_memory", json!({"action": "save", "content": "stolen", "memory_id": memory})),
                ("manage_memory", json!({"action": "forget", "memory_id": memory})),
                ("read_feed_item", json!({"feed_item_id": item})),
                (
                    "manage_learning",
                    json!({"action": "update", "learning_id": learning, "content": "stolen"}),
                ),
                ("manage_learning", json!({"action": "remove", "learning_id": learning})),
            ],
        )
        .await;
    for answer in &answers {
        assert_eq!(failed(answer).0, ToolErrorCode::NotFound);
    }
    let lists = tools
        .call_as(
            stranger,
            &[
                ("list_notes", json!({"limit": 10})),
                ("list_learnings", json!({"limit": 10})),
                ("list_feed_items", json!({"limit": 10})),
                ("manage_memory", json!({"action": "recall", "query": "secret"})),
            ],
        )
        .await;
    for list in &lists {
        assert!(list.is_success() && !list.text().contains("secret"), "{list:?}");
    }
    assert!(tools.says("list_learnings", json!({"limit": 10})).await.contains("secret"));
    assert!(tools.says("list_feed_items", json!({"limit": 10})).await.contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_list_is_reported_and_the_step_continues() {
    let tools = TestRun::start().await;
    let (tenant, agentable) = (tools.tenant.0, tools.goal.0);
    tools.sql(&format!(
        "insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, content)
         select gen_random_uuid(), '{tenant}', 'learning', '{agentable}', 'x' from generate_series(1, {})",
        KnowledgeLimits::default().max_learnings
    ));
    let more = ("manage_learning", json!({"action": "add", "content": "more"}));
    let note = ("create_note", json!({"title": "milk", "content": "buy it"}));
    let answers = tools.call_as(tools.owner(), &[more, note]).await;
    let (code, text) = failed(&answers[0]);
    assert!(code == ToolErrorCode::RateLimited && text.contains("delete one first"), "{text}");
    assert!(answers[1].is_success());
    assert!(tools.says("list_notes", json!({"limit": 1})).await.contains("milk"), "the rest was committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_limits_bound_what_tools_store_and_list() {
    let mut tools = TestRun::start().await;
    let limits = KnowledgeLimits {
        max_learnings: 1,
        max_profile_entries: 1,
        excerpt_chars: 3,
        ..KnowledgeLimits::default()
    };
    tools.store = tools.store.with(|own| own.knowledge_limits = limits);
    let learning = |text: &str| ("manage_learning", json!({"action": "add", "content": text}));
    let answers = tools.call_as(tools.owner(), &[learning("first"), learning("second")]).await;
    assert!(answers[0].is_success());
    assert_eq!(failed(&answers[1]).0, ToolErrorCode::RateLimited);
    let add = |text: &str| json!({"list": "facts", "new": text});
    tools.says("update_profile", add("lives in Graz")).await;
    let answer = tools.call("update_profile", add("has two cats")).await;
    assert!(failed(&answer).1.contains("it may have 1 entries"), "{answer:?}");
    note(&tools, "milk", "buy it").await;
    let listed = tools.says("list_notes", json!({"limit": 1})).await;
    assert!(listed.contains("buy… [6 characters"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_context_is_shortened_and_says_there_is_more() {
    let tools = TestRun::start().await;
    for fact in ["lives in Graz", "has two cats", "is a nurse"] {
        tools.says("update_profile", json!({"list": "facts", "new": fact})).await;
    }
    let text = tools.says("update_profile", json!({"list": "aims", "new": "sail around the world"})).await;
    assert_eq!(text, "aims:\n- sail around the world");
    for memory in ["first", "second", "a long third memory"] {
        save(&tools, memory).await;
    }
    let (tenant, user) = (tools.claimed.tenant.0, tools.claimed.user.0);
    tools.sql(&format!(
        "insert into houston.knowledge_items (id, tenant_id, kind, user_id, content)
         select ('00000000-0000-7000-8000-00000000000' || n)::uuid, '{tenant}', 'custom_instruction', '{user}', 'rule ' || n
           from generate_series(1, 2) n;
         insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, content)
         values (gen_random_uuid(), '{tenant}', 'learning', '{}', 'learnt something')",
        tools.goal.0
    ));
    let limits = PromptLimits {
        profile_entries: 2,
        profile_chars: 8,
        custom_instructions: 2,
        memories: 2,
        memory_chars: 6,
        learning_chars: 6,
        ..PromptLimits::default()
    };
    let store = &tools.store;
    let context = store.runs().run_context(tools.goal, tools.claimed.run, 10, &limits).await.unwrap();
    let user = context.user;
    assert_eq!(user.name, "Ann");
    let lists: Vec<_> = user
        .profile
        .iter()
        .map(|(list, entries)| {
            let texts: Vec<&str> = entries.items.iter().map(|(_, text)| text.as_str()).collect();
            (*list, texts, entries.more)
        })
        .collect();
    let facts = (ProfileList::Facts, vec!["lives in…", "has two …"], true);
    assert_eq!(lists, [facts, (ProfileList::Aims, vec!["sail aro…"], false)]);
    let rules: Vec<&str> = user.custom_instructions.items.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!((rules, user.custom_instructions.more), (vec!["rule 1", "rule 2"], false));
    let memories: Vec<&str> = user.memories.items.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!((memories, user.memories.more), (vec!["a long…", "second"], true), "the newest");
    assert_eq!(context.learnings[0].1, "learnt…");
    assert_eq!(context.history.last().unwrap().text(), "hello");
    let whole = tools.says("read_profile", json!({})).await;
    assert!(whole.contains("- is a nurse") && whole.contains("interests: nothing"), "{whole}");
    let rules = tools.says("read_custom_instructions", json!({})).await;
    assert_eq!(rules, "rule 1\n\nrule 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_profile_writes_lose_nothing() {
    let tools = TestRun::start().await;
    let (store, tenant, user) = (&tools.store, tools.claimed.tenant, tools.claimed.user);
    let patch =
        store.tenant(tenant).change_profile(user, vec![(ProfileList::Interests, vec!["trains".into()])]);
    let tool = tools.says("update_profile", json!({"list": "facts", "new": "lives in Graz"}));
    let (patched, _) = tokio::join!(patch, tool);
    patched.unwrap();
    let (profile, at) = store.tenant(tenant).profile(user).await.unwrap();
    assert_eq!((profile.interests.len(), profile.facts.len()), (1, 1));
    assert!(at.is_some());
    let answer = tools.call("update_profile", json!({"list": "facts", "old": "lives in Linz"})).await;
    assert!(failed(&answer).1.contains("read_profile"));
    let missing = houston_domain::id::UserId(Uuid::nil());
    assert!(store.tenant(tenant).profile(missing).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_entries_of_strangers_texts_are_marked() {
    let tools = TestRun::start().await;
    let marked = Owner { untrusted: true, ..tools.owner() };
    let add = |entry: &str| ("update_profile", json!({"list": "facts", "new": entry}));
    tools.call_as(marked, &[add("wires money")]).await;
    let own = tools.says("update_profile", json!({"list": "facts", "new": "lives in Graz"})).await;
    let expected =
        "facts:\n- lives in Graz\n<untrusted source=\"read_profile\">\n- wires money\n</untrusted>";
    assert_eq!(own, expected);
    let whole = tools.says("read_profile", json!({})).await;
    assert!(whole.starts_with(expected), "{whole}");

    // A client of the API that sends the entry again has not written it.
    let (store, tenant, user) = (&tools.store, tools.claimed.tenant, tools.claimed.user);
    let change = |entries: [&str; 2]| {
        let lists = vec![(ProfileList::Facts, entries.map(str::to_owned).into())];
        store.tenant(tenant).change_profile(user, lists)
    };
    let (profile, _) = change(["wires money", "has two cats"]).await.unwrap();
    assert_eq!(profile.untrusted, ["wires money"]);
    let (profile, _) = change(["wires no money", "has two cats"]).await.unwrap();
    assert!(profile.untrusted.is_empty());
    let whole = tools.says("read_profile", json!({})).await;
    assert!(whole.starts_with("facts:\n- wires no money\n- has two cats\npreferences"), "{whole}");
}

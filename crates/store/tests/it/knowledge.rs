//! The knowledge tools, and what of their data a run starts from.

use houston_domain::id::{FeedItemId, LearningId, MemoryId, NoteId};
use houston_domain::knowledge::{KnowledgeAction, KnowledgeLimits, ListQuery, PromptLimits};
use houston_domain::profile::{ProfileChange, ProfileList};
use houston_domain::step::RunTransition;
use houston_domain::tool_call::{Record, ToolErrorCode, ToolResponse};
use houston_store::claim::ClaimedRun;
use houston_store::record::Owner;
use uuid::Uuid;

use crate::test_store::{TestStore, goal};

/// A run that uses tools.
struct Tools {
    test: TestStore,
    claimed: ClaimedRun,
}

impl Tools {
    async fn start() -> Self {
        let test = TestStore::start().await;
        test.post("hello").await;
        let claimed = test.claim().await.unwrap();
        Self { test, claimed }
    }

    fn owner(&self) -> Owner {
        let ClaimedRun { tenant, user, run, fence, .. } = &self.claimed;
        Owner { tenant: *tenant, user: *user, agentable: fence.agentable, run: *run }
    }

    /// Executes the calls of one step and commits it.
    async fn call_as(&self, owner: Owner, records: &[Record]) -> Vec<ToolResponse> {
        let mut tx = self.test.runs().begin_fenced(&self.claimed.fence).await.unwrap();
        let mut answers = Vec::new();
        for record in records {
            answers.push(tx.record(owner, self.test.ids.next(), record).await.unwrap());
        }
        let step = self.test.step(&self.claimed, RunTransition::Continue { read: false, event: None });
        tx.commit(&step).await.unwrap();
        answers
    }

    async fn call(&self, knowledge: KnowledgeAction) -> ToolResponse {
        self.call_as(self.owner(), &[Record::Knowledge(knowledge)]).await.remove(0)
    }

    async fn says(&self, knowledge: KnowledgeAction) -> String {
        let answer = self.call(knowledge).await;
        assert!(answer.is_success(), "{answer:?}");
        answer.text().to_owned()
    }

    async fn note(&self, title: &str, content: &str) -> NoteId {
        let note = Record::CreateNote { title: title.into(), content: content.into() };
        let response = self.call_as(self.owner(), &[note]).await.remove(0);
        named(response.text())
    }

    async fn save(&self, content: &str) -> MemoryId {
        let save = KnowledgeAction::SaveMemory { content: content.into(), instead_of: None };
        named(self.says(save).await.trim_end_matches('.'))
    }
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

fn all<Id>(limit: u32) -> ListQuery<Id> {
    ListQuery { query: None, limit, before: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_shows_excerpts_and_the_rest_is_read_by_id() {
    let tools = Tools::start().await;
    assert_eq!(tools.says(KnowledgeAction::ListNotes(all(10))).await, "There are no notes yet.");
    let long = format!("Brot {}", "x".repeat(300));
    let (milk, bread) = (tools.note("milk", "buy it").await, tools.note("bread", &long).await);
    let listed = tools.says(KnowledgeAction::ListNotes(all(10))).await;
    assert!(listed.contains(&format!("{milk}: milk\nbuy it")), "a short note is whole: {listed}");
    assert!(listed.contains("[305 characters: read_note]") && !listed.contains(&long), "{listed}");
    assert_eq!(tools.says(KnowledgeAction::ReadNote(bread)).await, format!("{bread}: bread\n{long}"));

    let first = tools.says(KnowledgeAction::ListNotes(all(1))).await;
    assert!(first.contains("bread") && first.contains("`before`") && !first.contains("milk"), "{first}");
    let older = ListQuery { before: Some(bread), ..all(1) };
    let older = tools.says(KnowledgeAction::ListNotes(older)).await;
    assert!(older.contains("milk") && !older.contains("`before`"), "{older}");
    for (query, finds) in [("BROT", true), ("bred", true), ("who has the bread", true), ("cheese", false)] {
        let found = ListQuery { query: Some(query.into()), ..all(10) };
        let found = tools.says(KnowledgeAction::ListNotes(found)).await;
        assert_eq!(found.contains("bread"), finds, "{query}: {found}");
    }

    let content = Some("two litres".to_owned());
    tools.says(KnowledgeAction::UpdateNote { id: milk, title: None, content }).await;
    assert_eq!(tools.says(KnowledgeAction::ReadNote(milk)).await, format!("{milk}: milk\ntwo litres"));
    tools.says(KnowledgeAction::DeleteNote(milk)).await;
    for gone in [KnowledgeAction::ReadNote(milk), KnowledgeAction::DeleteNote(milk)] {
        let answer = tools.call(gone).await;
        let (code, text) = failed(&answer);
        assert!(code == ToolErrorCode::NotFound && text.contains("list_notes"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recall_finds_exact_and_similar_words_best_match_first() {
    let tools = Tools::start().await;
    let sushi = tools.save("Ada likes sushi restaurants in Tokyo").await;
    let train = tools.save("Takes the night train to Vienna every March").await;
    let recall = |query: &str| KnowledgeAction::RecallMemories { query: query.into(), limit: 5 };
    for (query, best) in [
        ("sushi", sushi),
        ("Tokio restaurant", sushi),
        ("which trains does she take", train),
        ("VIENNA", train),
    ] {
        let found = tools.says(recall(query)).await;
        assert!(found.starts_with(&best.to_string()), "{query}: {found}");
    }
    assert!(tools.says(recall("quantum")).await.starts_with("Nothing like it"));
    let one = KnowledgeAction::RecallMemories { query: "the sushi train".into(), limit: 1 };
    assert_eq!(tools.says(one).await.matches("memory_").count(), 1);

    let content = format!("Ada hates sushi. {}", "y".repeat(300));
    tools.says(KnowledgeAction::SaveMemory { content: content.clone(), instead_of: Some(sushi) }).await;
    let found = tools.says(recall("sushi")).await;
    assert!(found.contains("[317 characters: manage_memory with `read`]"), "{found}");
    assert_eq!(tools.says(KnowledgeAction::ReadMemory(sushi)).await, content);
    tools.says(KnowledgeAction::ForgetMemory(sushi)).await;
    assert!(tools.says(recall("sushi")).await.starts_with("Nothing like it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_cannot_reach_other_users_or_notes_of_other_goals() {
    let tools = Tools::start().await;
    let (note, memory) = (tools.note("mine", "secret").await, tools.save("secret").await);
    let create = KnowledgeAction::CreateFeedItem { title: "mine".into(), content: "secret".into() };
    let item: FeedItemId = named(&tools.says(create).await);
    let add = Record::AddLearning { content: "secret".into() };
    let learnt = tools.call_as(tools.owner(), &[add]).await.remove(0);
    let learning: LearningId =
        learnt.text().trim_end_matches('.').rsplit(' ').next().unwrap().parse().unwrap();

    let other = goal(&tools.test.store, &tools.test.ids, tools.test.tenant).await;
    let other = tools.test.store.tenant(tools.test.tenant).agentable("goal", other).await.unwrap();
    let stranger = Owner { user: other.user, agentable: other.id, ..tools.owner() };
    let knowledge = |knowledge: KnowledgeAction| Record::Knowledge(knowledge);
    let (title, content) = (Some("stolen".to_owned()), None);
    let answers = tools
        .call_as(
            stranger,
            &[
                knowledge(KnowledgeAction::ReadNote(note)),
                knowledge(KnowledgeAction::UpdateNote { id: note, title, content }),
                knowledge(KnowledgeAction::DeleteNote(note)),
                knowledge(KnowledgeAction::ReadMemory(memory)),
                knowledge(KnowledgeAction::SaveMemory { content: "stolen".into(), instead_of: Some(memory) }),
                knowledge(KnowledgeAction::ForgetMemory(memory)),
                knowledge(KnowledgeAction::ReadFeedItem(item)),
                Record::UpdateLearning { id: learning, content: "stolen".into() },
                Record::RemoveLearning { id: learning },
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
                knowledge(KnowledgeAction::ListNotes(all(10))),
                knowledge(KnowledgeAction::ListLearnings(all(10))),
                knowledge(KnowledgeAction::ListFeedItems(all(10))),
                knowledge(KnowledgeAction::RecallMemories { query: "secret".into(), limit: 5 }),
            ],
        )
        .await;
    for list in &lists {
        assert!(list.is_success() && !list.text().contains("secret"), "{list:?}");
    }
    assert!(tools.says(KnowledgeAction::ListLearnings(all(10))).await.contains("secret"));
    assert!(tools.says(KnowledgeAction::ListFeedItems(all(10))).await.contains("secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_list_is_reported_and_the_step_continues() {
    let tools = Tools::start().await;
    let (tenant, agentable) = (tools.test.tenant.0, tools.test.goal.0);
    tools.test.sql(&format!(
        "insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, content)
         select gen_random_uuid(), '{tenant}', 'learning', '{agentable}', 'x' from generate_series(1, {})",
        KnowledgeLimits::default().max_learnings
    ));
    let note = Record::CreateNote { title: "milk".into(), content: "buy it".into() };
    let answers = tools.call_as(tools.owner(), &[Record::AddLearning { content: "more".into() }, note]).await;
    let (code, text) = failed(&answers[0]);
    assert!(code == ToolErrorCode::RateLimited && text.contains("delete one first"), "{text}");
    assert!(answers[1].is_success());
    assert!(tools.says(KnowledgeAction::ListNotes(all(1))).await.contains("milk"), "the rest was committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn configured_limits_bound_what_tools_store_and_list() {
    let mut tools = Tools::start().await;
    let limits = KnowledgeLimits {
        max_learnings: 1,
        max_profile_entries: 1,
        excerpt_chars: 3,
        ..KnowledgeLimits::default()
    };
    tools.test.store = tools.test.store.with_knowledge_limits(limits);
    let learning = |text: &str| Record::AddLearning { content: text.into() };
    let answers = tools.call_as(tools.owner(), &[learning("first"), learning("second")]).await;
    assert!(answers[0].is_success());
    assert_eq!(failed(&answers[1]).0, ToolErrorCode::RateLimited);
    let add = |text: &str| KnowledgeAction::UpdateProfile {
        list: ProfileList::Facts,
        change: ProfileChange::Add(text.into()),
    };
    tools.says(add("lives in Graz")).await;
    let answer = tools.call(add("has two cats")).await;
    assert!(failed(&answer).1.contains("it may have 1 entries"), "{answer:?}");
    tools.note("milk", "buy it").await;
    let listed = tools.says(KnowledgeAction::ListNotes(all(1))).await;
    assert!(listed.contains("buy… [6 characters"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_context_is_shortened_and_says_there_is_more() {
    let tools = Tools::start().await;
    let add =
        |list, text: &str| KnowledgeAction::UpdateProfile { list, change: ProfileChange::Add(text.into()) };
    for fact in ["lives in Graz", "has two cats", "is a nurse"] {
        tools.says(add(ProfileList::Facts, fact)).await;
    }
    let text = tools.says(add(ProfileList::Aims, "sail around the world")).await;
    assert_eq!(text, "aims:\n- sail around the world");
    for memory in ["first", "second", "a long third memory"] {
        tools.save(memory).await;
    }
    let (tenant, user) = (tools.claimed.tenant.0, tools.claimed.user.0);
    tools.test.sql(&format!(
        "insert into houston.knowledge_items (id, tenant_id, kind, user_id, content)
         select ('00000000-0000-7000-8000-00000000000' || n)::uuid, '{tenant}', 'custom_instruction', '{user}', 'rule ' || n
           from generate_series(1, 2) n;
         insert into houston.knowledge_items (id, tenant_id, kind, agentable_id, content)
         values (gen_random_uuid(), '{tenant}', 'learning', '{}', 'learnt something')",
        tools.test.goal.0
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
    let store = &tools.test.store;
    let context = store.runs().run_context(tools.test.goal, tools.claimed.run, 10, &limits).await.unwrap();
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
    let whole = tools.says(KnowledgeAction::ReadProfile).await;
    assert!(whole.contains("- is a nurse") && whole.contains("interests: nothing"), "{whole}");
    let rules = tools.says(KnowledgeAction::ReadCustomInstructions).await;
    assert_eq!(rules, "rule 1\n\nrule 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_profile_writes_lose_nothing() {
    let tools = Tools::start().await;
    let (store, tenant, user) = (&tools.test.store, tools.claimed.tenant, tools.claimed.user);
    let patch =
        store.tenant(tenant).change_profile(user, vec![(ProfileList::Interests, vec!["trains".into()])]);
    let tool = tools.says(KnowledgeAction::UpdateProfile {
        list: ProfileList::Facts,
        change: ProfileChange::Add("lives in Graz".into()),
    });
    let (patched, _) = tokio::join!(patch, tool);
    patched.unwrap();
    let (profile, at) = store.tenant(tenant).profile(user).await.unwrap();
    assert_eq!((profile.interests.len(), profile.facts.len()), (1, 1));
    assert!(at.is_some());
    let unknown = ProfileChange::Remove("lives in Linz".into());
    let answer =
        tools.call(KnowledgeAction::UpdateProfile { list: ProfileList::Facts, change: unknown }).await;
    assert!(failed(&answer).1.contains("read_profile"));
    let missing = houston_domain::id::UserId(Uuid::nil());
    assert!(store.tenant(tenant).profile(missing).await.is_err());
}

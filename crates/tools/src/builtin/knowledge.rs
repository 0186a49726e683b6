//! Notes, feed items and learnings. Lists of them are read page by page, shortened; other tools read a complete item.

use std::fmt::Display;

use houston_domain::field::Entity;
use houston_domain::id::{FeedItemId, LearningId, NoteId};
use houston_domain::knowledge::{
    KnowledgeKind, ListQuery, MAX_DOCUMENT_BYTES, MAX_QUERY_CHARS, MAX_SENTENCE_BYTES, MAX_TITLE_CHARS,
};
use houston_store::excerpt::Excerpt;
use houston_store::knowledge_item::KnowledgeChange;
use uuid::Uuid;

use super::prelude::*;

built_in! {
    CreateNote: "create_note", Idempotent, capability Notes;
    ListNotes: "list_notes", Read, capability Notes;
    ManageLearning: "manage_learning", Idempotent, capability Learnings;
    ReadNote: "read_note", Read, capability Notes;
    UpdateNote: "update_note", Idempotent, capability Notes, changes Note;
    DeleteNote: "delete_note", Idempotent, capability Notes;
    ListLearnings: "list_learnings", Read, capability Learnings;
    CreateFeedItem: "create_feed_item", Idempotent, capability Feed;
    ListFeedItems: "list_feed_items", Read, capability Feed;
    ReadFeedItem: "read_feed_item", Read, capability Feed;
}

/// Create a note that stays with this goal: results, decisions, lists.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateNote {
    /// One line that says what the note is about.
    title: String,
    /// The note, in Markdown.
    content: String,
}

impl Access for CreateNote {
    fn check(&self, _: &CallContext) -> Result<()> {
        line("title", self.title.as_str(), MAX_TITLE_CHARS)?;
        text("content", self.content.as_str(), MAX_DOCUMENT_BYTES)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        tx.create_item(KnowledgeKind::Note, Some(&self.title), &self.content).await?;
        Ok(format!("Created {}: {}", NoteId(tx.ids.row), self.title))
    }
}

/// Lists notes, newest first, shortened. A page of titles and beginnings has about 20 KB.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = format!(
    "Find notes of this goal, newest first: id, title and the beginning of each. {} reads one in full.",
    ReadNote::NAME
))]
pub(super) struct ListNotes(Listing<NoteId, 50>);

impl Access for ListNotes {
    fn check(&self, _: &CallContext) -> Result<()> {
        self.0.query().map(drop)
    }

    async fn apply(&self, _: &CallContext, tx: RecordTx<'_>) -> Result<String> {
        self.0.page(tx, KnowledgeKind::Note, Some(ReadNote::NAME)).await
    }
}

/// Read one note of this goal in full.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadNote {
    #[schemars(with = "String", description = note_ids())]
    note_id: NoteId,
}

fn note_ids() -> String {
    format!("An id from <notes> or {}.", ListNotes::NAME)
}

impl Access for ReadNote {
    async fn apply(&self, _: &CallContext, tx: RecordTx<'_>) -> Result<String> {
        document(tx, KnowledgeKind::Note, self.note_id, ListNotes::NAME).await
    }
}

/// Change a note of this goal: its title, its content, or both. What you give takes the place of what was there; read
/// it first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateNote {
    #[schemars(with = "String", description = note_ids())]
    note_id: NoteId,
    title: Option<String>,
    content: Option<String>,
}

impl Access for UpdateNote {
    fn check(&self, _: &CallContext) -> Result<()> {
        if self.title.is_none() && self.content.is_none() {
            return Err(invalid("give `title`, `content` or both"));
        }
        line("title", self.title.as_deref(), MAX_TITLE_CHARS)?;
        text("content", self.content.as_deref(), MAX_DOCUMENT_BYTES)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let (id, title, content) = (self.note_id, self.title.as_deref(), self.content.as_deref());
        let change = KnowledgeChange { title, content, ..KnowledgeChange::default() };
        let changed = tx.knowledge().change_item(KnowledgeKind::Note, id, change).await?;
        let note = changed.ok_or_else(|| not_found(id, ListNotes::NAME))?;
        Ok(format!("Changed {id}: {}", note.title.unwrap_or_default()))
    }
}

/// Delete a note of this goal for good. Do it only when the user wants it gone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteNote {
    #[schemars(with = "String", description = note_ids())]
    note_id: NoteId,
}

impl Access for DeleteNote {
    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let id = self.note_id;
        let was_there = tx.knowledge().delete_item(KnowledgeKind::Note, id).await?;
        ensure!(was_there, not_found(id, ListNotes::NAME));
        Ok(format!("Deleted {id}."))
    }
}

/// Put something into the user's feed: news, results, a proposal. They find it there when they like; it sends no
/// message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateFeedItem {
    /// One line that says what it is about.
    title: String,
    /// The item, in Markdown.
    content: String,
}

impl Access for CreateFeedItem {
    fn check(&self, _: &CallContext) -> Result<()> {
        line("title", self.title.as_str(), MAX_TITLE_CHARS)?;
        text("content", self.content.as_str(), MAX_DOCUMENT_BYTES)
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        tx.create_item(KnowledgeKind::FeedItem, Some(&self.title), &self.content).await?;
        Ok(format!("Created {}: {}", FeedItemId(tx.ids.row), self.title))
    }
}

/// Lists feed items, newest first, shortened. A page of titles and beginnings has about 20 KB.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(description = format!(
    "Find items of the user's feed, newest first: id, title and the beginning of each. {} reads one in full.",
    ReadFeedItem::NAME
))]
pub(super) struct ListFeedItems(Listing<FeedItemId, 50>);

impl Access for ListFeedItems {
    fn check(&self, _: &CallContext) -> Result<()> {
        self.0.query().map(drop)
    }

    async fn apply(&self, _: &CallContext, tx: RecordTx<'_>) -> Result<String> {
        self.0.page(tx, KnowledgeKind::FeedItem, Some(ReadFeedItem::NAME)).await
    }
}

/// Read one item of the user's feed in full.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFeedItem {
    #[schemars(with = "String", description = format!("An id from {}.", ListFeedItems::NAME))]
    feed_item_id: FeedItemId,
}

impl Access for ReadFeedItem {
    async fn apply(&self, _: &CallContext, tx: RecordTx<'_>) -> Result<String> {
        document(tx, KnowledgeKind::FeedItem, self.feed_item_id, ListFeedItems::NAME).await
    }
}

/// Remember something lasting about the user or the goal (a preference, a fact, a constraint), correct it, or forget
/// it. What you remember is listed in <learnings>.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ManageLearning {
    action: LearningAction,
    /// One sentence; for add and update.
    content: Option<String>,
    /// An id from <learnings>; for update and remove.
    #[schemars(with = "Option<String>")]
    learning_id: Option<LearningId>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LearningAction {
    Add,
    Update,
    Remove,
}

impl ManageLearning {
    fn content(&self) -> Result<&str> {
        let content = self.content.as_deref().ok_or_else(|| invalid("this action needs `content`"))?;
        text("content", content, MAX_SENTENCE_BYTES).map(|()| content)
    }

    fn id(&self) -> Result<LearningId> {
        self.learning_id.ok_or_else(|| invalid("this action needs `learning_id`, an id from <learnings>"))
    }
}

impl Access for ManageLearning {
    fn check(&self, _: &CallContext) -> Result<()> {
        match self.action {
            LearningAction::Add => self.content().map(drop),
            LearningAction::Update => self.id().and_then(|_| self.content().map(drop)),
            LearningAction::Remove => self.id().map(drop),
        }
    }

    async fn apply(&self, _: &CallContext, mut tx: RecordTx<'_>) -> Result<String> {
        let kind = KnowledgeKind::Learning;
        let (id, done, text) = match self.action {
            LearningAction::Add => {
                tx.create_item(kind, None, self.content()?).await?;
                return Ok(format!("Remembered as {}.", LearningId(tx.ids.row)));
            }
            LearningAction::Update => {
                let (id, content) = (self.id()?, Some(self.content()?));
                let change = KnowledgeChange { content, ..KnowledgeChange::default() };
                (id, tx.knowledge().change_item(kind, id, change).await?.is_some(), "Corrected")
            }
            LearningAction::Remove => {
                (self.id()?, tx.knowledge().delete_item(kind, self.id()?).await?, "Forgot")
            }
        };
        if done {
            return Ok(format!("{text} {id}."));
        }
        let lists = ListLearnings::NAME;
        let text = format!("there is no {id}: use an id from <learnings> or {lists}, or add a new one");
        Err(failed(ToolErrorCode::NotFound, text))
    }
}

// They are listed in full: a page has at most 40 KB.
/// Find what you have learnt for this goal, newest first, in full. <learnings> has only some.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct ListLearnings(Listing<LearningId, 20>);

impl Access for ListLearnings {
    fn check(&self, _: &CallContext) -> Result<()> {
        self.0.query().map(drop)
    }

    async fn apply(&self, _: &CallContext, tx: RecordTx<'_>) -> Result<String> {
        self.0.page(tx, KnowledgeKind::Learning, None).await
    }
}

/// Items of a page if the call does not set `limit`.
const DEFAULT_ITEMS: u32 = 10;

/// Arguments of a tool that lists, with pages of at most `MAX` items.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(bound = "", rename = "Listing")]
struct Listing<Id, const MAX: u32> {
    /// Only what has one of these words, or one like it.
    query: Option<String>,
    #[schemars(range(min = 1, max = MAX), description = format!("How many at max; {DEFAULT_ITEMS} when left out."))]
    limit: Option<u32>,
    /// An id: only what is older than this one.
    #[schemars(with = "Option<String>")]
    before: Option<Id>,
}

impl<Id: Copy + Display + From<Uuid> + Into<Uuid>, const MAX: u32> Listing<Id, MAX> {
    fn query(&self) -> Result<ListQuery<Id>> {
        line("query", self.query.as_deref(), MAX_QUERY_CHARS)?;
        let limit = limit(self.limit, DEFAULT_ITEMS, MAX)?;
        Ok(ListQuery { query: self.query.clone(), limit, before: self.before })
    }

    /// A page of the list: shortened if the tool `reads` returns an item whole.
    async fn page(&self, mut tx: RecordTx<'_>, kind: KnowledgeKind, reads: Option<&str>) -> Result<String> {
        let query = self.query()?;
        let chars = reads.map_or(i32::MAX, |_| tx.settings.knowledge_limits.excerpt_chars);
        let found = tx.knowledge().excerpts(kind, &query, chars).await?.into_iter();
        let lines = found.map(|found| excerpt::<Id>(found, reads.unwrap_or_default(), chars)).collect();
        Ok(page(lines, &query, kind))
    }
}

/// A whole document; `lists` shows the ids there are.
async fn document<Id: Copy + Display + Into<Uuid>>(
    mut tx: RecordTx<'_>,
    kind: KnowledgeKind,
    id: Id,
    lists: &str,
) -> Result<String> {
    let item = tx.knowledge().item(kind, id).await?.ok_or_else(|| not_found(id, lists))?;
    let text = format!("{}\n{}", item.title.unwrap_or_default(), item.content);
    let text = untrusted::stored(item.untrusted, &id.to_string(), text);
    Ok(format!("{id}: {text}"))
}

/// One item of a list. A shortened text gives its length, and the tool `reads` that returns it whole.
pub(super) fn excerpt<Id: From<Uuid> + Display>(excerpt: Excerpt, reads: &str, most_chars: i32) -> String {
    let Excerpt { id, title, text, chars, untrusted } = excerpt;
    let id = Id::from(id);
    let text = title.map(|title| format!("{title}\n{text}")).unwrap_or(text);
    let text = untrusted::stored(untrusted, &id.to_string(), text);
    let rest = if chars > most_chars { format!("… [{chars} characters: {reads}]") } else { String::new() };
    format!("{id}: {text}{rest}")
}

/// A page of a list; `rows` has one row more than asked for, if there are more.
fn page<Id>(mut rows: Vec<String>, listing: &ListQuery<Id>, kind: KnowledgeKind) -> String {
    let what = kind.rules().plural;
    if rows.is_empty() {
        return match (&listing.query, &listing.before) {
            (Some(_), _) => format!("There are no {what} like that."),
            (None, Some(_)) => format!("There are no older {what}."),
            (None, None) => format!("There are no {what} yet."),
        };
    }
    if keep(&mut rows, listing.limit) {
        rows.push(format!("There are older {what}: ask again with `before` set to the last id here."));
    }
    rows.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_without_a_limit_has_ten_items() {
        let listing = |limit| Listing::<NoteId, 20> { query: None, limit, before: None };
        assert_eq!(listing(None).query().unwrap().limit, 10);
        assert_eq!(listing(Some(20)).query().unwrap().limit, 20);
        assert!(listing(Some(21)).query().is_err());
    }
}

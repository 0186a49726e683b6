//! The knowledge tools' work on notes, learnings, memories, profiles and feed items, and their responses for the
//! model. Lists show the beginning of each text, newest first, and name the tool that reads the rest.

use houston_domain::id::{FeedItemId, LearningId, MemoryId, NoteId};
use houston_domain::knowledge::{KnowledgeAction, KnowledgeKind, KnowledgeLimits, ListQuery};
use houston_domain::profile::{ProfileChange, ProfileList};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Owner, full};
use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::knowledge_item::{self, KnowledgeChange, NewKnowledgeItem};
use crate::profile;

/// Executes the call in the step's transaction. `id` is for a row that is created.
pub(super) async fn work(
    connection: &mut PgConnection,
    owner: Owner,
    id: Uuid,
    knowledge: &KnowledgeAction,
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    let done = match knowledge {
        KnowledgeAction::ListNotes(_)
        | KnowledgeAction::ReadNote(_)
        | KnowledgeAction::UpdateNote { .. }
        | KnowledgeAction::DeleteNote(_) => notes(connection, owner, knowledge, limits).await,
        KnowledgeAction::ListLearnings(listing) => {
            let within = (KnowledgeKind::Learning, owner.agentable.0);
            let found = knowledge_item::excerpts(connection, owner.tenant, within, listing, i32::MAX).await?;
            let found =
                found.into_iter().map(|found| format!("{}: {}", LearningId(found.id), found.text)).collect();
            Ok(page(found, listing, "learnings"))
        }
        KnowledgeAction::ReadProfile => {
            let (profile, _) = profile::find(connection, owner.tenant, owner.user).await?;
            let lists = ProfileList::ALL.map(|list| (list, profile.list(list)));
            Ok(ToolResponse::success(profile_text(&lists)))
        }
        KnowledgeAction::UpdateProfile { list, change } => {
            update_profile(connection, owner, *list, change, limits).await
        }
        KnowledgeAction::ReadCustomInstructions => {
            let of = (KnowledgeKind::CustomInstruction, owner.user.0);
            let all = knowledge_item::texts(connection, owner.tenant, of, limits).await?;
            let none = "There are no custom instructions.";
            Ok(ToolResponse::success(if all.is_empty() { none.to_owned() } else { all.join("\n\n") }))
        }
        KnowledgeAction::SaveMemory { .. }
        | KnowledgeAction::RecallMemories { .. }
        | KnowledgeAction::ReadMemory(_)
        | KnowledgeAction::ForgetMemory(_) => memories(connection, owner, id, knowledge, limits).await,
        KnowledgeAction::CreateFeedItem { .. }
        | KnowledgeAction::ListFeedItems(_)
        | KnowledgeAction::ReadFeedItem(_) => feed(connection, owner, id, knowledge, limits).await,
    };
    match done {
        // Nothing was written: the model may delete a row and try again.
        Err(error @ Error::Full { .. }) => Ok(full(&error)),
        done => done,
    }
}

async fn notes(
    connection: &mut PgConnection,
    owner: Owner,
    knowledge: &KnowledgeAction,
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    let within = Some(owner.agentable.0);
    let missing = |id| not_found(id, "list_notes");
    let note = |id: &NoteId| (KnowledgeKind::Note, id.0);
    Ok(match knowledge {
        KnowledgeAction::ReadNote(id) => {
            match knowledge_item::find(connection, owner.tenant, within, note(id)).await? {
                Some(note) => {
                    ToolResponse::success(format!("{id}: {}\n{}", title(&note.title), note.content))
                }
                None => missing(id),
            }
        }
        KnowledgeAction::UpdateNote { id, title, content } => {
            let (title, content) = (title.as_deref(), content.as_deref());
            let change = KnowledgeChange { title, content, read: None };
            match knowledge_item::change(connection, owner.tenant, within, note(id), change).await? {
                Some(note) => {
                    ToolResponse::success(format!("Changed {id}: {}", note.title.unwrap_or_default()))
                }
                None => missing(id),
            }
        }
        KnowledgeAction::DeleteNote(id) => {
            match knowledge_item::delete(connection, owner.tenant, within, note(id)).await? {
                true => ToolResponse::success(format!("Deleted {id}.")),
                false => missing(id),
            }
        }
        KnowledgeAction::ListNotes(listing) => {
            let found = knowledge_item::excerpts(
                connection,
                owner.tenant,
                (KnowledgeKind::Note, owner.agentable.0),
                listing,
                limits.excerpt_chars,
            )
            .await?;
            page(
                found
                    .into_iter()
                    .map(|found| list_line(NoteId(found.id), found, "read_note", limits))
                    .collect(),
                listing,
                "notes",
            )
        }
        _ => unknown(),
    })
}

async fn memories(
    connection: &mut PgConnection,
    owner: Owner,
    new: Uuid,
    knowledge: &KnowledgeAction,
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    let (within, of) = (Some(owner.user.0), (KnowledgeKind::Memory, owner.user.0));
    let memory = |id: &MemoryId| (KnowledgeKind::Memory, id.0);
    let missing = |id| not_found(id, "manage_memory with `recall`");
    Ok(match knowledge {
        KnowledgeAction::SaveMemory { content, instead_of: Some(id) } => {
            let change = KnowledgeChange { content: Some(content), ..KnowledgeChange::default() };
            match knowledge_item::change(connection, owner.tenant, within, memory(id), change).await? {
                Some(_) => ToolResponse::success(format!("Corrected {id}.")),
                None => missing(id),
            }
        }
        KnowledgeAction::SaveMemory { content, instead_of: None } => {
            let id = MemoryId(new);
            let author = Some((owner.agentable, owner.run));
            let (kind, owner_id) = of;
            let new = NewKnowledgeItem {
                id: new,
                kind,
                owner: owner_id,
                author,
                title: None,
                content,
                created_at: None,
            };
            knowledge_item::insert(connection, owner.tenant, &new, limits).await?;
            ToolResponse::success(format!("Saved {id}."))
        }
        KnowledgeAction::RecallMemories { query, limit } => {
            let found = knowledge_item::best_matches(
                connection,
                owner.tenant,
                of,
                query,
                *limit,
                limits.excerpt_chars,
            )
            .await?;
            let found: Vec<_> = found
                .into_iter()
                .map(|found| list_line(MemoryId(found.id), found, "manage_memory with `read`", limits))
                .collect();
            let none = "Nothing like it is in memory: try other words.".to_owned();
            ToolResponse::success(if found.is_empty() { none } else { found.join("\n\n") })
        }
        KnowledgeAction::ReadMemory(id) => {
            match knowledge_item::find(connection, owner.tenant, within, memory(id)).await? {
                Some(memory) => ToolResponse::success(memory.content),
                None => missing(id),
            }
        }
        KnowledgeAction::ForgetMemory(id) => {
            match knowledge_item::delete(connection, owner.tenant, within, memory(id)).await? {
                true => ToolResponse::success(format!("Forgot {id}.")),
                false => missing(id),
            }
        }
        _ => unknown(),
    })
}

async fn feed(
    connection: &mut PgConnection,
    owner: Owner,
    new: Uuid,
    knowledge: &KnowledgeAction,
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    Ok(match knowledge {
        KnowledgeAction::CreateFeedItem { title, content } => {
            let author = Some((owner.agentable, owner.run));
            let (kind, owner_id, title) = (KnowledgeKind::FeedItem, owner.user.0, title.as_str());
            let item = NewKnowledgeItem {
                id: new,
                kind,
                owner: owner_id,
                author,
                title: Some(title),
                content,
                created_at: None,
            };
            knowledge_item::insert(connection, owner.tenant, &item, limits).await?;
            ToolResponse::success(format!("Created {}: {title}", FeedItemId(new)))
        }
        KnowledgeAction::ListFeedItems(listing) => {
            let found = knowledge_item::excerpts(
                connection,
                owner.tenant,
                (KnowledgeKind::FeedItem, owner.user.0),
                listing,
                limits.excerpt_chars,
            )
            .await?;
            page(
                found
                    .into_iter()
                    .map(|found| list_line(FeedItemId(found.id), found, "read_feed_item", limits))
                    .collect(),
                listing,
                "feed items",
            )
        }
        KnowledgeAction::ReadFeedItem(id) => {
            let item = (KnowledgeKind::FeedItem, id.0);
            match knowledge_item::find(connection, owner.tenant, Some(owner.user.0), item).await? {
                Some(item) => {
                    ToolResponse::success(format!("{id}: {}\n{}", title(&item.title), item.content))
                }
                None => not_found(id, "list_feed_items"),
            }
        }
        _ => unknown(),
    })
}

async fn update_profile(
    connection: &mut PgConnection,
    owner: Owner,
    list: ProfileList,
    change: &ProfileChange,
    limits: &KnowledgeLimits,
) -> Result<ToolResponse> {
    let mut profile = profile::lock(connection, owner.tenant, owner.user).await?;
    if let Err(error) = profile.change(list, change, limits.max_profile_entries) {
        return Ok(ToolResponse::failure(ToolErrorCode::NotFound, error.to_string()));
    }
    profile::write(connection, owner.tenant, owner.user, &profile).await?;
    Ok(ToolResponse::success(profile_text(&[(list, profile.list(list))])))
}

fn profile_text(lists: &[(ProfileList, &Vec<String>)]) -> String {
    let lines = lists.iter().map(|(list, entries)| {
        let entries: String = entries.iter().map(|entry| format!("\n- {entry}")).collect();
        let entries = if entries.is_empty() { " nothing".to_owned() } else { entries };
        format!("{}:{entries}", list.as_str())
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn title(title: &Option<String>) -> &str {
    title.as_deref().unwrap_or_default()
}

/// One row of a list; a shortened text gives its length and the tool that reads it whole.
fn list_line(id: impl std::fmt::Display, excerpt: Excerpt, reads: &str, limits: &KnowledgeLimits) -> String {
    let Excerpt { title, text, chars, .. } = excerpt;
    let title = title.map(|title| format!(" {title}\n")).unwrap_or_else(|| " ".to_owned());
    let rest = if chars > limits.excerpt_chars {
        format!("… [{chars} characters: {reads}]")
    } else {
        String::new()
    };
    format!("{id}:{title}{text}{rest}")
}

/// A page of a list; `rows` has one row more than asked for, if there are more.
fn page<Id>(mut rows: Vec<String>, listing: &ListQuery<Id>, what: &str) -> ToolResponse {
    if rows.is_empty() {
        return ToolResponse::success(match (&listing.query, &listing.before) {
            (Some(_), _) => format!("There are no {what} like that."),
            (None, Some(_)) => format!("There are no older {what}."),
            (None, None) => format!("There are no {what} yet."),
        });
    }
    let most = usize::try_from(listing.limit).unwrap_or(usize::MAX);
    if rows.len() > most {
        rows.truncate(most);
        rows.push(format!("There are older {what}: ask again with `before` set to the last id here."));
    }
    ToolResponse::success(rows.join("\n\n"))
}

fn not_found(id: impl std::fmt::Display, lists: &str) -> ToolResponse {
    ToolResponse::failure(
        ToolErrorCode::NotFound,
        format!("there is no {id}: {lists} shows the ids there are"),
    )
}

/// For calls that [`work`] passes to another function.
fn unknown() -> ToolResponse {
    ToolResponse::failure(ToolErrorCode::Unknown, "this cannot be done here")
}

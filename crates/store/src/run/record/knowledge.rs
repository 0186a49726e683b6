//! The knowledge tools' work on notes, learnings, memories, profiles and feed items, and their responses for the
//! model. Lists show the beginning of each text, newest first, and name the tool that reads the rest.

use houston_domain::id::MemoryId;
use houston_domain::knowledge::{KnowledgeAction, KnowledgeLimits, ListQuery, ProfileChange, ProfileList};
use houston_domain::tool_call::{ToolErrorCode, ToolResponse};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Owner, full};
use crate::error::{Error, Result};
use crate::excerpt::Excerpt;
use crate::{custom_instruction, feed_item, learning, memory, note, profile};

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
            let found = learning::listed(connection, owner.tenant, owner.agentable, listing).await?;
            let found = found.into_iter().map(|(id, text)| format!("{id}: {text}")).collect();
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
            let all = custom_instruction::all(connection, owner.tenant, owner.user, limits).await?;
            let all: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
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
    let within = Some(owner.agentable);
    let missing = |id| not_found(id, "list_notes");
    Ok(match knowledge {
        KnowledgeAction::ReadNote(id) => match note::find(connection, owner.tenant, within, *id).await? {
            Some(note) => ToolResponse::success(format!("{id}: {}\n{}", note.title, note.content)),
            None => missing(id),
        },
        KnowledgeAction::UpdateNote { id, title, content } => {
            let (title, content) = (title.as_deref(), content.as_deref());
            match note::change(connection, owner.tenant, within, *id, title, content).await? {
                Some(note) => ToolResponse::success(format!("Changed {id}: {}", note.title)),
                None => missing(id),
            }
        }
        KnowledgeAction::DeleteNote(id) => match note::delete(connection, owner.tenant, within, *id).await? {
            true => ToolResponse::success(format!("Deleted {id}.")),
            false => missing(id),
        },
        KnowledgeAction::ListNotes(listing) => {
            let found =
                note::excerpts(connection, owner.tenant, owner.agentable, listing, limits.excerpt_chars)
                    .await?;
            page(
                found.into_iter().map(|found| list_line(found, "read_note", limits)).collect(),
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
    let within = Some(owner.user);
    let missing = |id| not_found(id, "manage_memory with `recall`");
    Ok(match knowledge {
        KnowledgeAction::SaveMemory { content, instead_of: Some(id) } => {
            match memory::change(connection, owner.tenant, within, *id, content).await? {
                Some(_) => ToolResponse::success(format!("Corrected {id}.")),
                None => missing(id),
            }
        }
        KnowledgeAction::SaveMemory { content, instead_of: None } => {
            let id = MemoryId(new);
            let run = Some(owner.run);
            let memory = memory::NewMemory { id, user: owner.user, run, content, created_at: None };
            memory::insert(connection, owner.tenant, &memory, limits).await?;
            ToolResponse::success(format!("Saved {id}."))
        }
        KnowledgeAction::RecallMemories { query, limit } => {
            let found =
                memory::recall(connection, owner.tenant, owner.user, query, *limit, limits.excerpt_chars)
                    .await?;
            let found: Vec<_> = found
                .into_iter()
                .map(|found| list_line(found, "manage_memory with `read`", limits))
                .collect();
            let none = "Nothing like it is in memory: try other words.".to_owned();
            ToolResponse::success(if found.is_empty() { none } else { found.join("\n\n") })
        }
        KnowledgeAction::ReadMemory(id) => match memory::find(connection, owner.tenant, within, *id).await? {
            Some(memory) => ToolResponse::success(memory.content),
            None => missing(id),
        },
        KnowledgeAction::ForgetMemory(id) => {
            match memory::delete(connection, owner.tenant, within, *id).await? {
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
            let (id, author) = (new.into(), Some((owner.agentable, owner.run)));
            let item =
                feed_item::NewFeedItem { id, user: owner.user, author, title, content, created_at: None };
            feed_item::insert(connection, owner.tenant, &item, limits).await?;
            ToolResponse::success(format!("Created {id}: {title}"))
        }
        KnowledgeAction::ListFeedItems(listing) => {
            let found =
                feed_item::excerpts(connection, owner.tenant, owner.user, listing, limits.excerpt_chars)
                    .await?;
            page(
                found.into_iter().map(|found| list_line(found, "read_feed_item", limits)).collect(),
                listing,
                "feed items",
            )
        }
        KnowledgeAction::ReadFeedItem(id) => {
            match feed_item::find(connection, owner.tenant, Some(owner.user), *id).await? {
                Some(item) => ToolResponse::success(format!("{id}: {}\n{}", item.title, item.content)),
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

/// One row of a list; a shortened text gives its length and the tool that reads it whole.
fn list_line(excerpt: Excerpt, reads: &str, limits: &KnowledgeLimits) -> String {
    let Excerpt { id, title, text, chars } = excerpt;
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

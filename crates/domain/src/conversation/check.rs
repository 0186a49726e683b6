//! Validation of a conversation document: whether it can be stored and continued; if not, which part is wrong and why.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike, Utc};
use serde_json::{Map, Value};

use super::{ClosedSession, Conversation, HistoryEntry, MAX_SUMMARY_BYTES, SummarySource, digest};
use crate::agentable::{MAX_DESCRIPTION_BYTES, MAX_TITLE_CHARS as MAX_AGENTABLE_TITLE_CHARS};
use crate::history::{Block, Fault, RawBlock, Role, validate_complete};
use crate::knowledge::{KnowledgeLimits, MAX_DOCUMENT_BYTES, MAX_SENTENCE_BYTES, MAX_TITLE_CHARS};
use crate::message::{MAX_AGENT_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MessageType, Source};
use crate::question::{MAX_ANSWERED_BY_CHARS, QuestionKind, QuestionState};
use crate::setting::{WrongSetting, require};
use crate::storable::{MAX_LEVELS, is_shallow, is_storable};
use crate::workspace::{FileLimits, MAX_FILE_BYTES, WorkspacePath};

type Checked = Result<(), WrongSetting>;

fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Checked {
    Err(WrongSetting::new(pointer, detail))
}

/// Checks each item of the list at a place of the document; what is wrong in it is below the number of the item.
fn each<'i, T>(list: &str, items: &'i [T], mut check: impl FnMut(&'i T) -> Checked) -> Checked {
    let mut items = items.iter().enumerate();
    items.try_for_each(|(nth, item)| check(item).map_err(|wrong| wrong.below(&format!("{list}/{nth}"))))
}

impl Conversation {
    /// Checks that the document can be stored, and that its conversation can continue.
    ///
    /// # Errors
    /// The first that is wrong, such as `/history/3`.
    pub fn check(&self) -> Checked {
        if !self.title.is_empty() {
            line("/title", &self.title, MAX_AGENTABLE_TITLE_CHARS)?;
        }
        text("/description", &self.description, MAX_DESCRIPTION_BYTES)?;
        self.check_messages()?;
        each("/history", &self.history, check_entry)?;
        // A wrong digest names the changed entry itself; other errors then follow from that change.
        let turns = self.check_turns();
        if let Err(mut changed) = self.check_digests() {
            if let Err(turns) = turns {
                changed.reason = format!("{}; moreover: {}", changed.reason, turns.reason);
            }
            return Err(changed);
        }
        turns?;
        self.check_sessions()?;
        self.check_compressions()?;
        self.check_results()?;
        self.check_questions()?;
        self.check_knowledge()?;
        self.check_files()
    }

    /// Checks that the importing installation allows this many notes, learnings and files.
    ///
    /// # Errors
    /// [`WrongSetting`] at `/notes`, `/learnings` or `/files` when there are more than `limits` allows.
    pub fn check_counts(&self, limits: &KnowledgeLimits) -> Checked {
        check_count("/notes", self.notes.len(), limits.max_notes)?;
        check_count("/learnings", self.learnings.len(), limits.max_learnings)?;
        self.check_file_counts(&limits.files)
    }

    fn check_messages(&self) -> Checked {
        each("/messages", &self.messages, |message| {
            let of_user = message.source == Source::User;
            let most = if of_user { MAX_MESSAGE_BYTES } else { MAX_AGENT_MESSAGE_BYTES };
            text("/content", &message.content, most)?;
            check_metadata("/metadata", &message.metadata)?;
            time("/created_at", message.created_at)?;
            let has_content = !of_user || !message.content.trim().is_empty();
            require(has_content, "/content", "must not be empty in a message of the user")?;
            let may_be_cell = message.message_type != MessageType::Tool || message.source == Source::Agent;
            let detail = "must be `text`: only messages of the agent can be tool cells";
            require(may_be_cell, "/message_type", detail)
        })
    }

    /// Checks that a provider accepts the history.
    fn check_turns(&self) -> Checked {
        validate_complete(&self.history)
            .or_else(|fault| invalid(format!("/history/{}", fault.index()), fault.to_string()))
    }

    fn check_digests(&self) -> Checked {
        let Some(digests) = &self.digests else { return Ok(()) };
        let mut both = self.history.iter().zip(digests);
        if let Some(index) = both.position(|(entry, exported)| digest(entry) != *exported) {
            let detail = "is not the entry that was exported: it was changed, or an entry before it was removed \
                          or added. Leave out `digests` to import a document you changed on purpose";
            return invalid(format!("/history/{index}"), detail);
        }
        let (present, exported) = (self.history.len(), digests.len());
        let detail = format_args!(
            "{exported} entries were exported, but the history has {present}: entries were removed or added"
        );
        require(present == exported, format!("/history/{}", present.min(exported)), detail)
    }

    fn check_knowledge(&self) -> Checked {
        each("/notes", &self.notes, |note| {
            line("/title", &note.title, MAX_TITLE_CHARS)?;
            require(!note.title.contains(['\n', '\r']), "/title", "must be one line")?;
            non_blank_text("/content", &note.content, MAX_DOCUMENT_BYTES)?;
            time("/created_at", note.created_at)?;
            time("/updated_at", note.updated_at)
        })?;
        each("/learnings", &self.learnings, |learning| {
            non_blank_text("/content", &learning.content, MAX_SENTENCE_BYTES)?;
            time("/created_at", learning.created_at)?;
            time("/updated_at", learning.updated_at)
        })
    }
}

fn check_metadata(pointer: &str, metadata: &Map<String, Value>) -> Checked {
    let bytes = serde_json::to_vec(metadata).map_or(0, |json| json.len());
    let detail = format_args!("has {bytes} bytes; at most {MAX_METADATA_BYTES} are allowed");
    require(bytes <= MAX_METADATA_BYTES, pointer, detail)?;
    storable(pointer, &Value::Object(metadata.clone()))
}

/// Checks one entry, independently of the others.
fn check_entry(entry: &HistoryEntry) -> Checked {
    time("/created_at", entry.created_at)?;
    each("/content", &entry.content, |block| {
        let raw = match block {
            Block::Text { text, raw } => {
                require(!text.is_empty(), "/text", "must not be empty")?;
                raw.as_ref()
            }
            Block::ToolUse { id, name, input, raw } => {
                let is_named = !id.is_empty() && !name.is_empty();
                require(is_named, "", "a tool call needs an `id` and a `name`")?;
                let detail = "must be an object: the arguments of the tool call";
                require(input.is_object(), "/input", detail)?;
                raw.as_ref()
            }
            Block::ToolResult { .. } | Block::Image(_) | Block::Document(_) => None,
            Block::Thinking { raw, .. } => raw.as_ref(),
            Block::Opaque { raw } => Some(raw),
        };
        raw.map_or(Ok(()), |raw| check_raw("/raw", entry.role, raw))?;
        storable("", &serde_json::to_value(block).unwrap_or_default())
    })
}

/// Checks that a provider's block may be sent back to that provider.
fn check_raw(pointer: &str, role: Role, raw: &RawBlock) -> Checked {
    require(role != Role::User, pointer, "is only allowed in entries of the assistant: leave it out")?;
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&raw.json).is_ok();
    require(is_json, format!("{pointer}/json"), "must be the text of one JSON value")?;
    raw.check().or_else(|detail| invalid(format!("{pointer}/json"), detail))
}

fn check_count(pointer: &str, count: usize, most: u32) -> Checked {
    let detail = format_args!("has {count} items; at most {most} are allowed");
    require(count <= most as usize, pointer, detail)
}

fn line(pointer: &str, line: &str, most_chars: usize) -> Checked {
    require(!line.trim().is_empty(), pointer, "must not be empty")?;
    let detail = format_args!("must have at most {most_chars} characters");
    require(line.chars().count() <= most_chars, pointer, detail)?;
    text(pointer, line, usize::MAX)
}

/// Checks a text that must not be blank.
fn non_blank_text(pointer: &str, content: &str, most_bytes: usize) -> Checked {
    require(!content.trim().is_empty(), pointer, "must not be empty")?;
    text(pointer, content, most_bytes)
}

fn text(pointer: &str, text: &str, most_bytes: usize) -> Checked {
    let detail = format_args!("has {} bytes; at most {most_bytes} are allowed", text.len());
    require(text.len() <= most_bytes, pointer, detail)?;
    require(!text.contains('\0'), pointer, UNSTORABLE)
}

/// Checks that Postgres can store every character, all but U+0000, and that the value can be read again.
fn storable(pointer: &str, value: &Value) -> Checked {
    let detail = format_args!("must have at most {MAX_LEVELS} lists and objects in each other");
    require(is_shallow(value, MAX_LEVELS + BLOCK_LEVELS), pointer, detail)?;
    require(is_storable(value), pointer, UNSTORABLE)
}

const UNSTORABLE: &str = "must not contain the character U+0000, which cannot be stored";

/// Lists and objects of a block around the input of a call.
const BLOCK_LEVELS: usize = 4;

/// Checks that Postgres can store the year.
fn time(pointer: &str, time: DateTime<Utc>) -> Checked {
    require((1970..=9999).contains(&time.year()), pointer, "must be between the years 1970 and 9999")
}

/// Maximum length of a model's name, in characters.
const MAX_NAME_CHARS: usize = 1_000;

/// The most tokens that Postgres can store.
const MAX_TOKENS: u64 = i64::MAX.unsigned_abs();

impl Conversation {
    /// Checks that the sessions cover the beginning of the history without gaps, and that each is a valid history by
    /// itself.
    fn check_sessions(&self) -> Checked {
        let entries = &self.history;
        let mut before: Option<&ClosedSession> = None;
        each("/sessions", &self.sessions, |session| {
            check_range(session, before, entries.len())?;
            let (first, last) = (session.first_position - 1, session.last_position);
            validate_complete(&entries[first..last]).or_else(|fault| not_alone(session, &fault))?;
            check_summary(session, &entries[first..last])?;
            check_times(session, before)?;
            before = Some(session);
            Ok(())
        })?;
        let Some(last) = before else { return Ok(()) };
        validate_complete(&entries[last.last_position..]).or_else(|_| {
            let detail = format!(
                "is {}, but the entry after it begins with an answer: end the session before the question, or after \
                 the whole turn",
                last.last_position
            );
            invalid(format!("/sessions/{}/last_position", self.sessions.len() - 1), detail)
        })
    }

    /// Checks that the entries after each summary can be sent together with it.
    fn check_compressions(&self) -> Checked {
        let count = self.history.len();
        each("/compressions", &self.compressions, |compression| {
            let through = compression.through_position;
            let detail =
                format_args!("is {through}, but must be a position of the history, from 1 to {count}");
            require((1..=count).contains(&through), "/through_position", detail)?;
            let ends_session =
                self.sessions.binary_search_by_key(&through, |session| session.last_position).is_ok();
            let mut next = self.history.get(through).filter(|_| !ends_session).into_iter();
            let splits =
                next.any(|next| next.content.iter().any(|of| matches!(of, Block::ToolResult { .. })));
            let detail =
                format_args!("is {through}, between a tool call and its result: neither can be sent alone");
            require(!splits, "/through_position", detail)?;
            non_blank_text("/summary", &compression.summary, usize::MAX)?;
            let most_entries = i32::MAX.unsigned_abs().into();
            check_at_most("/entries_before", compression.entries_before.into(), most_entries)?;
            check_at_most("/entries_after", compression.entries_after.into(), most_entries)?;
            check_at_most("/tokens_before", compression.tokens_before, MAX_TOKENS)?;
            check_at_most("/tokens_after", compression.tokens_after, MAX_TOKENS)?;
            let model = compression.model.as_deref();
            model.map_or(Ok(()), |model| line("/model", model, MAX_NAME_CHARS))?;
            time("/created_at", compression.created_at)
        })
    }

    /// Checks that each result occurs once, and that a text refers to it.
    fn check_results(&self) -> Checked {
        if self.results.is_empty() {
            return Ok(());
        }
        let (named, mut seen) = (self.referenced_results(), BTreeSet::new());
        each("/results", &self.results, |result| {
            let id = result.id;
            let detail =
                format_args!("is {id}, but no entry and no summary refers to it: leave the result out");
            require(named.contains(&id), "/id", detail)?;
            let detail = format_args!("is {id}, which is the id of another result already");
            require(seen.insert(id), "/id", detail)?;
            text("/call_id", &result.call_id, usize::MAX)?;
            text("/tool", &result.tool, usize::MAX)?;
            text("/content", &result.content, usize::MAX)?;
            time("/created_at", result.created_at)
        })
    }
}

fn check_range(session: &ClosedSession, before: Option<&ClosedSession>, entries: usize) -> Checked {
    let ClosedSession { first_position: first, last_position: last, .. } = *session;
    let next = before.map_or(1, |before| before.last_position + 1);
    if first != next {
        let why = match before.map(|before| before.last_position) {
            None => "the first session begins with the first entry".to_owned(),
            Some(end) if first < next => {
                format!("the session before it ends with {end}, and no entry belongs to two sessions")
            }
            Some(_) => format!("the entries from {next} on belong to no session"),
        };
        return invalid("/first_position", format!("is {first}, but must be {next}: {why}"));
    }
    let less = format_args!("is {last}, but must not be less than `first_position`, which is {first}");
    require(last >= first, "/last_position", less)?;
    let more = format_args!("is {last}, but the history has only {entries} entries");
    require(last <= entries, "/last_position", more)
}

/// The error for a session that is not a valid history by itself, although the whole history is valid.
fn not_alone(session: &ClosedSession, fault: &Fault) -> Checked {
    let ClosedSession { first_position: first, last_position: last, .. } = session;
    if let Fault::Unanswered(_, id) = fault {
        let why = format!("the result of the tool call `{id}` comes after it: include it in the session");
        return invalid("/last_position", format!("is {last}, but {why}"));
    }
    let detail = match fault {
        Fault::BeginsWithAssistant => "an answer: a session must begin with a message of the user".to_owned(),
        fault => format!("but the session is not a valid history by itself: {fault}"),
    };
    invalid("/first_position", format!("is {first}, {detail}"))
}

fn check_summary(session: &ClosedSession, entries: &[HistoryEntry]) -> Checked {
    text("/summary", &session.summary, MAX_SUMMARY_BYTES)?;
    if session.pending {
        let detail = "is `model`, but must be `extract` while the summary is `pending`";
        require(session.summary_source != SummarySource::Model, "/summary_source", detail)?;
        let detail = "is written together with the summary: leave it out, or set `pending` to false";
        require(session.message_count.is_none(), "/message_count", detail)?;
        return require(session.token_count.is_none(), "/token_count", detail);
    }
    let detail = "must not be empty unless `pending` is true: then a summary is written after the import";
    require(!session.summary.trim().is_empty(), "/summary", detail)?;
    let missing = "is missing: it is required unless `pending` is true";
    let Some(messages) = session.message_count else { return invalid("/message_count", missing) };
    let Some(tokens) = session.token_count else { return invalid("/token_count", missing) };
    let blocks = entries.iter().flat_map(|entry| &entry.content);
    let countable =
        blocks.filter(|block| matches!(block, Block::Text { .. } | Block::ToolUse { .. })).count();
    let can_be = usize::try_from(messages).is_ok_and(|messages| messages <= countable);
    let why = format!("its entries have only {countable} texts and tool calls that can be messages");
    require(can_be, "/message_count", format_args!("is {messages}, but {why}"))?;
    check_at_most("/token_count", tokens, MAX_TOKENS)
}

fn check_times(session: &ClosedSession, before: Option<&ClosedSession>) -> Checked {
    time("/started_at", session.started_at)?;
    time("/completed_at", session.completed_at)?;
    require(session.completed_at >= session.started_at, "/completed_at", "is before `started_at`")?;
    let follows = before.is_none_or(|before| session.started_at >= before.completed_at);
    require(follows, "/started_at", "is before `completed_at` of the session before it")
}

fn check_at_most(pointer: &str, count: u64, most: u64) -> Checked {
    require(count <= most, pointer, format_args!("is {count}; at most {most} is allowed"))
}

impl Conversation {
    fn check_questions(&self) -> Checked {
        each("/questions", &self.questions, |question| {
            text("/text", &question.text, usize::MAX)?;
            text("/subject", question.subject.as_deref().unwrap_or_default(), usize::MAX)?;
            for (at, value) in [
                ("/schema", &question.schema),
                ("/default_value", &question.default_value),
                ("/answer", &question.answer),
            ] {
                value.as_ref().map_or(Ok(()), |value| storable(at, value))?;
            }
            let detail = "must not be `open`: no run of the import waits for an answer";
            require(question.state != QuestionState::Open, "/state", detail)?;
            if let Some(approval) = &question.approval {
                let has_call = question.kind == QuestionKind::Approval && question.subject.is_some();
                let detail = "is only allowed if `kind` is `approval` and `subject` is the id of the call";
                require(has_call, "/approval", detail)?;
                text("/approval/tool", &approval.tool, usize::MAX)?;
                text("/approval/why", &approval.why, usize::MAX)?;
                storable("/approval/input", &approval.input)?;
            }
            let is_answered = question.state == QuestionState::Answered;
            let detail = "must be there if `state` is `answered`, and only then";
            require(is_answered == question.answer.is_some(), "/answer", detail)?;
            if let Some(name) = &question.answered_by {
                require(is_answered, "/answered_by", "is only allowed if `state` is `answered`")?;
                line("/answered_by", name, MAX_ANSWERED_BY_CHARS)?;
            }
            question.expires_at.map_or(Ok(()), |expires_at| time("/expires_at", expires_at))?;
            time("/created_at", question.created_at)?;
            time("/closed_at", question.closed_at)
        })
    }

    /// Checks that the files can be those of one workspace.
    fn check_files(&self) -> Checked {
        let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
        let mut paths = Vec::with_capacity(self.files.len());
        each("/files", &self.files, |file| {
            let path = WorkspacePath::file(&file.path).map_err(|error| WrongSetting::new("/path", error))?;
            require(path.as_str() == file.path, "/path", format_args!("must be written `{path}`"))?;
            require(files.insert(file.path.as_str()), "/path", "is the path of an earlier file, too")?;
            text("/content", &file.content, MAX_FILE_BYTES)?;
            time("/created_at", file.created_at)?;
            time("/updated_at", file.updated_at)?;
            paths.push(path);
            Ok(())
        })?;
        for path in &paths {
            folders.extend(path.folders());
        }
        match self.files.iter().position(|file| folders.contains(file.path.as_str())) {
            Some(index) => invalid(format!("/files/{index}/path"), "is a folder of another file"),
            None => Ok(()),
        }
    }

    /// Checks that a workspace may hold this much.
    fn check_file_counts(&self, limits: &FileLimits) -> Checked {
        check_count("/files", self.files.len(), limits.max_files)?;
        let bytes: u64 =
            self.files.iter().map(|file| u64::try_from(file.content.len()).unwrap_or(u64::MAX)).sum();
        let detail = format_args!("have {bytes} bytes; at most {} are allowed", limits.max_bytes);
        require(bytes <= limits.max_bytes, "/files", detail)
    }
}

#[cfg(test)]
mod question_tests {
    use serde_json::{Value, json};

    use super::tests::exported;
    use super::*;

    /// Answered with `null`, which is a value like any other.
    fn asked() -> Conversation {
        let at = "2026-11-20T10:00:00Z";
        let mut document = serde_json::to_value(exported()).unwrap();
        document["questions"] = json!([{"kind": "input", "subject": "call_1", "text": "Which hotel?",
            "default_value": null, "state": "answered", "answer": null, "answered_by": "Ann", "created_at": at,
            "closed_at": at}, {"kind": "approval", "subject": "call_2", "text": "Delete note?", "state": "expired",
            "created_at": at, "closed_at": at,
            "approval": {"tool": "delete_note", "input": {"note_id": "x"}, "why": "it deletes something"}}]);
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn questions_round_trip_with_null_as_an_answer() {
        let document = asked();
        assert_eq!(document.check(), Ok(()));
        assert_eq!(document.questions[0].answer, Some(Value::Null));
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Conversation>(&text).unwrap(), document);
    }

    #[test]
    fn errors_name_the_question_and_its_field() {
        type Change = fn(&mut Conversation);
        let cases: [(Change, &str); 8] = [
            (|c| c.questions[0].state = QuestionState::Open, "/questions/0/state"),
            (|c| c.questions[0].answer = None, "/questions/0/answer"),
            (|c| c.questions[0].state = QuestionState::Expired, "/questions/0/answer"),
            (
                |c| (c.questions[0].state, c.questions[0].answer) = (QuestionState::Expired, None),
                "/questions/0/answered_by",
            ),
            (|c| c.questions[0].answered_by = Some("A".repeat(201)), "/questions/0/answered_by"),
            (|c| c.questions[0].default_value = Some(json!("\0")), "/questions/0/default_value"),
            (|c| c.questions[1].kind = QuestionKind::Input, "/questions/1/approval"),
            (
                |c| c.questions[1].approval.as_mut().unwrap().input = json!("\0"),
                "/questions/1/approval/input",
            ),
        ];
        for (change, pointer) in cases {
            let mut document = asked();
            change(&mut document);
            assert_eq!(document.check().unwrap_err().pointer, pointer);
        }
    }
}

#[cfg(test)]
mod file_tests {
    use super::tests::exported;
    use super::*;
    use crate::conversation::ExportedFile;

    fn with(files: &[(&str, &str)]) -> Conversation {
        let mut document = exported();
        let at = document.notes[0].created_at;
        let file = |(path, content): &(&str, &str)| ExportedFile {
            path: (*path).to_owned(),
            content: (*content).to_owned(),
            created_at: at,
            updated_at: at,
        };
        document.files = files.iter().map(file).collect();
        document
    }

    #[test]
    fn files_of_one_workspace_are_accepted() {
        let document = with(&[("a", ""), ("b/c", "x"), ("b/d", "y"), ("b-e", "z")]);
        assert_eq!(document.check(), Ok(()));
        let text = serde_json::to_string(&document).unwrap();
        assert_eq!(serde_json::from_str::<Conversation>(&text).unwrap(), document);
        assert!(!serde_json::to_string(&with(&[])).unwrap().contains("files"), "others stay as they were");
    }

    #[test]
    fn files_that_no_workspace_can_have_are_named() {
        let long = "x".repeat(MAX_FILE_BYTES + 1);
        for (files, pointer, reason) in [
            (vec![("a", ""), ("../b", "")], "/files/1/path", "`..`"),
            (vec![("/a", "")], "/files/0/path", "absolute"),
            (vec![("./a", "")], "/files/0/path", "must be written `a`"),
            (vec![("a", ""), ("a", "")], "/files/1/path", "earlier file"),
            (vec![("a/b", ""), ("a", "")], "/files/1/path", "is a folder"),
            (vec![("a", "x\0y")], "/files/0/content", "U+0000"),
            (vec![("a", long.as_str())], "/files/0/content", "at most 1048576"),
        ] {
            let error = with(&files).check().unwrap_err();
            assert!(error.pointer == pointer && error.reason.contains(reason), "{error}");
        }
        let limits = FileLimits { max_files: 1, max_bytes: 3 };
        for (files, reason) in [(vec![("a", ""), ("b", "")], "2 items"), (vec![("a", "1234")], "4 bytes")] {
            let error = with(&files).check_file_counts(&limits).unwrap_err();
            assert!(error.pointer == "/files" && error.reason.contains(reason), "{error}");
        }
    }
}

#[cfg(test)]
mod tests;

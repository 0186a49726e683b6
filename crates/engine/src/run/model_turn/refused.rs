//! Images and PDFs that a provider has refused: they are left out of what is sent from then on, and the model reads that they are.

use std::collections::BTreeMap;

use houston_domain::history::{Block, Entry, Role};
use houston_domain::id::AttachmentId;
use houston_domain::model::ModelError;
use uuid::Uuid;

use super::attachments::Insertion;

/// Characters of the provider's reason that are kept.
const REASON_CHARS: usize = 200;

/// What a file is sent as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sent {
    Image,
    Document,
}

/// A file that is sent, with the entry that refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SentFile {
    entry: usize,
    pub(super) id: Uuid,
    pub(super) sent: Sent,
}

impl SentFile {
    /// What the insertion sends as a file; `None`: it is text.
    pub(super) fn of(insertion: &Insertion) -> Option<Self> {
        let (id, sent) = match &insertion.added {
            Block::Image(image) => (image.id.0, Sent::Image),
            Block::Document(document) => (document.id.0, Sent::Document),
            _ => return None,
        };
        Some(Self { entry: insertion.entry, id, sent })
    }
}

/// Files that were refused, and why.
pub(super) type Refused = BTreeMap<Uuid, String>;

/// The insertion with a line in the place of a file that was refused.
pub(super) fn without(mut insertion: Insertion, refused: &Refused) -> Insertion {
    let Some(file) = SentFile::of(&insertion) else { return insertion };
    let Some(why) = refused.get(&file.id) else { return insertion };
    insertion.added = match insertion.added {
        Block::Image(image) => Block::text(line(&image.id.to_string(), why)),
        Block::Document(document) => {
            Block::text(format!("{}\n{}", document.unread, line(&AttachmentId(file.id).to_string(), why)))
        }
        other => other,
    };
    insertion
}

fn line(file: &str, why: &str) -> String {
    format!(
        "[{file} was left out: your provider refused it ({why}). You have not seen it. If it matters, say so, and ask for \
         another version of it.]"
    )
}

/// Which of the files of a request the provider has refused, by what its error says, and why; none if the error names no file.
/// Those that no model has answered are suspected first, then all.
pub(super) fn refused_by(
    error: &ModelError,
    history: &[Entry],
    sent: &[SentFile],
) -> Option<(Vec<SentFile>, String)> {
    if sent.is_empty() || !error.refuses_the_request() {
        return None;
    }
    let text = format!("{} {}", error.message, error.cause.as_deref().unwrap_or_default()).to_lowercase();
    let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let image = mentions(&["image", "picture", "photo", "pixel"]);
    let document = mentions(&["pdf", "document", "page"]);
    let either = mentions(&["media", "attachment", "base64", "inline_data", "inlinedata", "file"]);
    let is_named = |file: &&SentFile| match file.sent {
        Sent::Image => image || either && !document,
        Sent::Document => document || either && !image,
    };
    let named: Vec<SentFile> = sent.iter().filter(is_named).copied().collect();
    let answered = history.iter().rposition(|entry| entry.role == Role::Assistant);
    let fresh = named.iter().filter(|file| answered.is_none_or(|answered| file.entry > answered));
    let fresh: Vec<SentFile> = fresh.copied().collect();
    let chosen = if fresh.is_empty() { named } else { fresh };
    let why: String = error.message.chars().take(REASON_CHARS).collect();
    let why = why.replace(['[', ']', '\n', '\r', '\0'], " ");
    (!chosen.is_empty()).then_some((chosen, why))
}

#[cfg(test)]
mod tests {
    use houston_domain::model::ModelErrorCode;

    use super::*;

    fn file(entry: usize, id: u128, sent: Sent) -> SentFile {
        SentFile { entry, id: Uuid::from_u128(id), sent }
    }

    #[test]
    fn error_decides_which_files_are_left_out() {
        let user = || Entry::user(vec![Block::text("x")]);
        let history = [user(), Entry::assistant(vec![Block::text("y")]), user()];
        let (old, new) = (file(0, 1, Sent::Image), file(2, 2, Sent::Image));
        let (read, unread) = (file(0, 3, Sent::Document), file(2, 4, Sent::Document));
        for (status, message, sent, expected) in [
            (400, "anthropic: Could not process image", vec![old, new], vec![new]),
            (
                400,
                "messages.2.content.1.image.source.base64.data: invalid",
                vec![old, new, unread],
                vec![new],
            ),
            (422, "openai: You uploaded an unsupported image.", vec![old], vec![old]),
            (400, "google: Unable to process input image.", vec![unread, new], vec![new]),
            (
                400,
                "anthropic: The PDF specified is password protected.",
                vec![new, read, unread],
                vec![unread],
            ),
            (400, "The document has no pages", vec![old, read], vec![read]),
            (400, "openai: The file could not be read", vec![new, unread], vec![new, unread]),
            (400, "temperature must be a number", vec![old, new, unread], vec![]),
            (400, "Could not process image", vec![], vec![]),
            (400, "Could not process image", vec![unread], vec![]),
            (500, "Could not process image", vec![new], vec![]),
        ] {
            let code = if status == 500 { ModelErrorCode::NetworkError } else { ModelErrorCode::Unknown };
            let error = ModelError { status: Some(status), ..ModelError::new(code, message) };
            let chosen = refused_by(&error, &history, &sent).map(|(chosen, _)| chosen).unwrap_or_default();
            assert_eq!(chosen, expected, "{message}");
        }
    }
}

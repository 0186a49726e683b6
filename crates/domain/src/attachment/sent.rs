//! What a model is sent of the files of a history.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::AttachmentType;
use crate::id::AttachmentId;

/// How much of the files of a history a model is sent with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextAttachments {
    /// Files, the newest ones: PDFs and texts. Images count with the other images of the history.
    pub max_files: usize,
    /// Bytes of PDFs together, before they are encoded.
    pub max_bytes: usize,
    /// Bytes of one text, or of the text of one PDF for a model that takes none.
    pub max_text_bytes: usize,
}

impl Default for ContextAttachments {
    fn default() -> Self {
        Self { max_files: 4, max_bytes: 15_000_000, max_text_bytes: 65_536 }
    }
}

/// What a model gets of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// The bytes, or of a text its beginning.
    Whole,
    /// A PDF that does not fit: its text.
    AsText,
    /// A line that says that it is there.
    Line,
}

/// For each file of a history, the oldest first, what a model gets of it: the newest are sent.
#[must_use]
pub fn shares(files: &[(AttachmentType, usize)], limits: ContextAttachments) -> Vec<Share> {
    let (mut left, mut bytes_left) = (limits.max_files, limits.max_bytes);
    let mut shares: Vec<Share> = files
        .iter()
        .rev()
        .map(|(kind, bytes)| {
            if left == 0 {
                return Share::Line;
            }
            left -= 1;
            match kind {
                AttachmentType::Pdf if *bytes > bytes_left => Share::AsText,
                AttachmentType::Pdf => {
                    bytes_left -= bytes;
                    Share::Whole
                }
                AttachmentType::Text | AttachmentType::Image(_) => Share::Whole,
            }
        })
        .collect();
    shares.reverse();
    shares
}

/// A PDF as a request to a model has it.
#[derive(Clone, PartialEq, Eq)]
pub struct SentDocument {
    /// The id by which texts refer to it.
    pub id: AttachmentId,
    /// Its name.
    pub name: String,
    /// Its bytes, in Base64.
    pub base64: Arc<str>,
    /// What a model reads that takes no PDFs.
    pub unread: String,
}

/// Bytes of a PDF for each of the tokens that it costs, about: a page has some 50 KB and costs some 2,000.
const BYTES_PER_TOKEN: u64 = 24;
/// What a page costs.
const MIN_TOKENS: u64 = 1_500;
/// What a hundred pages cost, which is what providers take.
const MAX_TOKENS: u64 = 200_000;

impl SentDocument {
    /// Tokens that it costs a model, estimated.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let bytes = u64::try_from(self.base64.len() / 4 * 3).unwrap_or(u64::MAX);
        (bytes / BYTES_PER_TOKEN).clamp(MIN_TOKENS, MAX_TOKENS)
    }
}

/// Without the bytes.
impl fmt::Debug for SentDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentDocument").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// A line that says that a file is there, and why the model is not sent it.
#[must_use]
pub fn described(id: AttachmentId, name: &str, kind: AttachmentType, bytes: usize, why: &str) -> String {
    let what = match kind {
        AttachmentType::Image(image) => format!("{} image", image.name()),
        AttachmentType::Pdf => "PDF".to_owned(),
        AttachmentType::Text => "text".to_owned(),
    };
    format!("[Here the user has posted a file: {name} ({what}, {bytes} bytes, {id}). {why}]")
}

/// A text of a file between fences that it does not contain, with a line before it.
#[must_use]
pub fn fenced(id: AttachmentId, name: &str, text: &str, is_cut: bool) -> String {
    let ticks = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(ticks.max(2) + 1);
    let rest = if is_cut { "\n[The file has more, which is not sent to you.]" } else { "" };
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!(
        "[The text of the file {name} ({id}), which the user has posted:]\n{fence}\n{text}{end}{fence}{rest}"
    )
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn newest_files_are_sent_within_the_limits() {
        let limits = ContextAttachments { max_files: 3, max_bytes: 100, max_text_bytes: 10 };
        let (pdf, text) = (AttachmentType::Pdf, AttachmentType::Text);
        let of = |files: &[(AttachmentType, usize)]| shares(files, limits);
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(pdf, 60), (pdf, 60)]), [Share::AsText, Share::Whole]);
        assert_eq!(
            of(&[(text, 1), (pdf, 40), (text, 9_000), (pdf, 60)]),
            [Share::Line, Share::Whole, Share::Whole, Share::Whole]
        );
        assert_eq!(of(&[(pdf, 101)]), [Share::AsText]);
    }

    #[test]
    fn fences_are_longer_than_those_of_the_text() {
        let id = AttachmentId(Uuid::nil());
        let whole = fenced(id, "a.md", "```\ncode\n````", true);
        assert!(whole.contains("\n`````\n```\ncode\n````\n`````\n[The file has more"), "{whole}");
        assert!(fenced(id, "a.md", "hi\n", false).ends_with("\n```\nhi\n```"));
    }

    #[test]
    fn debug_output_has_no_bytes() {
        let document = SentDocument {
            id: AttachmentId(Uuid::nil()),
            name: "a.pdf".into(),
            base64: "JVBERi0".into(),
            unread: String::new(),
        };
        assert!(!format!("{document:?}").contains("JVBERi0"));
        assert_eq!(document.tokens(), MIN_TOKENS);
    }
}

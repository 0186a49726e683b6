//! Files that users post for their messages: what is accepted, how a text refers to one, and what a model is sent of them.
//!
//! A file is posted once, by itself, and has an id made of its user and its bytes. Messages name it by a line of Markdown, so
//! whatever has the text has the reference and not the bytes:
//!
//! ```text
//! What does this say?
//!
//! [report.pdf](/v1/attachments/att_0190…)
//! ```
//!
//! Such a line may also be typed: it names a file that the user has posted before. A run looks up files of its own user only.

mod kind;
mod sent;

use sha2::{Digest as _, Sha256};

use crate::id::{AttachmentId, UserId, shard};

pub use self::kind::{AttachmentType, TypeCheck, WrongType, is_encrypted};
pub use self::sent::{ContextAttachments, SentDocument, Share, described, fenced, shares};

/// Bytes of a file at most.
pub const MAX_ATTACHMENT_BYTES: usize = 20_000_000;
/// Characters of a name at most.
pub const MAX_NAME_CHARS: usize = 100;
/// References of one text that are followed, the last ones: those of posted files are at the end, and more can only be typed.
pub const MAX_REFERENCES: usize = 20;

/// The part of a reference between the name and the id.
const REFERENCE: &str = "](/v1/attachments/";

/// The SHA-256 of a file, while its bytes arrive.
#[derive(Debug, Clone)]
pub struct AttachmentHash(Sha256);

impl AttachmentHash {
    /// The hash of nothing, for a file of this user.
    #[must_use]
    pub fn new(user: UserId) -> Self {
        Self(Sha256::new().chain_update(b"attachment").chain_update(user.0))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The id of the file: equal bytes of a user have the same one, so that they are stored once.
    #[must_use]
    pub fn id(self, user: UserId) -> AttachmentId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.0.finalize()[..16]);
        AttachmentId(shard(user).mark(uuid::Builder::from_custom_bytes(id).into_uuid()))
    }
}

/// A name as it can stand in a reference: one line of at most [`MAX_NAME_CHARS`] characters without path and brackets. `None`:
/// nothing is left of it.
#[must_use]
pub fn file_name(given: &str) -> Option<String> {
    let last = given.rsplit(['/', '\\']).next().unwrap_or(given);
    let kept = last.chars().filter(|of| !of.is_control() && !"[]()<>`\"".contains(*of) && !is_invisible(*of));
    let name: String = kept.take(MAX_NAME_CHARS).collect();
    let name = name.trim().trim_matches('.').trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Characters that change how the text around them is displayed, or that cannot be seen.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The line by which a text refers to a file.
#[must_use]
pub fn reference(id: AttachmentId, name: &str, kind: AttachmentType) -> String {
    let sign = if matches!(kind, AttachmentType::Image(_)) { "!" } else { "" };
    format!("{sign}[{name}{REFERENCE}{id})")
}

/// The files that a text refers to, in order. Most texts refer to none.
pub fn references(text: &str) -> impl Iterator<Item = AttachmentId> {
    text.match_indices(REFERENCE).filter_map(|(at, start)| {
        let rest = text.get(at + start.len()..)?;
        rest.split_once(')')?.0.parse().ok()
    })
}

/// A text with these lines at its end.
#[must_use]
pub fn with_references(text: &str, lines: impl IntoIterator<Item = String>) -> String {
    let mut whole = text.to_owned();
    for line in lines {
        if !whole.is_empty() {
            whole.push_str("\n\n");
        }
        whole += &line;
    }
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn id_of(user: UserId, pieces: &[&[u8]]) -> AttachmentId {
        let mut hash = AttachmentHash::new(user);
        pieces.iter().for_each(|piece| hash.update(piece));
        hash.id(user)
    }

    #[test]
    fn equal_bytes_of_a_user_have_one_id_in_the_users_shard() {
        let [ada, bob] = [7, 8].map(|id| UserId(Uuid::from_u128(id)));
        let id = id_of(ada, &[b"by", b"tes"]);
        assert_eq!(id, id_of(ada, &[b"bytes"]));
        assert_eq!(shard(id), shard(ada));
        assert_ne!(id, id_of(bob, &[b"bytes"]));
    }

    #[test]
    fn names_are_one_line_without_path_and_brackets() {
        for (given, name) in [
            ("report.pdf", Some("report.pdf")),
            ("C:\\Users\\ada\\report (final)[1].pdf", Some("report final1.pdf")),
            ("../../etc/passwd", Some("passwd")),
            ("a\nb\u{202e}fdp.exe", Some("abfdp.exe")),
            ("..", None),
            ("", None),
            ("Übersicht ☕.txt", Some("Übersicht ☕.txt")),
        ] {
            assert_eq!(file_name(given).as_deref(), name, "{given}");
        }
        assert_eq!(file_name(&"x".repeat(500)).unwrap().len(), MAX_NAME_CHARS);
    }

    proptest! {
        #[test]
        fn references_are_read_back_whatever_surrounds_them(
            text in "(\\PC|\\]\\(/v1/attachments/|att_|\\)|\n){0,30}", ids in proptest::collection::vec(any::<u128>(), 0..4)
        ) {
            let ids: Vec<AttachmentId> = ids.into_iter().map(|id| AttachmentId(Uuid::from_u128(id))).collect();
            let lines = ids.iter().map(|id| reference(*id, "a.pdf", AttachmentType::Pdf));
            let whole = with_references(&text, lines);
            let found: Vec<AttachmentId> = references(&whole).collect();
            prop_assert!(found.ends_with(&ids), "{:?} in {}", found, whole);
        }
    }
}

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

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::id::{AttachmentId, UserId};
pub use crate::image::with_lines as with_references;
use crate::image::{ImageType, id_of, referenced};
use crate::visible::is_hidden;

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
    pub fn new(user: UserId) -> Self {
        Self(Sha256::new().chain_update(b"attachment").chain_update(user.0))
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The id of the file: equal bytes of a user have the same one, so that they are stored once.
    pub fn id(self, user: UserId) -> AttachmentId {
        AttachmentId(id_of(user, self.0))
    }
}

/// A name as it can stand in a reference: one line of at most [`MAX_NAME_CHARS`] characters without path and brackets. `None`:
/// nothing is left of it.
pub fn file_name(given: &str) -> Option<String> {
    let last = given.rsplit(['/', '\\']).next().unwrap_or(given);
    let kept = last.chars().filter(|of| !of.is_control() && !"[]()<>`\"".contains(*of) && !is_hidden(*of));
    let name: String = kept.take(MAX_NAME_CHARS).collect();
    let name = name.trim().trim_matches('.').trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// The line by which a text refers to a file.
pub fn reference(id: AttachmentId, name: &str, kind: AttachmentType) -> String {
    let sign = if matches!(kind, AttachmentType::Image(_)) { "!" } else { "" };
    format!("{sign}[{name}{REFERENCE}{id})")
}

/// The files that a text refers to, in order. Most texts refer to none.
pub fn references(text: &str) -> impl Iterator<Item = AttachmentId> {
    referenced(text, REFERENCE)
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttachmentType {
    /// A PNG, JPEG, WebP or GIF image.
    Image(ImageType),
    /// A PDF document.
    Pdf,
    /// A text in UTF-8.
    Text,
}

impl AttachmentType {
    /// The media type with which it is stored and sent.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Image(kind) => kind.as_str(),
            Self::Pdf => "application/pdf",
            Self::Text => "text/plain",
        }
    }

    /// The type that is stored with this media type.
    pub fn of_media_type(name: &str) -> Option<Self> {
        match name {
            "application/pdf" => Some(Self::Pdf),
            "text/plain" => Some(Self::Text),
            other => ImageType::from_name(other).map(Self::Image),
        }
    }

    /// The name of a file without one.
    pub fn default_name(self) -> String {
        match self {
            Self::Image(kind) => format!("image.{}", kind.name().to_lowercase()),
            Self::Pdf => "document.pdf".to_owned(),
            Self::Text => "text.txt".to_owned(),
        }
    }
}

/// Why a file of another type is not accepted.
const UNKNOWN: &str = "the file is no PNG, JPEG, WebP or GIF image, no PDF, and no text in UTF-8";

/// Checks bytes as they arrive: their type from the first ones, and of a text that all are UTF-8 without U+0000.
#[derive(Debug, Clone, Default)]
pub struct TypeCheck {
    kind: Option<AttachmentType>,
    /// The beginning of a character that the bytes so far have cut.
    cut: Vec<u8>,
    is_wrong: bool,
}

impl TypeCheck {
    /// Looks at the next bytes. The first must have at least 16, unless that is all.
    pub fn update(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let kind = *self.kind.get_or_insert_with(|| first(bytes));
        if kind == AttachmentType::Text && !self.is_wrong {
            self.is_wrong = bytes.contains(&0) || !self.is_utf8(bytes);
        }
    }

    fn is_utf8(&mut self, bytes: &[u8]) -> bool {
        let joined;
        let bytes = if self.cut.is_empty() {
            bytes
        } else {
            joined = [self.cut.as_slice(), bytes].concat();
            &joined
        };
        match std::str::from_utf8(bytes) {
            Ok(_) => self.cut.clear(),
            Err(error) if error.error_len().is_none() => self.cut = bytes[error.valid_up_to()..].to_vec(),
            Err(_) => return false,
        }
        true
    }

    /// The type, if it is one that is accepted and that the client has said: `claimed` is a media type.
    pub fn finish(self, claimed: Option<&str>) -> Result<AttachmentType, String> {
        let kind = self.kind.ok_or("the file is empty")?;
        // That a type is never accepted is the better reason.
        let fits = claimed.map_or(Ok(true), |claimed| fits(claimed, kind))?;
        ensure!(!self.is_wrong && self.cut.is_empty(), UNKNOWN.to_owned());
        if fits {
            return Ok(kind);
        }
        let (claimed, found) = (claimed.unwrap_or_default(), kind.media_type());
        Err(format!("`Content-Type` says `{claimed}`, and the bytes are `{found}`: send what the file is"))
    }
}

/// The type that the first bytes say; a text, if nothing else.
fn first(bytes: &[u8]) -> AttachmentType {
    match ImageType::of(bytes) {
        Some(image) => AttachmentType::Image(image),
        None if bytes.starts_with(b"%PDF-") => AttachmentType::Pdf,
        None => AttachmentType::Text,
    }
}

/// Whether a file may be what a client says; an error if that is no type that is accepted.
fn fits(media_type: &str, kind: AttachmentType) -> Result<bool, String> {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = name.starts_with("text/")
        || name.ends_with("+json")
        || name.ends_with("+xml") && !name.starts_with("image/")
        || TEXTS.contains(&name.as_str());
    match name.as_str() {
        "" | "application/octet-stream" | "binary/octet-stream" => Ok(true),
        "image/jpg" => Ok(kind == AttachmentType::Image(ImageType::Jpeg)),
        _ if is_text => Ok(kind == AttachmentType::Text),
        _ => match AttachmentType::of_media_type(&name) {
            Some(claimed) => Ok(claimed == kind),
            None => Err(format!(
                "`{name}` is not accepted: send image/png, image/jpeg, image/webp, image/gif, application/pdf, a text type, or \
                 application/octet-stream, with which the bytes decide"
            )),
        },
    }
}

/// Media types of texts that do not begin with `text/`.
const TEXTS: [&str; 8] = [
    "application/json",
    "application/xml",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/javascript",
    "application/sql",
    "application/x-ndjson",
];

/// Whether a PDF says that its contents are encrypted: in its trailer, or in the stream that takes its place.
pub fn is_encrypted(pdf: &[u8]) -> bool {
    const NAME: &[u8] = b"/Encrypt";
    // A reference or a dictionary follows; `/EncryptMetadata` is another name.
    let is_entry = |at: usize| {
        let value = pdf[at + NAME.len()..].trim_ascii_start();
        value.starts_with(b"<<") || value.first().is_some_and(u8::is_ascii_digit)
    };
    let mut slashes = pdf.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.any(|at| pdf[at..].starts_with(NAME) && is_entry(at))
}

settings! {
    /// How much of the files of a history a model is sent with one request.
    pub struct ContextAttachments {
        /// Files, the newest ones: PDFs and texts. Images count with the other images of the history.
        pub max_files: usize = 4;
        /// Bytes of PDFs together, before they are encoded.
        pub max_bytes: usize = 15_000_000;
        /// Bytes of one text, or of the text of one PDF for a model that takes none.
        pub max_text_bytes: usize = 65_536;
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
pub fn shares(files: &[(AttachmentType, usize)], limits: ContextAttachments) -> Vec<Share> {
    let mut bytes_left = limits.max_bytes;
    let mut shares = vec![Share::Line; files.len()];
    for ((kind, bytes), share) in files.iter().zip(&mut shares).rev().take(limits.max_files) {
        *share = match kind {
            AttachmentType::Pdf if *bytes > bytes_left => Share::AsText,
            AttachmentType::Pdf => {
                bytes_left -= bytes;
                Share::Whole
            }
            AttachmentType::Text | AttachmentType::Image(_) => Share::Whole,
        };
    }
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
pub fn described(id: AttachmentId, name: &str, kind: AttachmentType, bytes: usize, why: &str) -> String {
    let what = match kind {
        AttachmentType::Image(image) => format!("{} image", image.name()),
        AttachmentType::Pdf => "PDF".to_owned(),
        AttachmentType::Text => "text".to_owned(),
    };
    format!("[Here the user has posted a file: {name} ({what}, {bytes} bytes, {id}). {why}]")
}

/// A text of a file between fences that it does not contain, with a line before it.
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
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::id::shard;

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

    #[test]
    fn encrypted_pdfs_are_known_by_their_trailer() {
        for (pdf, expected) in [
            (b"trailer << /Encrypt 5 0 R /Root 1 0 R >>".as_slice(), true),
            (b"<</Type/XRef/Encrypt<</Filter/Standard>>>>", true),
            (b"/Encrypt\n12 0 R", true),
            (b"<< /EncryptMetadata false >>", false),
            (b"(/Encryption is a word)", false),
            (b"/Encrypt", false),
            (b"", false),
        ] {
            assert_eq!(is_encrypted(pdf), expected, "{}", pdf.escape_ascii());
        }
    }

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02";

    fn checked(bytes: &[u8], pieces: usize, claimed: Option<&str>) -> Result<AttachmentType, String> {
        let mut check = TypeCheck::default();
        bytes.chunks(pieces).for_each(|piece| check.update(piece));
        check.finish(claimed)
    }

    #[test]
    fn bytes_decide_and_claims_must_agree() {
        let png = AttachmentType::Image(ImageType::Png);
        let text = "häß ☕".as_bytes();
        for (bytes, claimed, found) in [
            (PNG, Some("image/png"), png),
            (PNG, None, png),
            (PNG, Some("application/octet-stream"), png),
            (b"%PDF-1.7\n...", Some("application/pdf"), AttachmentType::Pdf),
            (text, Some("text/markdown; charset=utf-8"), AttachmentType::Text),
            (text, Some("application/json"), AttachmentType::Text),
            (b"<svg xmlns=''>", Some("text/xml"), AttachmentType::Text),
        ] {
            assert_eq!(checked(bytes, 4096, claimed), Ok(found), "{claimed:?}");
        }
        for (bytes, claimed) in [
            (PNG, "image/jpeg"),
            (PNG, "text/plain"),
            (b"%PDF-1.7".as_slice(), "image/png"),
            (text, "application/pdf"),
        ] {
            let error = checked(bytes, 4096, Some(claimed)).unwrap_err();
            assert!(error.starts_with("`Content-Type` says"), "{error}");
        }
        for claimed in ["image/svg+xml", "application/zip", "video/mp4"] {
            let error = checked(text, 4096, Some(claimed)).unwrap_err();
            assert!(error.starts_with(&format!("`{claimed}` is not accepted")), "{error}");
        }
        assert_eq!(checked(b"", 1, None), Err("the file is empty".to_owned()));
        for bad in [b"MZ\x90\0\x03".as_slice(), b"caf\xe9", b"half \xe2\x98"] {
            assert_eq!(checked(bad, 4096, None), Err(UNKNOWN.to_owned()), "{bad:?}");
        }
    }

    #[test]
    fn texts_may_be_cut_in_the_middle_of_characters() {
        for pieces in 1..9 {
            assert_eq!(checked("aß☕🦀 end".as_bytes(), pieces, None), Ok(AttachmentType::Text), "{pieces}");
            assert_eq!(checked(b"a\xe2\x98x", pieces, None), Err(UNKNOWN.to_owned()), "{pieces}");
        }
    }

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

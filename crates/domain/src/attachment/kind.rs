//! What a file is, by its bytes; and whether that is what the client said.

use crate::image::ImageType;

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
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Image(kind) => kind.media_type(),
            Self::Pdf => "application/pdf",
            Self::Text => "text/plain",
        }
    }

    /// The type that is stored with this media type.
    #[must_use]
    pub fn of_media_type(name: &str) -> Option<Self> {
        match name {
            "application/pdf" => Some(Self::Pdf),
            "text/plain" => Some(Self::Text),
            other => ImageType::of_media_type(other).map(Self::Image),
        }
    }

    /// The name of a file without one.
    #[must_use]
    pub fn default_name(self) -> String {
        match self {
            Self::Image(kind) => format!("image.{}", kind.name().to_lowercase()),
            Self::Pdf => "document.pdf".to_owned(),
            Self::Text => "text.txt".to_owned(),
        }
    }
}

/// Why a file is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongType {
    /// There are no bytes.
    #[error("the file is empty")]
    Empty,
    /// No type that is accepted.
    #[error("the file is no PNG, JPEG, WebP or GIF image, no PDF, and no text in UTF-8")]
    Unknown,
    /// The bytes are something else than the client says.
    #[error("`Content-Type` says `{claimed}`, and the bytes are `{found}`: send what the file is")]
    Other {
        /// What the client says.
        claimed: String,
        /// What the bytes say.
        found: &'static str,
    },
    /// The client says a type that is not accepted.
    #[error(
        "`{0}` is not accepted: send image/png, image/jpeg, image/webp, image/gif, application/pdf, a text type, or \
         application/octet-stream, with which the bytes decide"
    )]
    Refused(String),
}

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
    ///
    /// # Errors
    /// [`WrongType`].
    pub fn finish(self, claimed: Option<&str>) -> Result<AttachmentType, WrongType> {
        let kind = self.kind.ok_or(WrongType::Empty)?;
        let claim = claimed.map_or(Claim::Any, Claim::of);
        if self.is_wrong || !self.cut.is_empty() {
            // A type that is never accepted is the better reason.
            return Err(match claim {
                Claim::Refused(name) => WrongType::Refused(name),
                _ => WrongType::Unknown,
            });
        }
        let fits = match &claim {
            Claim::Any => true,
            Claim::Text => kind == AttachmentType::Text,
            Claim::Type(claimed) => *claimed == kind,
            Claim::Refused(name) => return Err(WrongType::Refused(name.clone())),
        };
        if fits {
            return Ok(kind);
        }
        let claimed = claimed.unwrap_or_default().to_owned();
        Err(WrongType::Other { claimed, found: kind.media_type() })
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

/// What a client says of a file.
enum Claim {
    /// Nothing.
    Any,
    /// Some text.
    Text,
    Type(AttachmentType),
    Refused(String),
}

impl Claim {
    fn of(media_type: &str) -> Self {
        let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_text = name.starts_with("text/")
            || name.ends_with("+json")
            || name.ends_with("+xml") && !name.starts_with("image/")
            || TEXTS.contains(&name.as_str());
        match name.as_str() {
            "" | "application/octet-stream" | "binary/octet-stream" => Self::Any,
            "image/jpg" => Self::Type(AttachmentType::Image(ImageType::Jpeg)),
            _ if is_text => Self::Text,
            _ => AttachmentType::of_media_type(&name).map_or(Self::Refused(name), Self::Type),
        }
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
#[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;

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

    fn checked(bytes: &[u8], pieces: usize, claimed: Option<&str>) -> Result<AttachmentType, WrongType> {
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
            assert!(matches!(checked(bytes, 4096, Some(claimed)), Err(WrongType::Other { .. })), "{claimed}");
        }
        for claimed in ["image/svg+xml", "application/zip", "video/mp4"] {
            assert!(matches!(checked(text, 4096, Some(claimed)), Err(WrongType::Refused(_))), "{claimed}");
        }
        assert_eq!(checked(b"", 1, None), Err(WrongType::Empty));
        for bad in [b"MZ\x90\0\x03".as_slice(), b"caf\xe9", b"half \xe2\x98"] {
            assert_eq!(checked(bad, 4096, None), Err(WrongType::Unknown), "{bad:?}");
        }
    }

    #[test]
    fn texts_may_be_cut_in_the_middle_of_characters() {
        for pieces in 1..9 {
            assert_eq!(checked("aß☕🦀 end".as_bytes(), pieces, None), Ok(AttachmentType::Text), "{pieces}");
            assert_eq!(checked(b"a\xe2\x98x", pieces, None), Err(WrongType::Unknown), "{pieces}");
        }
    }
}

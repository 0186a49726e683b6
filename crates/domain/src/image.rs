//! Images that users post with messages: what is accepted, how a text refers to one, and which of them a model is sent.
//!
//! The bytes of an image are stored once, in a row of their own. The text of a message refers to it by a line of Markdown,
//! so whatever has the text (history, streams, exports, summaries) has the reference and not the bytes:
//!
//! ```text
//! What is this?
//!
//! ![image](/v1/images/image_0190…)
//! ```
//!
//! Such a line may also be typed: it names an image that the user has posted before. A run looks up images of its own user
//! only.

mod header;
mod sent;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::id::{ImageId, UserId, shard};

pub use self::sent::{ContextImages, is_sent};

/// Bytes of an image at most: every provider takes the 5 MB that it has in Base64.
pub const MAX_IMAGE_BYTES: usize = 3_750_000;
/// Pixels of the longer side at most: what every provider takes.
pub const MAX_IMAGE_SIDE: u32 = 8_000;

/// References of one text that are followed, the last ones: those of posted images are at the end, and more can only be typed.
pub const MAX_REFERENCES: usize = 20;

/// The start of a reference, up to the id.
const REFERENCE: &str = "![image](/v1/images/";

/// What an image is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageType {
    /// `image/png`.
    Png,
    /// `image/jpeg`.
    Jpeg,
    /// `image/gif`.
    Gif,
    /// `image/webp`.
    Webp,
}

impl ImageType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// The type that the first bytes say.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        header::type_of(bytes)
    }

    /// The media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// The type with this media type.
    #[must_use]
    pub fn of_media_type(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.media_type() == name)
    }

    /// The name for people and models.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
            Self::Webp => "WebP",
        }
    }
}

/// Type and size of an image, read from its header: nothing is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageHeader {
    /// Its type.
    pub image_type: ImageType,
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

/// Why bytes are not accepted as an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// There are no bytes.
    #[error("it is empty")]
    Empty,
    /// Too many bytes.
    #[error("it has {bytes} bytes; at most {MAX_IMAGE_BYTES} are allowed: send a smaller version")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// It is no Base64.
    #[error(
        "it is no Base64: send the bytes of the image in Base64, with or without `data:image/png;base64,` before them"
    )]
    NotBase64,
    /// No type that models see.
    #[error("it is no PNG, JPEG, WebP or GIF image")]
    UnknownType,
    /// The header does not say how large the image is.
    #[error("its {} header is damaged: it does not say how large the image is", .0.name())]
    Damaged(ImageType),
    /// Its end is missing.
    #[error("it is a {} image that is cut off: its end is missing; send the whole file", .0.name())]
    CutOff(ImageType),
    /// Too many pixels.
    #[error(
        "it has {width} x {height} pixels; at most {MAX_IMAGE_SIDE} on a side are allowed: send a smaller version"
    )]
    TooManyPixels {
        /// Pixels.
        width: u32,
        /// Pixels.
        height: u32,
    },
}

impl ImageHeader {
    /// As [`Self::read`], of an image whose end is there.
    ///
    /// # Errors
    /// As [`Self::read`], and [`ImageError::CutOff`].
    pub fn read_whole(bytes: &[u8]) -> Result<Self, ImageError> {
        let header = Self::read(bytes)?;
        if header::is_cut_off(header.image_type, bytes) {
            return Err(ImageError::CutOff(header.image_type));
        }
        Ok(header)
    }

    /// The header of an image within the limits. The type is what the bytes say.
    ///
    /// # Errors
    /// [`ImageError`] when it is none, or too large.
    pub fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        if bytes.is_empty() {
            return Err(ImageError::Empty);
        }
        if bytes.len() > MAX_IMAGE_BYTES {
            return Err(ImageError::TooLarge { bytes: bytes.len() });
        }
        let image_type = ImageType::of(bytes).ok_or(ImageError::UnknownType)?;
        let (width, height) = header::size_of(image_type, bytes)
            .filter(|(width, height)| *width > 0 && *height > 0)
            .ok_or(ImageError::Damaged(image_type))?;
        if width.max(height) > MAX_IMAGE_SIDE {
            return Err(ImageError::TooManyPixels { width, height });
        }
        Ok(Self { image_type, width, height })
    }
}

impl ImageId {
    /// The id of an image of a user: the same bytes have the same id, so that they are stored once for each user.
    #[must_use]
    pub fn of(user: UserId, bytes: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(user.0).chain_update(bytes).finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        let id = uuid::Builder::from_custom_bytes(id).into_uuid();
        Self(shard(user).mark(id))
    }

    /// The line by which a text refers to it.
    #[must_use]
    pub fn reference(self) -> String {
        format!("{REFERENCE}{self})")
    }
}

/// Bytes in Base64.
#[must_use]
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of an image in Base64, as they are or in a `data:` URL.
///
/// # Errors
/// [`ImageError::NotBase64`], or [`ImageError::TooLarge`] before anything is decoded.
pub fn from_base64(text: &str) -> Result<Vec<u8>, ImageError> {
    let text = match text.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,").ok_or(ImageError::NotBase64)?.1,
        None => text,
    };
    let bytes = text.len() / 4 * 3;
    if bytes > MAX_IMAGE_BYTES + 3 {
        return Err(ImageError::TooLarge { bytes });
    }
    STANDARD.decode(text.trim()).map_err(|_| ImageError::NotBase64)
}

/// The images that a text refers to, in order. Most texts refer to none.
pub fn references(text: &str) -> impl Iterator<Item = ImageId> {
    text.match_indices(REFERENCE).filter_map(|(at, start)| {
        let rest = text.get(at + start.len()..)?;
        rest.split_once(')')?.0.parse().ok()
    })
}

/// A text with references to images at its end.
#[must_use]
pub fn with_references(text: &str, images: impl IntoIterator<Item = ImageId>) -> String {
    let mut whole = text.to_owned();
    for image in images {
        if !whole.is_empty() {
            whole.push_str("\n\n");
        }
        whole += &image.reference();
    }
    whole
}

/// An image as a request to a model has it.
#[derive(Clone, PartialEq, Eq)]
pub struct SentImage {
    /// The id by which texts refer to it.
    pub id: ImageId,
    /// Type and size.
    pub header: ImageHeader,
    /// Its bytes, in Base64.
    pub base64: Arc<str>,
    /// What a model reads that cannot see it.
    pub unseen: String,
}

impl SentImage {
    /// An image with these bytes.
    #[must_use]
    pub fn new(id: ImageId, header: ImageHeader, bytes: &[u8]) -> Self {
        Self { id, header, base64: to_base64(bytes).into(), unseen: unseen(id, header) }
    }

    /// Tokens that it costs a model, estimated: providers scale images down to about 5,000 at most.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let pixels = u64::from(self.header.width) * u64::from(self.header.height);
        (pixels / PIXELS_PER_TOKEN).clamp(MIN_TOKENS, MAX_TOKENS)
    }
}

/// What a model that cannot see reads in the place of an image.
#[must_use]
pub fn unseen(id: ImageId, header: ImageHeader) -> String {
    let ImageHeader { image_type, width, height } = header;
    let name = image_type.name();
    format!(
        "[Here the user has posted an image that you cannot see: {id}, {name}, {width} x {height} pixels. A tool that \
         answers questions about images takes this id.]"
    )
}

/// How Anthropic counts; the others count less.
const PIXELS_PER_TOKEN: u64 = 750;
/// What the smallest image costs with the provider that counts the most for it.
const MIN_TOKENS: u64 = 260;
/// More than any provider counts for an image of the largest size it takes.
pub const MAX_TOKENS: u64 = 5_000;

/// Without the bytes.
impl fmt::Debug for SentImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentImage")
            .field("id", &self.id)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn equal_bytes_of_a_user_have_one_id_in_the_users_shard() {
        let [ada, bob] = [7, 8].map(|id| UserId(Uuid::from_u128(id)));
        let id = ImageId::of(ada, b"bytes");
        assert_eq!(id, ImageId::of(ada, b"bytes"));
        assert_eq!(shard(id), shard(ada));
        assert_ne!(id, ImageId::of(bob, b"bytes"));
        assert_ne!(id, ImageId::of(ada, b"other"));
    }

    #[test]
    fn base64_is_read_with_and_without_a_data_url() {
        for text in ["R0lGODlh", "data:image/gif;base64,R0lGODlh", "data:text/html;base64,R0lGODlh\n"] {
            assert_eq!(from_base64(text), Ok(b"GIF89a".to_vec()));
        }
        for wrong in ["data:image/gif,GIF89a", "R0lG ODlh", "/etc/passwd."] {
            assert_eq!(from_base64(wrong), Err(ImageError::NotBase64));
        }
        let long = "A".repeat(MAX_IMAGE_BYTES / 3 * 4 + 8);
        assert!(matches!(from_base64(&long), Err(ImageError::TooLarge { .. })));
    }

    #[test]
    fn debug_output_has_no_bytes() {
        let header = ImageHeader { image_type: ImageType::Png, width: 1, height: 1 };
        let image = SentImage::new(ImageId(Uuid::nil()), header, &[7; 90]);
        assert!(!format!("{image:?}").contains(&*image.base64));
    }

    proptest! {
        #[test]
        fn references_are_read_back_whatever_surrounds_them(
            text in "(\\PC|!\\[image\\]\\(/v1/images/|image_|\\)|\n){0,30}", ids in proptest::collection::vec(any::<u128>(), 0..4)
        ) {
            let ids: Vec<ImageId> = ids.into_iter().map(|id| ImageId(Uuid::from_u128(id))).collect();
            let whole = with_references(&text, ids.iter().copied());
            let found: Vec<ImageId> = references(&whole).collect();
            prop_assert!(found.ends_with(&ids), "{:?} in {}", found, whole);
            prop_assert_eq!(found.len(), ids.len() + references(&text).count());
        }
    }
}

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

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::id::{ImageId, UserId, shard};

/// Bytes of an image at most: every provider takes the 5 MB that it has in Base64.
pub const MAX_IMAGE_BYTES: usize = 3_750_000;

/// Pixels of the longer side at most: what every provider takes.
pub const MAX_IMAGE_SIDE: u32 = 8_000;

/// References of one text that are followed, the last ones: those of posted images are at the end, and more can only be typed.
pub const MAX_REFERENCES: usize = 20;

/// The start of a reference, up to the id.
const REFERENCE: &str = "![image](/v1/images/";

names! {
    /// What an image is, by its first bytes; its name is the media type with which it is stored and sent.
    #[derive(PartialOrd, Ord)]
    pub enum ImageType {
        /// A PNG.
        Png = "image/png",
        /// A JPEG.
        Jpeg = "image/jpeg",
        /// A GIF.
        Gif = "image/gif",
        /// A WebP.
        Webp = "image/webp",
    }
}

impl ImageType {
    /// The type that the first bytes say.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Self::Png,
            [0xff, 0xd8, 0xff, ..] => Self::Jpeg,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Self::Gif,
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Webp,
            _ => return None,
        })
    }

    /// The name for people and models.
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

impl ImageHeader {
    /// As [`Self::read`], of an image whose end is there.
    pub fn read_whole(bytes: &[u8]) -> Result<Self, String> {
        let header = Self::read(bytes)?;
        header.cut_off(bytes).map_or(Ok(header), Err)
    }

    /// What is wrong with an image of these bytes whose end is missing; `None`: it is there.
    pub fn cut_off(self, bytes: &[u8]) -> Option<String> {
        let name = self.image_type.name();
        is_cut_off(self.image_type, bytes)
            .then(|| format!("it is a {name} image that is cut off: its end is missing; send the whole file"))
    }

    /// The header of an image within the limits. The type is what the bytes say. The error says why it is none, or too large.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        ensure!(!bytes.is_empty(), "it is empty");
        ensure!(bytes.len() <= MAX_IMAGE_BYTES, too_large(bytes.len()));
        let image_type = ImageType::of(bytes).ok_or("it is no PNG, JPEG, WebP or GIF image")?;
        let (width, height) = size_of(image_type, bytes)
            .filter(|(width, height)| *width > 0 && *height > 0)
            .ok_or_else(|| {
                format!("its {} header is damaged: it does not say how large the image is", image_type.name())
            })?;
        ensure!(
            width.max(height) <= MAX_IMAGE_SIDE,
            "it has {width} x {height} pixels; at most {MAX_IMAGE_SIDE} on a side are allowed: send a smaller version"
        );
        Ok(Self { image_type, width, height })
    }
}

/// The id of the bytes of a user with this hash.
pub(crate) fn id_of(user: UserId, hash: Sha256) -> Uuid {
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    shard(user).mark(uuid::Builder::from_custom_bytes(id).into_uuid())
}

impl ImageId {
    /// The id of an image of a user: the same bytes have the same id, so that they are stored once for each user.
    pub fn of(user: UserId, bytes: &[u8]) -> Self {
        Self(id_of(user, Sha256::new().chain_update(user.0).chain_update(bytes)))
    }

    /// The line by which a text refers to it.
    pub fn reference(self) -> String {
        format!("{REFERENCE}{self})")
    }
}

/// Bytes in Base64.
pub fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of an image in Base64, as they are or in a `data:` URL. What is too large is not decoded.
pub fn from_base64(text: &str) -> Result<Vec<u8>, String> {
    const NOT_BASE64: &str = "it is no Base64: send the bytes of the image in Base64, with or without `data:image/png;base64,` before them";
    let text = match text.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,").ok_or(NOT_BASE64)?.1,
        None => text,
    };
    let bytes = text.len() / 4 * 3;
    ensure!(bytes <= MAX_IMAGE_BYTES + 3, too_large(bytes));
    STANDARD.decode(text.trim()).map_err(|_| NOT_BASE64.to_owned())
}

fn too_large(bytes: usize) -> String {
    format!("it has {bytes} bytes; at most {MAX_IMAGE_BYTES} are allowed: send a smaller version")
}

/// The images that a text refers to, in order. Most texts refer to none.
pub fn references(text: &str) -> impl Iterator<Item = ImageId> {
    referenced(text, REFERENCE)
}

/// The ids in a text after `before`, each up to a closing bracket.
pub(crate) fn referenced<Id: FromStr>(text: &str, before: &'static str) -> impl Iterator<Item = Id> {
    text.split(before).skip(1).filter_map(|rest| rest.split_once(')')?.0.parse().ok())
}

/// A text with references to images at its end.
pub fn with_references(text: &str, images: impl IntoIterator<Item = ImageId>) -> String {
    with_lines(text, images.into_iter().map(ImageId::reference))
}

/// A text with lines at its end, each a paragraph.
pub fn with_lines(text: &str, lines: impl IntoIterator<Item = String>) -> String {
    let text = Some(text.to_owned()).filter(|text| !text.is_empty());
    text.into_iter().chain(lines).collect::<Vec<_>>().join("\n\n")
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
    pub fn new(id: ImageId, header: ImageHeader, bytes: &[u8]) -> Self {
        Self { id, header, base64: to_base64(bytes).into(), unseen: unseen(id, header) }
    }

    /// Tokens that it costs a model, estimated: providers scale images down to about 5,000 at most.
    pub fn tokens(&self) -> u64 {
        let pixels = u64::from(self.header.width) * u64::from(self.header.height);
        (pixels / PIXELS_PER_TOKEN).clamp(MIN_TOKENS, MAX_TOKENS)
    }
}

/// What a model that cannot see reads in the place of an image.
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

settings! {
    /// How many images of a history a model is sent with one request.
    pub struct ContextImages {
        /// The newest ones, at most this many.
        pub max_images: usize = 8;
        /// Bytes of them together, before they are encoded.
        pub max_bytes: usize = 15_000_000;
    }
}

/// For each image of a history, the oldest first, whether a model is sent it. `bytes` are their lengths.
///
/// The newest are sent. Once there are more than allowed, half of what is allowed goes at once: what a request begins with
/// then stays the same for as many further images, and the provider's cache holds. The newest that fits alone is always sent.
pub fn is_sent(bytes: &[usize], limits: ContextImages) -> Vec<bool> {
    let step = (limits.max_images / 2).max(1);
    let beyond = bytes.len().saturating_sub(limits.max_images);
    let mut first = (beyond.div_ceil(step) * step).min(bytes.len());
    if limits.max_images == 0 {
        first = bytes.len();
    }
    while bytes[first..].iter().sum::<usize>() > limits.max_bytes {
        first += if first + step < bytes.len() { step } else { 1 };
    }
    (0..bytes.len()).map(|nth| nth >= first).collect()
}

/// Width and height in pixels.
fn size_of(image_type: ImageType, bytes: &[u8]) -> Option<(u32, u32)> {
    match image_type {
        ImageType::Png => {
            (bytes.get(12..16)? == b"IHDR").then_some(())?;
            Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?))
        }
        ImageType::Gif => Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?)),
        ImageType::Jpeg => jpeg(bytes),
        ImageType::Webp => webp(bytes),
    }
}

/// Whether the end of the image is missing. Nothing is decoded; of a GIF nothing is said.
fn is_cut_off(image_type: ImageType, bytes: &[u8]) -> bool {
    match image_type {
        ImageType::Png => !png_ends(bytes),
        ImageType::Jpeg => !bytes.windows(2).any(|pair| pair == [0xff, 0xd9]),
        ImageType::Webp => little(bytes, 4, 4).is_none_or(|size| bytes.len() < size as usize + 8),
        ImageType::Gif => false,
    }
}

/// Whether the last chunk is there: each says how long it is.
fn png_ends(bytes: &[u8]) -> bool {
    let mut at = 8_usize;
    loop {
        let (Some(length), Some(name)) = (big(bytes, at, 4), bytes.get(at + 4..at + 8)) else { return false };
        let Some(next) =
            usize::try_from(length).ok().and_then(|length| at.checked_add(length)?.checked_add(12))
        else {
            return false;
        };
        if next > bytes.len() {
            return false;
        }
        if name == b"IEND" {
            return true;
        }
        at = next;
    }
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at.checked_add(count)?)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// The size is in the first segment that begins a frame. Segments before it are skipped by their lengths.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        // A marker may be preceded by any number of fill bytes.
        while *bytes.get(at)? == 0xff && *bytes.get(at + 1)? == 0xff {
            at += 1;
        }
        (*bytes.get(at)? == 0xff).then_some(())?;
        match *bytes.get(at + 1)? {
            // Tables, which have the numbers of frames but are none.
            0xc4 | 0xc8 | 0xcc => {}
            0xc0..=0xcf => return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?)),
            // Without a length.
            0x01 | 0xd0..=0xd7 => {
                at += 2;
                continue;
            }
            // The image data, or its end: no frame came before.
            0xd8..=0xda => return None,
            _ => {}
        }
        let length = usize::try_from(big(bytes, at + 2, 2)?).ok()?;
        (length >= 2).then_some(())?;
        at += 2 + length;
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8 " => {
            (bytes.get(23..26)? == [0x9d, 0x01, 0x2a]).then_some(())?;
            Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff))
        }
        b"VP8L" => {
            (*bytes.get(20)? == 0x2f).then_some(())?;
            let both = little(bytes, 21, 4)?;
            Some(((both & 0x3fff) + 1, (both >> 14 & 0x3fff) + 1))
        }
        _ => None,
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
            assert!(from_base64(wrong).unwrap_err().starts_with("it is no Base64"));
        }
        let long = "A".repeat(MAX_IMAGE_BYTES / 3 * 4 + 8);
        assert!(from_base64(&long).unwrap_err().contains("bytes; at most 3750000"));
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

    fn first(bytes: &[usize], limits: ContextImages) -> usize {
        is_sent(bytes, limits).iter().position(|sent| *sent).unwrap_or(bytes.len())
    }

    #[test]
    fn old_images_go_by_half_of_the_limit() {
        let limits = ContextImages { max_images: 8, max_bytes: 100 };
        let firsts: Vec<usize> = (0..=17).map(|count| first(&vec![1; count], limits)).collect();
        assert_eq!(firsts, [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12]);
        assert_eq!(first(&[60, 60], limits), 1, "too few for a step of four");
        assert_eq!(first(&[60, 1, 1, 1, 60], limits), 4);
    }

    proptest! {
        #[test]
        fn the_newest_are_sent_within_the_limits(
            bytes in proptest::collection::vec(0_usize..50, 0..40), max_images in 0_usize..10, max_bytes in 0_usize..200
        ) {
            let limits = ContextImages { max_images, max_bytes };
            let sent = is_sent(&bytes, limits);
            prop_assert_eq!(sent.len(), bytes.len());
            prop_assert!(sent.is_sorted(), "the newest, without gaps");
            prop_assert!(sent.iter().filter(|sent| **sent).count() <= max_images);
            let sum: usize = bytes.iter().zip(&sent).filter(|(_, sent)| **sent).map(|(bytes, _)| bytes).sum();
            prop_assert!(sum <= max_bytes);
            let newest_fits = max_images > 0 && bytes.last().is_some_and(|bytes| *bytes <= max_bytes);
            prop_assert_eq!(sent.last().copied().unwrap_or(false), newest_fits);
        }
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0]);
        bytes
    }

    #[test]
    fn type_and_size_are_what_the_bytes_say() {
        // As ImageMagick writes the first bytes of an image of 300 x 200 pixels.
        let gif = b"GIF89a\x2c\x01\xc8\x00".to_vec();
        let jpeg =
            b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xdb\x00\x03\0\xff\xc4\x00\x02\
                     \xff\xff\xc2\x00\x11\x08\x00\xc8\x01\x2c\x03"
                .to_vec();
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\x10\x02\0\x9d\x01\x2a\x2c\x01\xc8\x00".to_vec();
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x2b\xc1\x31\x00".to_vec();
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x2b\x01\0\xc7\0\0".to_vec();
        for (bytes, expected) in [
            (png(300, 200), ImageType::Png),
            (gif, ImageType::Gif),
            (jpeg, ImageType::Jpeg),
            (lossy, ImageType::Webp),
            (lossless, ImageType::Webp),
            (extended, ImageType::Webp),
        ] {
            let read = ImageHeader::read(&bytes);
            assert_eq!(read, Ok(ImageHeader { image_type: expected, width: 300, height: 200 }), "{bytes:?}");
            for cut in 0..bytes.len().min(24) {
                assert!(ImageHeader::read(&bytes[..cut]).is_err(), "{expected:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn images_without_an_end_are_refused() {
        let mut whole = png(300, 200);
        whole.extend(b"CRC!\0\0\0\x03IDATabcCRC!\0\0\0\0IENDCRC!");
        assert!(ImageHeader::read_whole(&whole).is_ok());
        for cut in 29..whole.len() {
            let refused = ImageHeader::read_whole(&whole[..cut]).unwrap_err();
            assert!(refused.starts_with("it is a PNG image that is cut off"), "cut at {cut}");
        }
        whole.extend(b"more");
        assert!(ImageHeader::read_whole(&whole).is_ok(), "what follows the end is nobody's business");
        let jpeg = b"\xff\xd8\xff\xc0\x00\x11\x08\x00\xc8\x01\x2c\x03 data \xff\xd9";
        assert!(ImageHeader::read_whole(jpeg).is_ok());
        let cut = ImageHeader::read_whole(&jpeg[..jpeg.len() - 1]).unwrap_err();
        assert!(cut.starts_with("it is a JPEG image that is cut off"), "{cut}");
        let webp = b"RIFF\x11\0\0\0WEBPVP8L\0\0\0\0\x2f\x2b\xc1\x31\x00";
        assert!(ImageHeader::read_whole(webp).is_ok());
        let longer = b"RIFF\x12\0\0\0WEBPVP8L\0\0\0\0\x2f\x2b\xc1\x31\x00";
        let cut = ImageHeader::read_whole(longer).unwrap_err();
        assert!(cut.starts_with("it is a WebP image that is cut off"), "{cut}");
    }

    #[test]
    fn other_types_and_large_images_are_refused() {
        for other in [b"<svg xmlns=''>".as_slice(), b"RIFF\0\0\0\0WAVE", b"%PDF-1.7", b"BM\0\0"] {
            assert_eq!(ImageHeader::read(other).unwrap_err(), "it is no PNG, JPEG, WebP or GIF image");
        }
        assert_eq!(ImageHeader::read(b"").unwrap_err(), "it is empty");
        let many = ImageHeader::read(&png(8_001, 1)).unwrap_err().to_string();
        assert!(many.contains("8001 x 1 pixels; at most 8000"), "{many}");
        assert!(ImageHeader::read(&png(0, 4)).unwrap_err().starts_with("its PNG header is damaged"));
        let mut long = png(1, 1);
        long.resize(MAX_IMAGE_BYTES + 1, 0);
        assert!(ImageHeader::read(&long).unwrap_err().starts_with("it has 3750001 bytes; at most"));
    }

    proptest! {
        /// No header makes the reader panic or go on without end.
        #[test]
        fn any_bytes_are_read(kind in 0_usize..4, rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let start: &[u8] = [b"\x89PNG\r\n\x1a\n".as_slice(), b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBP"][kind];
            if let Ok(read) = ImageHeader::read(&[start, &rest].concat()) {
                prop_assert!(read.width.max(read.height) <= crate::image::MAX_IMAGE_SIDE);
                let _ = ImageHeader::read_whole(&[start, &rest].concat());
            }
        }
    }
}

//! Type and size of an image, from its first bytes.

use super::ImageType;

/// The type that the first bytes say.
pub(super) fn type_of(bytes: &[u8]) -> Option<ImageType> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => ImageType::Png,
        [0xff, 0xd8, 0xff, ..] => ImageType::Jpeg,
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => ImageType::Gif,
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ImageType::Webp,
        _ => return None,
    })
}

/// Width and height in pixels.
pub(super) fn size_of(image_type: ImageType, bytes: &[u8]) -> Option<(u32, u32)> {
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
pub(super) fn is_cut_off(image_type: ImageType, bytes: &[u8]) -> bool {
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

    use super::*;
    use crate::image::{ImageError, ImageHeader, MAX_IMAGE_BYTES};

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
            let refused = ImageHeader::read_whole(&whole[..cut]);
            assert_eq!(refused, Err(ImageError::CutOff(ImageType::Png)), "cut at {cut}");
        }
        whole.extend(b"more");
        assert!(ImageHeader::read_whole(&whole).is_ok(), "what follows the end is nobody's business");
        let jpeg = b"\xff\xd8\xff\xc0\x00\x11\x08\x00\xc8\x01\x2c\x03 data \xff\xd9";
        assert!(ImageHeader::read_whole(jpeg).is_ok());
        let cut = ImageHeader::read_whole(&jpeg[..jpeg.len() - 1]);
        assert_eq!(cut, Err(ImageError::CutOff(ImageType::Jpeg)));
        let webp = b"RIFF\x11\0\0\0WEBPVP8L\0\0\0\0\x2f\x2b\xc1\x31\x00";
        assert!(ImageHeader::read_whole(webp).is_ok());
        let longer = b"RIFF\x12\0\0\0WEBPVP8L\0\0\0\0\x2f\x2b\xc1\x31\x00";
        assert_eq!(ImageHeader::read_whole(longer), Err(ImageError::CutOff(ImageType::Webp)));
    }

    #[test]
    fn other_types_and_large_images_are_refused() {
        for other in [b"<svg xmlns=''>".as_slice(), b"RIFF\0\0\0\0WAVE", b"%PDF-1.7", b"BM\0\0"] {
            assert_eq!(ImageHeader::read(other), Err(ImageError::UnknownType));
        }
        assert_eq!(ImageHeader::read(b""), Err(ImageError::Empty));
        let many = ImageHeader::read(&png(8_001, 1)).unwrap_err().to_string();
        assert!(many.contains("8001 x 1 pixels; at most 8000"), "{many}");
        assert!(matches!(ImageHeader::read(&png(0, 4)), Err(ImageError::Damaged(ImageType::Png))));
        let mut long = png(1, 1);
        long.resize(MAX_IMAGE_BYTES + 1, 0);
        assert!(matches!(ImageHeader::read(&long), Err(ImageError::TooLarge { .. })));
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

//! Decompression that stops at a limit: of a bomb, no more than the limit is ever in memory.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::GzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// Decodes the body of an answer, up to a limit.
pub(crate) enum Decoder {
    Plain(Sink),
    Gzip(Box<GzDecoder<Sink>>),
}

/// The compressed bytes make no sense.
pub(crate) struct BadGzip;

impl Decoder {
    /// The decoder for an answer.
    ///
    /// # Errors
    /// The content encoding, if it is not gzip.
    pub(crate) fn of(headers: &HeaderMap, most: usize) -> Result<Self, String> {
        let sink = Sink { bytes: Vec::new(), left: most, is_full: false };
        let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
        let encoding = match (encodings.next(), encodings.next()) {
            (None, _) => return Ok(Self::Plain(sink)),
            (Some(encoding), None) => {
                String::from_utf8_lossy(encoding.as_bytes()).trim().to_ascii_lowercase()
            }
            (Some(_), Some(_)) => "several encodings".to_owned(),
        };
        match encoding.as_str() {
            "" | "identity" => Ok(Self::Plain(sink)),
            "gzip" | "x-gzip" => Ok(Self::Gzip(Box::new(GzDecoder::new(sink)))),
            _ => Err(encoding.chars().take(40).collect()),
        }
    }

    /// Decodes a piece. The rest of a body beyond the limit is not decoded: see [`Decoder::is_full`].
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<Bytes, BadGzip> {
        let done = match self {
            Self::Plain(sink) => sink.write_all(piece),
            Self::Gzip(decoder) => inflate(decoder, piece),
        };
        self.take(done)
    }

    /// Decodes what is left at the end of a body.
    pub(crate) fn finish(&mut self) -> Result<Bytes, BadGzip> {
        let done = match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
        };
        self.take(done)
    }

    fn take(&mut self, done: io::Result<()>) -> Result<Bytes, BadGzip> {
        let sink = self.sink();
        if done.is_err() && !sink.is_full {
            return Err(BadGzip);
        }
        Ok(Bytes::from(std::mem::take(&mut sink.bytes)))
    }

    /// Whether the body is longer than the limit, or goes on after the end of the gzip stream.
    pub(crate) fn is_full(&mut self) -> bool {
        self.sink().is_full
    }

    fn sink(&mut self) -> &mut Sink {
        match self {
            Self::Plain(sink) => sink,
            Self::Gzip(decoder) => decoder.get_mut(),
        }
    }
}

/// Only the first of several gzip streams is read: each costs time, and a body of empty ones gives nothing.
fn inflate(decoder: &mut GzDecoder<Sink>, mut piece: &[u8]) -> io::Result<()> {
    while !piece.is_empty() {
        let taken = decoder.write(piece)?;
        if taken == 0 {
            decoder.get_mut().is_full = true;
            break;
        }
        piece = &piece[taken..];
    }
    decoder.flush()
}

/// Takes bytes up to a limit; an error beyond it stops the decompression.
pub(crate) struct Sink {
    bytes: Vec<u8>,
    left: usize,
    is_full: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.left -= taken;
        if taken < bytes.len() {
            self.is_full = true;
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::Decoder;

    fn headers(encoding: &str) -> HeaderMap {
        [(http::header::CONTENT_ENCODING, encoding.parse().unwrap())].into_iter().collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// What a decoder makes of pieces, and whether it is full; `None` if they are not gzip.
    fn decoded(mut decoder: Decoder, pieces: &[&[u8]]) -> Option<(Vec<u8>, bool)> {
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(&decoder.push(piece).ok()?);
            if decoder.is_full() {
                return Some((all, true));
            }
        }
        all.extend_from_slice(&decoder.finish().ok()?);
        Some((all, decoder.is_full()))
    }

    #[test]
    fn a_bomb_is_decoded_up_to_the_limit() {
        let once = gzip(&vec![0; 50 << 20]);
        assert!(once.len() < 100 << 10);
        let (bytes, is_full) = decoded(Decoder::of(&headers("gzip"), 1000).ok().unwrap(), &[&once]).unwrap();
        assert_eq!((bytes.len(), is_full), (1000, true));
    }

    #[test]
    fn incomplete_or_wrong_gzip_is_an_error() {
        let whole = gzip(b"hello hello hello");
        for wrong in [&whole[..whole.len() - 1], &whole[..4], b"hello"] {
            assert_eq!(decoded(Decoder::of(&headers("gzip"), 1000).ok().unwrap(), &[wrong]), None);
        }
    }

    #[test]
    fn what_follows_a_gzip_stream_is_not_read() {
        let whole = gzip(b"hello hello hello");
        for more in [b"x".as_slice(), &whole] {
            let decoder = Decoder::of(&headers("gzip"), 1000).ok().unwrap();
            let (bytes, is_full) = decoded(decoder, &[&[whole.as_slice(), more].concat()]).unwrap();
            assert_eq!((&bytes[..], is_full), (&b"hello hello hello"[..], true));
        }
    }

    #[test]
    fn encodings_that_were_not_asked_for_are_named() {
        for encoding in ["br", "deflate", "zstd", "gzip, gzip"] {
            assert_eq!(Decoder::of(&headers(encoding), 1).err().unwrap(), encoding);
        }
        for encoding in ["", "identity", "GZIP", "x-gzip"] {
            assert!(Decoder::of(&headers(encoding), 1).is_ok(), "{encoding}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            bytes in proptest::collection::vec(0_u8..4, 0..500),
            size in 1_usize..40,
            most in 0_usize..600,
            is_gzip: bool,
        ) {
            let sent = if is_gzip { gzip(&bytes) } else { bytes.clone() };
            let pieces: Vec<&[u8]> = sent.chunks(size).collect();
            let decoder = Decoder::of(&headers(if is_gzip { "gzip" } else { "" }), most).ok().unwrap();
            let (read, is_full) = decoded(decoder, &pieces).unwrap();
            prop_assert_eq!(&read[..], &bytes[..most.min(bytes.len())]);
            prop_assert_eq!(is_full, bytes.len() > most);
        }
    }
}

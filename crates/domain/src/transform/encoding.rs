//! Base64, hexadecimal digits, percent encoding, SHA-256.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

pub(super) fn to_base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

pub(super) fn from_base64(text: &str) -> Result<String, String> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    // Both alphabets are read: the one of URLs after a replacement.
    let text: String = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| match c {
            '+' => '-',
            '/' => '_',
            c => c,
        })
        .collect();
    let bytes = GeneralPurpose::new(&URL_SAFE, config).decode(text);
    readable(bytes.map_err(|error| format!("`text` is not Base64: {error}"))?)
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

pub(super) fn from_hex(text: &str) -> Result<String, String> {
    let digits: Vec<u8> =
        text.trim().trim_start_matches("0x").bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    readable(bytes.ok_or("`text` is not hexadecimal: pairs of 0-9 and a-f are allowed")?)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub(super) fn to_url(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut url, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _ = write!(url, "%{byte:02X}");
        }
        url
    })
}

pub(super) fn from_url(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (*first, after) {
            (b'%', [high, low, after @ ..]) => {
                let byte = digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4) | low);
                bytes.push(byte.ok_or("`text` has a `%` without two hexadecimal digits")?);
                after
            }
            (b'%', _) => return Err("`text` has a `%` without two hexadecimal digits".to_owned()),
            (byte, after) => {
                bytes.push(if byte == b'+' { b' ' } else { byte });
                after
            }
        };
    }
    readable(bytes)
}

pub(super) fn sha256(text: &str) -> String {
    to_hex(&Sha256::digest(text))
}

/// Bytes as a text; those that are none, in hexadecimal digits.
fn readable(bytes: Vec<u8>) -> Result<String, String> {
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.into_bytes();
        format!("{} bytes that are not UTF-8, in hexadecimal: {}", bytes.len(), to_hex(&bytes))
    }))
}

//! Transformations of texts that models are bad at: encodings, hashes, regular expressions, JSON and CSV. Each is pure and
//! takes time in proportion to its text.

mod csv;
mod encoding;
mod json;
mod pattern;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use csv::csv_to_json;

/// Maximum length of a text, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;
/// Maximum length of a text that a regular expression is looked for in, in bytes.
pub const MAX_SEARCHED_BYTES: usize = 16 * 1024;
/// Maximum length of a result, in bytes.
pub const MAX_RESULT_BYTES: usize = 256 * 1024;

/// What is done with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// To Base64.
    Base64Encode,
    /// From Base64, with `+/` or `-_`, with padding or without.
    Base64Decode,
    /// To hexadecimal digits.
    HexEncode,
    /// From hexadecimal digits.
    HexDecode,
    /// To percent encoding, as in a part of a URL.
    UrlEncode,
    /// From percent encoding.
    UrlDecode,
    /// The SHA-256 in hexadecimal digits.
    Sha256,
    /// Whether a regular expression matches.
    RegexTest,
    /// What a regular expression matches, one line each; its groups if it has some, as JSON.
    RegexExtract,
    /// The text with what a regular expression matches replaced.
    RegexReplace,
    /// A part of a JSON document, by its pointer.
    JsonGet,
    /// A JSON document with line breaks.
    JsonFormat,
    /// A table in CSV as a list of JSON objects.
    CsvToJson,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 13] = [
        Self::Base64Encode,
        Self::Base64Decode,
        Self::HexEncode,
        Self::HexDecode,
        Self::UrlEncode,
        Self::UrlDecode,
        Self::Sha256,
        Self::RegexTest,
        Self::RegexExtract,
        Self::RegexReplace,
        Self::JsonGet,
        Self::JsonFormat,
        Self::CsvToJson,
    ];

    /// The name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base64Encode => "base64_encode",
            Self::Base64Decode => "base64_decode",
            Self::HexEncode => "hex_encode",
            Self::HexDecode => "hex_decode",
            Self::UrlEncode => "url_encode",
            Self::UrlDecode => "url_decode",
            Self::Sha256 => "sha256",
            Self::RegexTest => "regex_test",
            Self::RegexExtract => "regex_extract",
            Self::RegexReplace => "regex_replace",
            Self::JsonGet => "json_get",
            Self::JsonFormat => "json_format",
            Self::CsvToJson => "csv_to_json",
        }
    }

    /// Whether it needs a pattern: a regular expression.
    #[must_use]
    pub fn is_search(self) -> bool {
        matches!(self, Self::RegexTest | Self::RegexExtract | Self::RegexReplace)
    }
}

/// Does `operation` with `text`. `pattern` is the regular expression of a search or the pointer of `json_get`,
/// `replacement` what `regex_replace` writes: `$1` is the first group.
///
/// # Errors
/// What is wrong and what is allowed, as a clause.
pub fn transform(
    operation: Operation,
    text: &str,
    pattern: Option<&str>,
    replacement: Option<&str>,
) -> Result<String, String> {
    let max = if operation.is_search() { MAX_SEARCHED_BYTES } else { MAX_TEXT_BYTES };
    if text.len() > max {
        return Err(format!("`text` has {} bytes; at most {max} are allowed here", text.len()));
    }
    let needed =
        |what: &str| pattern.ok_or_else(|| format!("`{}` needs `pattern`: {what}", operation.as_str()));
    let result = match operation {
        Operation::Base64Encode => Ok(encoding::to_base64(text)),
        Operation::Base64Decode => encoding::from_base64(text),
        Operation::HexEncode => Ok(encoding::to_hex(text.as_bytes())),
        Operation::HexDecode => encoding::from_hex(text),
        Operation::UrlEncode => Ok(encoding::to_url(text)),
        Operation::UrlDecode => encoding::from_url(text),
        Operation::Sha256 => Ok(encoding::sha256(text)),
        Operation::RegexTest => pattern::test(needed("a regular expression")?, text),
        Operation::RegexExtract => pattern::extract(needed("a regular expression")?, text),
        Operation::RegexReplace => {
            let replacement = replacement.ok_or("`regex_replace` needs `replacement`, which may be empty")?;
            pattern::replace(needed("a regular expression")?, text, replacement)
        }
        Operation::JsonGet => {
            json::get(needed("a JSON pointer, such as /items/0/name or /items/*/name")?, text)
        }
        Operation::JsonFormat => json::format(text),
        Operation::CsvToJson => csv_to_json(text).map(|rows| serde_json::Value::from(rows).to_string()),
    }?;
    match result.len() {
        bytes if bytes > MAX_RESULT_BYTES => Err(format!(
            "the result has {bytes} bytes; at most {MAX_RESULT_BYTES} are returned: give less text"
        )),
        _ => Ok(result),
    }
}

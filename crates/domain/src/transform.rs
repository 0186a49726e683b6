//! Transformations of texts that models are bad at: encodings, hashes, regular expressions, JSON and CSV. Each is pure and
//! takes time in proportion to its text.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use regex::{Captures, Regex, RegexBuilder};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::bounded_regex::invalid;

/// Maximum length of a text, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// Maximum length of a text that a regular expression is looked for in, in bytes.
pub const MAX_SEARCHED_BYTES: usize = 16 * 1024;

/// Maximum length of a result, in bytes.
pub const MAX_RESULT_BYTES: usize = 256 * 1024;

names! {
    /// What is done with a text.
    #[derive(Hash)]
    pub enum Operation {
        /// To Base64.
        Base64Encode = "base64_encode",
        /// From Base64, with `+/` or `-_`, with padding or without.
        Base64Decode = "base64_decode",
        /// To hexadecimal digits.
        HexEncode = "hex_encode",
        /// From hexadecimal digits.
        HexDecode = "hex_decode",
        /// To percent encoding, as in a part of a URL.
        UrlEncode = "url_encode",
        /// From percent encoding.
        UrlDecode = "url_decode",
        /// The SHA-256 in hexadecimal digits.
        Sha256 = "sha256",
        /// Whether a regular expression matches.
        RegexTest = "regex_test",
        /// What a regular expression matches, one line each; its groups if it has some, as JSON.
        RegexExtract = "regex_extract",
        /// The text with what a regular expression matches replaced.
        RegexReplace = "regex_replace",
        /// A part of a JSON document, by its pointer.
        JsonGet = "json_get",
        /// A JSON document with line breaks.
        JsonFormat = "json_format",
        /// A table in CSV as a list of JSON objects.
        CsvToJson = "csv_to_json",
    }
}

impl Operation {
    /// Whether it needs a pattern: a regular expression.
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
    ensure!(text.len() <= max, "`text` has {} bytes; at most {max} are allowed here", text.len());
    let needed =
        |what: &str| pattern.ok_or_else(|| format!("`{}` needs `pattern`: {what}", operation.as_str()));
    let result = match operation {
        Operation::Base64Encode => Ok(BASE64_STANDARD.encode(text)),
        Operation::Base64Decode => from_base64(text),
        Operation::HexEncode => Ok(hex::encode(text)),
        Operation::HexDecode => from_hex(text),
        Operation::UrlEncode => Ok(utf8_percent_encode(text, RESERVED).to_string()),
        Operation::UrlDecode => from_url(text),
        Operation::Sha256 => Ok(hex::encode(Sha256::digest(text))),
        Operation::RegexTest => test_pattern(needed("a regular expression")?, text),
        Operation::RegexExtract => extract_matches(needed("a regular expression")?, text),
        Operation::RegexReplace => {
            let replacement = replacement.ok_or("`regex_replace` needs `replacement`, which may be empty")?;
            replace_matches(needed("a regular expression")?, text, replacement)
        }
        Operation::JsonGet => {
            get_json(needed("a JSON pointer, such as /items/0/name or /items/*/name")?, text)
        }
        Operation::JsonFormat => {
            serde_json::to_string_pretty(&parse(text)?).map_err(|error| error.to_string())
        }
        Operation::CsvToJson => csv_to_json(text).map(|rows| serde_json::Value::from(rows).to_string()),
    }?;
    match result.len() {
        bytes if bytes > MAX_RESULT_BYTES => Err(format!(
            "the result has {bytes} bytes; at most {MAX_RESULT_BYTES} are returned: give less text"
        )),
        _ => Ok(result),
    }
}

/// What is percent-encoded in a URL: all but letters, digits and four signs.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn from_base64(text: &str) -> Result<String, String> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    // Both alphabets are read: the one of URLs after a replacement.
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = GeneralPurpose::new(&URL_SAFE, config).decode(text.replace('+', "-").replace('/', "_"));
    readable(bytes.map_err(|error| format!("`text` is not Base64: {error}"))?)
}

fn from_hex(text: &str) -> Result<String, String> {
    let digits: Vec<u8> =
        text.trim().trim_start_matches("0x").bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes = hex::decode(digits);
    readable(bytes.map_err(|_| "`text` is not hexadecimal: pairs of 0-9 and a-f are allowed")?)
}

fn from_url(text: &str) -> Result<String, String> {
    const WRONG: &str = "`text` has a `%` without two hexadecimal digits";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (*first, after) {
            (b'%', [high, low, after @ ..]) => {
                bytes.extend(hex::decode([*high, *low]).map_err(|_| WRONG)?);
                after
            }
            (b'%', _) => return Err(WRONG.to_owned()),
            (byte, after) => {
                bytes.push(if byte == b'+' { b' ' } else { byte });
                after
            }
        };
    }
    readable(bytes)
}

/// Bytes as a text; those that are none, in hexadecimal digits.
fn readable(bytes: Vec<u8>) -> Result<String, String> {
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.into_bytes();
        format!("{} bytes that are not UTF-8, in hexadecimal: {}", bytes.len(), hex::encode(&bytes))
    }))
}

// Regular expressions. They match in time in proportion to the text, have no look-around and no back-references.

/// Maximum length of an expression, in characters.
const MAX_PATTERN_CHARS: usize = 500;

/// Bytes that a compiled expression may have: `\w` has about thirty thousand.
const COMPILED_BYTES: usize = 128 * 1024;

/// Maximum number of matches that are returned or replaced.
const MAX_MATCHES: usize = 500;

fn compile(pattern: &str) -> Result<Regex, String> {
    let length = pattern.chars().count();
    if length > MAX_PATTERN_CHARS {
        return Err(format!("`pattern` has {length} characters; at most {MAX_PATTERN_CHARS} are allowed"));
    }
    let compiled = RegexBuilder::new(pattern).size_limit(COMPILED_BYTES).nest_limit(50).build();
    compiled.map_err(|error| format!("`pattern` {}", invalid(error)))
}

fn test_pattern(pattern: &str, text: &str) -> Result<String, String> {
    Ok(match compile(pattern)?.find(text) {
        Some(found) => format!("true: it matches `{}` at byte {}", found.as_str(), found.start()),
        None => "false".to_owned(),
    })
}

fn extract_matches(pattern: &str, text: &str) -> Result<String, String> {
    let pattern = compile(pattern)?;
    let groups = |found: &Captures<'_>| -> Value {
        let texts =
            found.iter().skip(1).map(|group| group.map_or(Value::Null, |group| group.as_str().into()));
        texts.collect()
    };
    let mut lines: Vec<String> = pattern
        .captures_iter(text)
        .take(MAX_MATCHES + 1)
        .map(|found| if found.len() > 1 { groups(&found).to_string() } else { found[0].to_owned() })
        .collect();
    if lines.is_empty() {
        return Ok("Nothing matches.".to_owned());
    }
    if lines.len() > MAX_MATCHES {
        lines.truncate(MAX_MATCHES);
        lines.push(format!("(only the first {MAX_MATCHES} matches)"));
    }
    Ok(lines.join("\n"))
}

fn replace_matches(pattern: &str, text: &str, replacement: &str) -> Result<String, String> {
    let pattern = compile(pattern)?;
    let count = pattern.find_iter(text).take(MAX_MATCHES + 1).count();
    ensure!(count <= MAX_MATCHES, "more than {MAX_MATCHES} matches would be replaced: give less text");
    if text.len() + count.saturating_mul(replacement.len() + text.len() / 8) > MAX_RESULT_BYTES * 4 {
        return Err("the result would be too long: give less text or a shorter `replacement`".to_owned());
    }
    Ok(pattern.replace_all(text, replacement).into_owned())
}

/// Maximum number of values that a pointer with `*` finds.
const MAX_FOUND: usize = 1000;

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("`text` is not JSON: {error}"))
}

/// The value at a JSON pointer; with `*` for any key or index, the list of all values.
fn get_json(pointer: &str, text: &str) -> Result<String, String> {
    let document = parse(text)?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        let rule = "a JSON pointer begins with `/`, as /items/0/name";
        return Err(format!("`pattern` is `{pointer}`, but {rule}"));
    }
    let mut found = vec![&document];
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        found = found.into_iter().flat_map(|value| children(value, &key)).take(MAX_FOUND + 1).collect();
    }
    if pointer.split('/').any(|key| key == "*") {
        found.truncate(MAX_FOUND);
        return Ok(found.into_iter().cloned().collect::<Value>().to_string());
    }
    match found.first() {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value) => Ok(value.to_string()),
        None => Err(format!("there is nothing at `{pointer}`; {}", keys(&document))),
    }
}

fn children<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    match (value, key) {
        (Value::Object(map), "*") => map.values().collect(),
        (Value::Array(items), "*") => items.iter().collect(),
        (Value::Object(map), key) => map.get(key).into_iter().collect(),
        (Value::Array(items), key) => {
            key.parse().ok().and_then(|at: usize| items.get(at)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What the document has at its top.
fn keys(document: &Value) -> String {
    match document {
        Value::Object(map) => {
            let keys: Vec<&str> = map.keys().take(20).map(String::as_str).collect();
            format!("its keys are {}", keys.join(", "))
        }
        Value::Array(items) => format!("it is a list of {}", items.len()),
        _ => "it is a single value".to_owned(),
    }
}

// CSV, as RFC 4180 has it: fields in quotes may have separators, line breaks and doubled quotes. The separator is the one of
// `,`, `;` and tab that the first line has most of.

/// The rows as objects, whose keys are the fields of the first row. All values are texts.
///
/// # Errors
/// What is wrong, as a clause: a quote that is not closed, a row with more fields than the first.
pub fn csv_to_json(text: &str) -> Result<Vec<Value>, String> {
    let rows = rows(text)?;
    let Some((header, rows)) = rows.split_first() else { return Ok(Vec::new()) };
    let object = |(nth, row): (usize, &Vec<String>)| {
        if row.len() > header.len() {
            let (line, fields, names) = (nth + 2, row.len(), header.len());
            return Err(format!("row {line} has {fields} fields, but the first row has {names}"));
        }
        let pairs = header.iter().zip(row).map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        Ok(Value::from(pairs.collect::<Map<_, _>>()))
    };
    rows.iter().enumerate().map(object).collect()
}

const LAST: &str = "end of the rows";

fn rows(text: &str) -> Result<Vec<Vec<String>>, String> {
    let first = text.lines().next().unwrap_or_default();
    let count = |one: &u8| first.bytes().filter(|byte| byte == one).count();
    let separator = [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',');
    let text = text.trim_start_matches('\u{feff}');
    // A quote that is not closed takes the last row with it.
    let text = format!("{}\n{LAST}", text.trim_end_matches(['\r', '\n']));
    let mut reader = csv::ReaderBuilder::new();
    let mut reader =
        reader.has_headers(false).flexible(true).delimiter(separator).from_reader(text.as_bytes());
    let rows: Result<Vec<Vec<String>>, csv::Error> = reader.deserialize().collect();
    let mut rows = rows.map_err(|error| format!("`text` is not CSV: {error}"))?;
    ensure!(rows.pop().is_some_and(|last| last == [LAST]), "a quote in `text` is not closed");
    // Empty lines.
    rows.retain(|row| row.len() > 1 || row.iter().any(|field| !field.is_empty()));
    Ok(rows)
}

#[cfg(test)]
mod tests;

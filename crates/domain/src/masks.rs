//! [`Masks`]: the secrets of one call, taken out of what a server answers. Some servers echo the headers of a request, in an error, a
//! debug page or a log; what they echo would be stored, streamed and exported.
//!
//! A secret is found as it is, and as it looks in a URL (percent-encoded), in a form, in JSON (also in JSON within JSON), in HTML, in
//! hexadecimal digits, and within Base64, wherever it begins there: `Basic` encodes it behind the name of a user.
//!
//! [`without_keys`] takes out what looks like the key of a model provider, of Houston or of a common service, in texts that are
//! printed, stored or handed out.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

/// Shorter secrets are words that occur anyway: they are left.
const SHORTEST: usize = 4;
/// The shortest part of Base64 that is taken for a secret.
const SHORTEST_BASE64: usize = 6;
/// The shortest beginning of a secret that is taken out at the end of an answer that was cut.
const SHORTEST_BEGINNING: usize = 4;

/// What is taken out: each secret in each form, the longest first.
#[derive(Clone, Default)]
pub struct Masks {
    forms: Vec<Vec<u8>>,
}

impl Masks {
    /// The masks of these secrets.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut forms: Vec<Vec<u8>> = Vec::new();
        for secret in secrets {
            let trimmed = secret.trim();
            if trimmed.len() >= SHORTEST {
                forms.extend(forms_of(secret));
                forms.extend(forms_of(trimmed));
            }
        }
        forms.retain(|form| form.len() >= SHORTEST);
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        Self { forms }
    }

    /// What both take out.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.forms.extend(other.forms);
        self.forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.forms.dedup();
        self
    }

    /// Whether there is nothing to take out.
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Bytes without the secrets; `None`: there are none. `is_cut`: the bytes may end in the middle of one.
    pub fn bytes(&self, bytes: &[u8], is_cut: bool) -> Option<Vec<u8>> {
        if self.forms.is_empty() {
            return None;
        }
        let mut begins = [false; 256];
        for form in &self.forms {
            begins[usize::from(form[0])] = true;
        }
        let (mut masked, mut copied, mut at) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let found =
                begins[usize::from(rest[0])].then(|| self.forms.iter().find(|form| rest.starts_with(form)));
            if let Some(form) = found.flatten() {
                masked.extend_from_slice(&bytes[copied..at]);
                masked.extend_from_slice(REDACTED.as_bytes());
                at += form.len();
                copied = at;
            } else {
                at += 1;
            }
        }
        let end = if is_cut { bytes.len() - self.beginning_at_end(&bytes[copied..]) } else { bytes.len() };
        if copied == 0 && end == bytes.len() {
            return None;
        }
        masked.extend_from_slice(&bytes[copied..end]);
        if end < bytes.len() {
            masked.extend_from_slice(REDACTED.as_bytes());
        }
        Some(masked)
    }

    /// A text without the secrets.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.bytes(text.as_bytes(), false) {
            // A form of UTF-8 begins and ends between characters.
            Some(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
            None => Cow::Borrowed(text),
        }
    }

    /// JSON without the secrets in its texts and names.
    pub fn json(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        map_texts(value, &|text| self.text(text).into_owned())
    }

    /// The length of the longest beginning of a secret at the end.
    fn beginning_at_end(&self, bytes: &[u8]) -> usize {
        let ends = |form: &Vec<u8>| {
            let most = bytes.len().min(form.len() - 1);
            (SHORTEST_BEGINNING..=most).rev().find(|length| bytes.ends_with(&form[..*length]))
        };
        self.forms.iter().filter_map(ends).max().unwrap_or(0)
    }
}

fn forms_of(secret: &str) -> Vec<Vec<u8>> {
    let escaped = json_escaped(secret);
    // PHP writes `\/`.
    let slashed = escaped.replace('/', "\\/");
    let mut texts = vec![
        secret.to_owned(),
        json_escaped(&escaped),
        ascii_escaped(&escaped, false),
        ascii_escaped(&escaped, true),
        ascii_escaped(&slashed, false),
        ascii_escaped(&slashed, true),
        slashed,
        escaped,
        STANDARD.encode(secret),
        URL_SAFE.encode(secret),
    ];
    // What encoders leave as it is: RFC 3986, `encodeURIComponent`, forms, `encodeURI`.
    for left in ["-._~", "-._~!'()*", "-._*", "-._~!'()*;,/?:@&=+$#", "-._~/"] {
        for lower in [false, true] {
            let encoded = percent_encoded(secret, left, lower);
            texts.push(encoded.replace("%20", "+"));
            texts.push(encoded);
        }
    }
    for apostrophe in ["&#39;", "&#x27;", "&apos;"] {
        texts.push(html_escaped(secret, apostrophe));
    }
    texts.push(hex::encode(secret));
    texts.push(hex::encode_upper(secret));
    let mut forms: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).collect();
    for offset in 0..3 {
        let bytes = [&[0; 2][..offset.min(2)], secret.as_bytes()].concat();
        // The characters that depend on nothing but the secret.
        let (from, to) = ((offset * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            if to >= from + SHORTEST_BASE64 {
                forms.push(encoded.as_bytes()[from..to].to_vec());
            }
        }
    }
    forms
}

/// JSON whose texts and names are written anew.
pub(crate) fn map_texts(value: Value, write: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(write(&text)),
        Value::Array(items) => items.into_iter().map(|item| map_texts(item, write)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (write(&name), map_texts(value, write))).collect()
        }
        other => other,
    }
}

fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// JSON whose characters outside ASCII are escaped, too.
fn ascii_escaped(escaped: &str, upper: bool) -> String {
    let mut text = String::new();
    for character in escaped.chars() {
        if character.is_ascii() {
            text.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = if upper { write!(text, "\\u{unit:04X}") } else { write!(text, "\\u{unit:04x}") };
        }
    }
    text
}

fn percent_encoded(text: &str, left: &str, lower: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || left.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = if lower { write!(encoded, "%{byte:02x}") } else { write!(encoded, "%{byte:02X}") };
        }
    }
    encoded
}

fn html_escaped(text: &str, apostrophe: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', apostrophe)
}

/// What replaces a key.
pub const REDACTED: &str = "[redacted]";

/// Prefixes of keys.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "hou_",
    "houc_",
    "whsec_",
    "xoxb-",
    "glpat-",
    "AKIA",
    "gsk_",
    "xai-",
    "AIza",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "pplx-",
    "fw_",
    "eyJ",
];

/// The shortest keys in use have 32 characters; quoted keys are often truncated.
const SHORTEST_KEY: usize = 20;

/// Replaces everything that looks like a key of any provider.
pub fn without_keys(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut scrubbed = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (this, after) = rest.split_at(word);
        let key = word >= SHORTEST_KEY && BEGINNINGS.iter().any(|beginning| this.starts_with(beginning));
        scrubbed.push_str(if key { REDACTED } else { this });
        let between = after.find(is_part).unwrap_or(after.len());
        scrubbed.push_str(&after[..between]);
        rest = &after[between..];
    }
    scrubbed
}

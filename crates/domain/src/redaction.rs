//! What looks like the key of a model provider, of Houston or of a common service, in texts that are printed, stored or handed out.

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
const SHORTEST: usize = 20;

/// Replaces everything that looks like a key of any provider.
#[must_use]
pub fn without_keys(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut scrubbed = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (this, after) = rest.split_at(word);
        let key = word >= SHORTEST && BEGINNINGS.iter().any(|beginning| this.starts_with(beginning));
        scrubbed.push_str(if key { REDACTED } else { this });
        let between = after.find(is_part).unwrap_or(after.len());
        scrubbed.push_str(&after[..between]);
        rest = &after[between..];
    }
    scrubbed
}

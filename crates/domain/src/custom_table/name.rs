//! Names of tables and fields.

/// Maximum length of a name, in characters.
pub const MAX_NAME_CHARS: usize = 40;

/// Checks the name of a table or a field: small letters, digits and `_`, the first a letter.
///
/// # Errors
/// What is allowed, and a name like the given one that is.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(is_allowed)
        && name.len() <= MAX_NAME_CHARS
    {
        return Ok(());
    }
    let given: String = name.chars().take(60).collect();
    let rule = format!(
        "`{given}` is no name: write 1 to {MAX_NAME_CHARS} small letters, digits and `_`, the first a letter"
    );
    Err(match like(name) {
        Some(like) => format!("{rule}, such as `{like}`"),
        None => rule,
    })
}

/// An allowed name like the given one.
fn like(name: &str) -> Option<String> {
    let mut like = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        let is_repeated = c == '_' && (like.is_empty() || like.ends_with('_'));
        if like.len() < MAX_NAME_CHARS && !is_repeated && !(like.is_empty() && c.is_ascii_digit()) {
            like.push(c);
        }
    }
    let like = like.trim_end_matches('_');
    (!like.is_empty()).then(|| like.to_owned())
}

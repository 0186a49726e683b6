//! Texts for a reader whose client must fetch nothing: addresses are shown, and lead nowhere.
//!
//! Whoever has read private data and what strangers wrote may have been told to write an address with the data in it. A client that
//! shows an image of it, or a preview of a link, carries the data away without a click. So [`Inert`] takes apart what makes a client
//! fetch, or a reader click without seeing where to:
//!
//! | written | shown |
//! |---|---|
//! | `![a](https://x.example/i)`, in each form | `! [a] (https: //x[.]example/i)` |
//! | `[a](https://x.example/)` | `[a] (https: //x[.]example/)` |
//! | `[a]: https://x.example/` | `[a] : https: //x[.]example/` |
//! | `<img src=…>`, `<https://x.example>`, any tag | `< img src=…>`, `< https: //x[.]example>` |
//! | `https://x.example`, `www.x.example` | `https: //x[.]example`, `www[.]x[.]example` |
//!
//! It looks at two characters at a time, not at a tree, so that no way to nest, to escape or to break a line leads past it, in whatever
//! dialect of Markdown or HTML a client reads. Links to hosts that the guards name stay links, and so do paths of Houston itself.

#[cfg(test)]
mod tests;

/// What is written below a text that was changed.
pub const NOTE: &str = "(Addresses are shown as text, and images not at all: private data and texts of strangers were read for this.)";

/// The most bytes of a text in brackets before the path of an image of Houston.
const MAX_NAME: usize = 300;
/// The most characters of a host.
const MAX_HOST: usize = 253;
/// Paths of images and files that the user posted.
const OWN_FILES: [&str; 2] = ["(/v1/images/image_", "(/v1/attachments/att_"];

/// Makes a text inert that arrives in pieces. What it returns, one after the other, is the same however the text is cut.
#[derive(Debug, Default)]
pub struct Inert {
    /// What has come, but is not understood yet.
    held: String,
    /// Within a host that is taken apart.
    in_host: bool,
    changed: bool,
}

/// What a client would do with what follows.
enum Found {
    /// So many bytes stay as they are.
    Keeps(usize),
    /// So many bytes are replaced.
    Becomes(usize, &'static str),
    /// The same, and a host follows whose dots are taken apart.
    Host(usize, &'static str),
    /// It depends on what comes.
    Open,
}

impl Inert {
    /// What can be shown after this piece. `allows`: whether links may lead to a host, in lower case.
    pub fn push(&mut self, piece: &str, allows: impl Fn(&str) -> bool) -> String {
        self.held.push_str(piece);
        self.take(false, &allows)
    }

    /// The rest: the text is over.
    pub fn finish(&mut self, allows: impl Fn(&str) -> bool) -> String {
        let rest = self.take(true, &allows);
        self.in_host = false;
        rest
    }

    fn take(&mut self, is_all: bool, allows: &dyn Fn(&str) -> bool) -> String {
        let held = std::mem::take(&mut self.held);
        let (mut shown, mut rest) = (String::with_capacity(held.len()), held.as_str());
        while let Some(first) = rest.chars().next() {
            if self.in_host && first == '.' {
                match rest[1..].chars().next() {
                    None if !is_all => break,
                    Some(next) if next.is_alphanumeric() => {
                        self.changed = true;
                        shown.push_str("[.]");
                    }
                    _ => shown.push('.'),
                }
                rest = &rest[1..];
                continue;
            }
            self.in_host = self.in_host && is_of_host(first);
            match found(rest, is_all, allows) {
                Found::Keeps(bytes) => {
                    shown.push_str(&rest[..bytes]);
                    rest = &rest[bytes..];
                }
                Found::Becomes(bytes, replacement) => {
                    self.changed = true;
                    shown.push_str(replacement);
                    rest = &rest[bytes..];
                }
                Found::Host(bytes, replacement) => {
                    self.changed |= rest[..bytes] != *replacement;
                    self.in_host = true;
                    shown.push_str(replacement);
                    rest = &rest[bytes..];
                }
                Found::Open => break,
            }
        }
        self.held = rest.to_owned();
        shown
    }
}

/// The whole text, and whether it was changed. See [`Inert::push`].
pub fn inert(text: &str, allows: impl Fn(&str) -> bool) -> (String, bool) {
    let mut inert = Inert::default();
    let mut shown = inert.push(text, &allows);
    shown.push_str(&inert.finish(&allows));
    (shown, inert.changed)
}

fn is_of_host(character: char) -> bool {
    character.is_alphanumeric() || ".-_@%".contains(character)
}

fn found(rest: &str, is_all: bool, allows: &dyn Fn(&str) -> bool) -> Found {
    let open_unless = |is_over: bool| if is_over || is_all { Found::Keeps(1) } else { Found::Open };
    let mut characters = rest.chars();
    let first = characters.next().unwrap_or_default();
    let next = characters.next();
    match first {
        '!' => match next {
            Some('[') => image(rest, is_all),
            next => open_unless(next.is_some()),
        },
        ']' => match next {
            Some(':') => Found::Becomes(1, "] "),
            Some('(') => link(&rest[2..], is_all, allows),
            next => open_unless(next.is_some()),
        },
        '<' => match next {
            Some(next) if next.is_ascii_alphabetic() || "/!?".contains(next) => Found::Becomes(1, "< "),
            next => open_unless(next.is_some()),
        },
        ':' => match rest.strip_prefix("://") {
            Some(after) => match host(after, is_all, allows) {
                None => Found::Open,
                Some(true) => Found::Keeps(3),
                Some(false) => Found::Host(3, ": //"),
            },
            None => open_unless(!"://".starts_with(rest)),
        },
        'w' | 'W' => match rest.get(..4) {
            Some(www) if www.eq_ignore_ascii_case("www.") => match host(rest, is_all, allows) {
                None => Found::Open,
                Some(true) => Found::Keeps(4),
                Some(false) => Found::Host(3, "www"),
            },
            Some(_) => Found::Keeps(1),
            None => open_unless(!rest.chars().all(|c| "wW".contains(c))),
        },
        other => Found::Keeps(other.len_utf8()),
    }
}

/// `![`: it stays only before the path of an image or a file of the user.
fn image(rest: &str, is_all: bool) -> Found {
    const BROKEN: Found = Found::Becomes(1, "! ");
    let name = &rest[2..];
    // Nothing in it may mean something of its own.
    let is_plain = |c: char| c.is_alphanumeric() || " ._-".contains(c);
    let Some(end) = name.find(|c| !is_plain(c)) else {
        return if is_all || name.len() > MAX_NAME { BROKEN } else { Found::Open };
    };
    if end > MAX_NAME {
        return BROKEN;
    }
    let Some(target) = name[end..].strip_prefix(']') else { return BROKEN };
    match own_file(target) {
        Some(bytes) => Found::Keeps(2 + end + 1 + bytes),
        None if !is_all && may_be_own(target) => Found::Open,
        None => BROKEN,
    }
}

/// The length of `(/v1/images/image_…)`.
fn own_file(target: &str) -> Option<usize> {
    let beginning = OWN_FILES.into_iter().find(|beginning| target.starts_with(beginning))?;
    let id = &target[beginning.len()..];
    let end = id.find(|c: char| !c.is_ascii_hexdigit())?;
    (end == 32 && id[end..].starts_with(')')).then_some(beginning.len() + end + 1)
}

fn may_be_own(target: &str) -> bool {
    OWN_FILES.into_iter().any(|beginning| match target.strip_prefix(beginning) {
        Some(id) => id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => beginning.starts_with(target),
    })
}

/// What is after `](`: a link stays if its target is a path here, or at a host that is allowed.
fn link(target: &str, is_all: bool, allows: &dyn Fn(&str) -> bool) -> Found {
    const KEPT: Found = Found::Keeps(2);
    const BROKEN: Found = Found::Becomes(2, "] (");
    let mut characters = target.chars();
    match (characters.next(), characters.next()) {
        (None, _) | (Some('/'), None) => return if is_all { BROKEN } else { Found::Open },
        (Some('#'), _) => return KEPT,
        // Not `//host`, and not `/\host`.
        (Some('/'), Some(next)) => return if next.is_ascii_alphanumeric() { KEPT } else { BROKEN },
        _ => {}
    }
    for scheme in ["https://", "http://"] {
        match target.get(..scheme.len()) {
            Some(given) if given.eq_ignore_ascii_case(scheme) => {
                return match host(&target[scheme.len()..], is_all, allows) {
                    None => Found::Open,
                    Some(true) => KEPT,
                    Some(false) => BROKEN,
                };
            }
            None if !is_all && scheme.starts_with(&target.to_ascii_lowercase()) => return Found::Open,
            _ => {}
        }
    }
    BROKEN
}

/// Whether the host at the beginning is allowed; `None`: it may go on. What programs could read differently is not: a user before the
/// host, a port, a backslash, letters that are not ASCII.
fn host(text: &str, is_all: bool, allows: &dyn Fn(&str) -> bool) -> Option<bool> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-'));
    let (name, after) = match end {
        Some(end) => (&text[..end], text[end..].chars().next()),
        None if is_all || text.len() > MAX_HOST => (text, None),
        None => return None,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let ends = after.is_none_or(|after| after.is_whitespace() || "/?#)>,;".contains(after));
    Some(ends && !name.is_empty() && name.len() <= MAX_HOST && allows(&name.to_ascii_lowercase()))
}

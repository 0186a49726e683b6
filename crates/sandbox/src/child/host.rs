//! The functions of Rust that the prelude calls.

use std::cell::RefCell;
use std::rc::Rc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rquickjs::function::IntoJsFunc;
use rquickjs::{Ctx, Function, Object, Result, TypedArray};
use serde_json::value::RawValue;
use url::{Url, quirks};

use super::json;
use super::script::position;
use crate::outcome::Fault;
use crate::protocol::{Asked, EndResult};

/// A base64 that ends with its padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// Characters of a fault's message.
const MAX_MESSAGE: usize = 2000;

/// What the functions collect while a script runs.
pub(super) struct Collected {
    pub(super) console: String,
    pub(super) console_left: usize,
    pub(super) console_cut: bool,
    /// Calls that have not been asked for yet.
    pub(super) asked: Vec<Asked>,
    pub(super) calls_left: usize,
    /// The limit of a result, and of a call's input, in bytes.
    pub(super) output: usize,
    /// How many lines the code has whose positions stacks give: none of TypeScript.
    pub(super) lines: u32,
    pub(super) result: Option<EndResult>,
    /// Promises that were rejected, without those that were handled later.
    pub(super) unhandled: usize,
}

pub(super) type Shared = Rc<RefCell<Collected>>;

impl Collected {
    /// Adds a line; returns whether the console is full.
    fn log(&mut self, level: &str, text: &str) -> bool {
        if self.console_left == 0 {
            self.console_cut = true;
            return true;
        }
        let kept = &text[..text.floor_char_boundary(self.console_left)];
        self.console_cut |= kept.len() < text.len();
        let mark = match level {
            "warn" => "warning: ",
            "error" => "error: ",
            _ => "",
        };
        self.console.extend([mark, kept, "\n"]);
        // Each line costs something, so that empty ones end, too.
        self.console_left = self.console_left.saturating_sub(kept.len() + 1);
        self.console_cut
    }

    /// Counts a promise that is rejected without a handler, or gets one later.
    pub(super) fn rejected(&mut self, is_handled: bool) {
        self.unhandled = if is_handled { self.unhandled.saturating_sub(1) } else { self.unhandled + 1 };
    }

    /// Says on the console that errors were lost: a script that forgets `await` looks like one that worked.
    pub(super) fn report_unhandled(&mut self) {
        let lost = match self.unhandled {
            0 => return,
            1 => "a promise was rejected and its error is lost".to_owned(),
            count => format!("{count} promises were rejected and their errors are lost"),
        };
        self.log("error", &format!("{lost}: await every async function and every tool"));
    }

    /// Adds a call, or returns why not.
    fn ask(&mut self, tool: String, input: &str) -> Option<String> {
        if self.calls_left == 0 {
            return Some("too many tool calls in one script".to_owned());
        }
        if input.len() > self.output {
            return Some(format!(
                "the input of {tool} has {} bytes, and {} are allowed",
                input.len(),
                self.output
            ));
        }
        let input = match json::plain(input) {
            Ok(input) => input,
            Err(error) => return Some(format!("the input of {tool} {error}")),
        };
        let Ok(input) = RawValue::from_string(input) else {
            return Some(format!("the input of {tool} is not JSON"));
        };
        self.calls_left -= 1;
        self.asked.push(Asked { tool, input });
        None
    }

    /// Only the first end counts: a timer may throw after the script has returned.
    fn end(&mut self, result: EndResult) {
        self.result.get_or_insert(result);
    }

    fn returned(&mut self, json: &str) {
        let result = if json.len() > self.output {
            EndResult::TooLarge(json.len())
        } else {
            match json::plain(json).map(RawValue::from_string) {
                Ok(Ok(value)) => EndResult::Value(value),
                Ok(Err(_)) => EndResult::Thrown(Fault::new("the result is not JSON")),
                Err(error) => EndResult::Thrown(Fault::new(format!("the result {error}"))),
            }
        };
        self.end(result);
    }

    fn thrown(&mut self, name: &str, message: &str, stack: &str, null: bool) {
        let result = if null { EndResult::OutOfMemory } else { fault(name, message, stack, self.lines) };
        self.end(result);
    }
}

/// How a script of this many lines ends that throws an error.
pub(super) fn fault(name: &str, message: &str, stack: &str, lines: u32) -> EndResult {
    if name == "InternalError" && message == "out of memory" {
        return EndResult::OutOfMemory;
    }
    let message = match (name, message) {
        ("", message) => message.to_owned(),
        (name, "") => name.to_owned(),
        (name, message) => format!("{name}: {message}"),
    };
    let mut fault = Fault::new(message.chars().take(MAX_MESSAGE).collect::<String>());
    if let Some((line, column)) = position(stack, lines) {
        (fault.line, fault.column) = (Some(line), Some(column));
    }
    EndResult::Thrown(fault)
}

/// The object with all functions.
pub(super) fn functions<'js>(ctx: &Ctx<'js>, shared: &Shared) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    let s = Rc::clone(shared);
    add(&host, "log", move |level: String, text: String| s.borrow_mut().log(&level, &text))?;
    let s = Rc::clone(shared);
    add(&host, "ask", move |tool: String, input: String| s.borrow_mut().ask(tool, &input))?;
    let s = Rc::clone(shared);
    add(&host, "returned", move |json: String| s.borrow_mut().returned(&json))?;
    let s = Rc::clone(shared);
    add(&host, "thrown", move |name: String, message: String, stack: String, null: bool| {
        s.borrow_mut().thrown(&name, &message, &stack, null);
    })?;
    add_text(&host)?;
    add_urls(&host)?;
    Ok(host)
}

fn add<'js, P>(host: &Object<'js>, name: &str, function: impl IntoJsFunc<'js, P> + 'js) -> Result<()> {
    host.set(name, Function::new(host.ctx().clone(), function)?)
}

fn add_text<'js>(host: &Object<'js>) -> Result<()> {
    add(host, "btoa", |text: String| btoa(&text))?;
    add(host, "atob", |text: String| atob(&text))?;
    add(host, "encode", |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new(ctx, text.into_bytes()))?;
    add(host, "decode", |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes);
        text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
    })
}

/// Base64 of characters that stand for bytes.
fn btoa(text: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect();
    Some(BASE64.encode(bytes?))
}

fn atob(text: &str) -> Option<String> {
    let plain: String = text.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    Some(BASE64.decode(plain).ok()?.into_iter().map(char::from).collect())
}

fn add_urls(host: &Object<'_>) -> Result<()> {
    add(host, "url", |url: String, base: Option<String>| href(&url, base.as_deref()))?;
    add(host, "urlGet", |href: String, part: String| url_get(&href, &part))?;
    add(host, "urlSet", |href: String, part: String, value: String| url_set(&href, &part, &value))?;
    add(host, "pairs", |query: String| -> Vec<Vec<String>> {
        let query = query.strip_prefix('?').unwrap_or(&query);
        url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| vec![name.into_owned(), value.into_owned()])
            .collect()
    })?;
    add(host, "query", |pairs: Vec<Vec<String>>| -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for pair in &pairs {
            if let [name, value] = pair.as_slice() {
                query.append_pair(name, value);
            }
        }
        query.finish()
    })
}

fn href(url: &str, base: Option<&str>) -> Option<String> {
    let url = match base {
        Some(base) => Url::parse(base).ok()?.join(url).ok()?,
        None => Url::parse(url).ok()?,
    };
    Some(url.into())
}

fn url_get(href: &str, part: &str) -> String {
    let Ok(url) = Url::parse(href) else { return String::new() };
    match part {
        "protocol" => quirks::protocol(&url).to_owned(),
        "username" => quirks::username(&url).to_owned(),
        "password" => quirks::password(&url).to_owned(),
        "host" => quirks::host(&url).to_owned(),
        "hostname" => quirks::hostname(&url).to_owned(),
        "port" => quirks::port(&url).to_owned(),
        "pathname" => quirks::pathname(&url).to_owned(),
        "search" => quirks::search(&url).to_owned(),
        "hash" => quirks::hash(&url).to_owned(),
        "origin" => quirks::origin(&url),
        _ => url.into(),
    }
}

/// The address with another part; unchanged if the part cannot have this value, as in browsers.
fn url_set(href: &str, part: &str, value: &str) -> String {
    let Ok(mut url) = Url::parse(href) else { return href.to_owned() };
    let set = match part {
        "href" => quirks::set_href(&mut url, value).map_err(|_| ()),
        "protocol" => quirks::set_protocol(&mut url, value),
        "username" => quirks::set_username(&mut url, value),
        "password" => quirks::set_password(&mut url, value),
        "host" => quirks::set_host(&mut url, value),
        "hostname" => quirks::set_hostname(&mut url, value),
        "port" => quirks::set_port(&mut url, value),
        "pathname" => {
            quirks::set_pathname(&mut url, value);
            Ok(())
        }
        "search" => {
            quirks::set_search(&mut url, value);
            Ok(())
        }
        _ => {
            quirks::set_hash(&mut url, value);
            Ok(())
        }
    };
    if set.is_ok() { url.into() } else { href.to_owned() }
}

//! `/approve/{id}/{token}`: the page with which a person decides a question without an API key. `GET` shows what is asked, for
//! programs that follow the links in mails read it too; only `POST` decides. The page needs no script, and everything from outside
//! is escaped.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Form, RequestExt as _};
use chrono::{DateTime, Utc};
use houston_domain::id::{Ids, QuestionId};
use houston_domain::question::approval::MAX_MESSAGE_CHARS;
use houston_domain::question::{Question, QuestionKind, QuestionState};
use houston_domain::storable::storable_value;
use houston_domain::visible::is_hidden;
use houston_store::answer::{Answered, AskedQuestion};
use houston_store::approval_links::LinkHolder;
use serde::Deserialize;

use crate::error::{Result, if_found};
use crate::resources::audit;
use crate::resources::questions::accept;
use crate::state::App;
use crate::state::peers::Peer;

/// The beginning of the paths. What follows is secret, and not logged.
pub(crate) const PREFIX: &str = "/approve/";

/// The path of the page.
pub(crate) const PATH: &str = "/approve/{id}/{token}";

/// The name of who answers with a link that was made without a name.
const ANYONE: &str = "an approval link";

/// What the forms of the page send.
#[derive(Debug, Deserialize)]
struct Decision {
    decision: Word,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approve,
    Reject,
}

/// Shows the question.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    peer: Option<Extension<Peer>>,
) -> Result<Response> {
    let page = Page::new(&app.state.ids);
    let opened = open(&app, path.ok(), peer.as_deref()).await?;
    Ok(opened.map_or_else(|| page.unknown(), |(asked, _)| page.question(StatusCode::OK, &asked)))
}

/// Decides the question.
pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    path: Result<Path<(String, String)>, PathRejection>,
    peer: Option<Extension<Peer>>,
    request: Request,
) -> Result<Response> {
    let page = Page::new(&app.state.ids);
    let Some((asked, LinkHolder { store, answered_by })) = open(&app, path.ok(), peer.as_deref()).await?
    else {
        return Ok(page.unknown());
    };
    if asked.question.state != QuestionState::Open {
        return Ok(page.question(StatusCode::CONFLICT, &asked));
    }
    let Ok(Form(Decision { decision, message })) = request.extract::<Form<Decision>, _>().await else {
        return Ok(page.refused("The form must say `decision=approve` or `decision=reject`."));
    };
    let message = Some(message.trim().to_owned()).filter(|message| !message.is_empty());
    let Some(mut answer) = asked.question.asked.plain_answer(decision == Word::Approve, message) else {
        return Ok(page.refused("This question needs another answer than yes or no."));
    };
    storable_value(&mut answer);
    if let Err(wrong) = asked.question.asked.check_answer(&answer) {
        return Ok(page.refused(&format!("{} {}", wrong.pointer, wrong.reason)));
    }
    let by = answered_by.as_deref().unwrap_or(ANYONE);
    Ok(match accept(&app, store, asked.question.asked.id, &answer, Some(by)).await? {
        Answered::Now(asked) => {
            audit::record_link(&app, store, by, asked.question.asked.id).await;
            page.question(StatusCode::OK, &asked)
        }
        Answered::Closed(asked) => page.question(StatusCode::CONFLICT, &asked),
    })
}

/// The question of a link, and who opens it. `None`: there is no such link. Wrong links count as wrong keys do.
///
/// # Errors
/// [`crate::error::ApiError::TooManyKeys`] when the address has sent too many of them; the store's errors.
async fn open<'a>(
    app: &'a App,
    path: Option<Path<(String, String)>>,
    peer: Option<&Peer>,
) -> Result<Option<(AskedQuestion, LinkHolder<'a>)>> {
    let Some(Path((id, token))) = path else { return Ok(None) };
    let attempt = app.peers.attempt(peer)?;
    let Ok(id) = id.parse::<QuestionId>() else { return Ok(None) };
    let Some(holder) = app.api_store().approval_link(id, &token).await? else { return Ok(None) };
    attempt.uncount();
    let asked = if_found(holder.store.question(id).await)?;
    Ok(asked.map(|asked| (asked, holder)))
}

const STYLE: &str = "\
:root{color-scheme:light dark;--edge:light-dark(#d0d5dd,#3a3f4b);--soft:light-dark(#f6f7f9,#1c1f26);--dim:light-dark(#586074,#9aa3b5)}\
body{margin:0;font:16px/1.5 system-ui,sans-serif;background:light-dark(#fff,#121419)}\
main{max-width:42rem;margin:0 auto;padding:2rem 1rem}\
h1{font-size:1.35rem;line-height:1.3;overflow-wrap:anywhere}\
h2{font-size:1rem;margin:1.5rem 0 .25rem}\
pre{margin:0;padding:.75rem;max-height:24rem;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);\
border:1px solid var(--edge);border-radius:.5rem;font:14px/1.5 ui-monospace,monospace}\
p{overflow-wrap:anywhere}.dim{color:var(--dim);font-size:.9rem}\
form{margin-top:1rem;display:flex;gap:.5rem;flex-wrap:wrap}\
input{flex:1 1 12rem;min-width:0;padding:.55rem .75rem;font:inherit;border:1px solid var(--edge);border-radius:.5rem}\
button{padding:.55rem 1.25rem;font:inherit;border:1px solid var(--edge);border-radius:.5rem;background:var(--soft);color:inherit}\
button.yes{background:#1d6f42;border-color:#1d6f42;color:#fff}\
:is(button,input):focus-visible{outline:3px solid #3b82f6;outline-offset:1px}";

/// A page with a nonce of its own for its style.
struct Page {
    nonce: String,
}

impl Page {
    fn new(ids: &Ids) -> Self {
        let mut random = [0; 16];
        ids.fill(&mut random);
        Self { nonce: random.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// The question, with forms while it is open, and what was decided otherwise.
    fn question(&self, status: StatusCode, asked: &AskedQuestion) -> Response {
        let question = &asked.question;
        let text = escaped(&question.asked.text);
        if question.state != QuestionState::Open {
            let closed = closed(question);
            return self.response(status, "Decided", &format!("<h1>{text}</h1><p role=status>{closed}</p>"));
        }
        let mut body = format!("<h1>{text}</h1>");
        if let Some(call) = question.asked.approval.as_deref() {
            let input = serde_json::to_string_pretty(&call.input).unwrap_or_default();
            let _ = write!(
                body,
                "<h2>Tool</h2><pre>{}</pre><h2>Arguments</h2><pre tabindex=0>{}</pre>",
                escaped(&call.tool),
                escaped(&input)
            );
            if let Some(preview) = &call.preview {
                let _ =
                    write!(body, "<h2>What it would change</h2><pre tabindex=0>{}</pre>", escaped(preview));
            }
        }
        let _ = write!(body, "<p class=dim>{}</p>", times(question));
        let [yes, no] = words(question);
        let reason = question.asked.approval.is_some().then(|| {
            format!("<input name=message maxlength={MAX_MESSAGE_CHARS} aria-label=\"Why not\" placeholder=\"Why not (optional)\">")
        });
        // Two forms: Enter in the field of one must not send the other.
        let _ = write!(
            body,
            "<form method=post><button class=yes name=decision value=approve>{yes}</button></form>\
             <form method=post>{}<button name=decision value=reject>{no}</button></form>",
            reason.unwrap_or_default()
        );
        self.response(status, "Decide", &body)
    }

    /// There is no such link.
    fn unknown(&self) -> Response {
        let body =
            "<h1>This link does not work</h1><p>It is not complete, or what it asked about was deleted.</p>";
        self.response(StatusCode::NOT_FOUND, "Unknown link", body)
    }

    /// The decision cannot be read; nothing was decided.
    fn refused(&self, reason: &str) -> Response {
        let body = format!("<h1>Nothing was decided</h1><p>{}</p>", escaped(reason));
        self.response(StatusCode::UNPROCESSABLE_ENTITY, "Nothing was decided", &body)
    }

    fn response(&self, status: StatusCode, title: &str, body: &str) -> Response {
        let nonce = &self.nonce;
        let html = format!(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
             <title>{title} · Houston</title><style nonce={nonce}>{STYLE}</style><main>{body}</main></html>\n"
        );
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        );
        let fixed = |value| HeaderValue::from_static(value);
        let headers = [
            (header::CONTENT_TYPE, fixed("text/html; charset=utf-8")),
            (header::CACHE_CONTROL, fixed("no-store")),
            (header::REFERRER_POLICY, fixed("no-referrer")),
            (HeaderName::from_static("x-robots-tag"), fixed("noindex, nofollow")),
            (
                header::CONTENT_SECURITY_POLICY,
                HeaderValue::from_str(&policy).unwrap_or_else(|_| fixed("default-src 'none'")),
            ),
        ];
        (status, headers, html).into_response()
    }
}

/// What the buttons say.
fn words(question: &Question) -> [&'static str; 2] {
    match (question.asked.approval.is_some(), question.asked.kind) {
        (true, _) => ["Approve", "Reject"],
        (false, QuestionKind::Budget) => ["Spend more", "Stop"],
        (false, _) => ["Go on", "Stop"],
    }
}

fn times(question: &Question) -> String {
    let time = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M UTC").to_string();
    let asked = format!("Asked {}.", time(question.created_at));
    match question.asked.expires_at {
        Some(at) => format!("{asked} Without an answer it is refused {}.", time(at)),
        None => asked,
    }
}

/// How a question was closed. The arguments of its call are left out then.
fn closed(question: &Question) -> String {
    let by = question.answered_by.as_deref().map_or_else(String::new, |by| format!(" by {}", escaped(by)));
    match question.state {
        QuestionState::Answered => {
            let said = question.answer.as_ref().and_then(|answer| answer["decision"].as_str());
            format!("Decided{by}: {}.", escaped(said.unwrap_or("answered")))
        }
        QuestionState::Expired => "No answer came in time, so it was refused.".to_owned(),
        QuestionState::Superseded => {
            "It is not asked any more: the user wrote a message, or the agent went on.".to_owned()
        }
        QuestionState::Cancelled => "It is not asked any more: the run has ended.".to_owned(),
        QuestionState::Open => "It is open.".to_owned(),
    }
}

/// Text as HTML. What could change how other text is displayed becomes visible: `\u{202e}`.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(letter),
            letter if is_hidden(letter) || letter.is_control() => html.extend(letter.escape_unicode()),
            letter => html.push(letter),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_strangers_is_read_and_not_obeyed() {
        assert_eq!(
            escaped("<script>alert('x')</script> & \"y\""),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;y&quot;"
        );
        assert_eq!(escaped("to: evil\u{202e}moc.doog\u{0}\nend"), "to: evil\\u{202e}moc.doog\\u{0}\nend");
    }
}

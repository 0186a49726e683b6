//! Pages and documents, also hostile ones, converted in the child.

use houston_sandbox::{Conversion, Converted};
use houston_testkit::pdf;

use crate::runs::sandbox;

async fn markdown(html: &str) -> Converted {
    sandbox().convert(Conversion::HtmlToMarkdown, html.as_bytes(), 1 << 20).await.unwrap()
}

fn text(converted: &Converted) -> &str {
    match converted {
        Converted::Text { text, .. } => text,
        Converted::Unreadable(reason) => reason,
    }
}

#[tokio::test]
async fn pages_become_markdown() {
    let page = "<title>T</title><nav>menu</nav><h1>A heading</h1><p>Text with a <a href='/x'>link</a>.</p><script>bad()</script>";
    let converted = markdown(page).await;
    assert!(text(&converted).contains("# A heading\n\nText with a [link](/x)."), "{converted:?}");
    assert!(!text(&converted).contains("bad") && !text(&converted).contains("menu"), "{converted:?}");
}

#[tokio::test]
async fn long_pages_are_cut_and_say_so() {
    let page = format!("<p>{}</p>", "ä".repeat(100_000));
    let converted = sandbox().convert(Conversion::HtmlToMarkdown, page.as_bytes(), 1001).await.unwrap();
    let Converted::Text { text, cut } = converted else { panic!("{converted:?}") };
    assert!(cut);
    assert_eq!(text.len(), 1000);
}

#[tokio::test]
#[ignore = "a core for half a minute; `cargo xtask test --long`, a part of `cargo xtask evidence`"]
async fn hostile_pages_end_only_their_child() {
    let deep = |tag: &str, depth: usize| format!("<{tag}>").repeat(depth) + "text";
    for (name, page) in [
        ("divs", deep("div", 20_000)),
        ("many divs", deep("div", 400_000)),
        ("lists", deep("ul><li", 20_000)),
        ("tables", deep("table><tr><td", 20_000)),
        ("formatting", deep("b><i", 20_000)),
        ("attributes", format!("<p {}>x</p>", "a='b' ".repeat(200_000))),
        ("entities", "&amp;&#x41;&nbsp;".repeat(100_000)),
        ("unclosed", "<".repeat(1_000_000)),
        ("zero bytes", "\0".repeat(100_000)),
    ] {
        match markdown(&page).await {
            Converted::Text { .. } => {}
            Converted::Unreadable(reason) => {
                assert!(reason.contains("too deeply") || reason.contains("too long"), "{name}: {reason}");
            }
        }
    }
    assert_eq!(text(&markdown("<p>still here</p>").await), "still here");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_converted_as_far_as_possible() {
    let converted = sandbox().convert(Conversion::HtmlToMarkdown, b"<p>a\xff\xfeb</p>", 1000).await.unwrap();
    assert_eq!(text(&converted), "a\u{fffd}\u{fffd}b");
}

#[tokio::test]
async fn pdf_becomes_text() {
    let bytes = pdf::of_lines(&["Hello, PDF", "second line"]);
    let converted = sandbox().convert(Conversion::PdfToText, &bytes, 1000).await.unwrap();
    assert_eq!(text(&converted).trim(), "Hello, PDF\nsecond line");
}

#[tokio::test]
async fn damaged_and_hostile_pdfs_end_only_their_child() {
    let whole = pdf::of_content("BT /F1 12 Tf (text) Tj ET");
    let mut documents = vec![
        Vec::new(),
        b"%PDF-1.4".to_vec(),
        b"no pdf at all".to_vec(),
        pdf::of_content(&"[".repeat(200_000)),
        pdf::of_content(&"<<".repeat(200_000)),
        pdf::of_content(&format!("BT /F1 12 Tf {} ET", "(a) Tj ".repeat(100_000))),
    ];
    documents.extend((1..40).map(|part| whole[..whole.len() * part / 40].to_vec()));
    documents.extend((0..40).map(|at| {
        let mut damaged = whole.clone();
        let at = at * damaged.len() / 40;
        damaged[at] ^= 0x15;
        damaged
    }));
    for document in documents {
        // Any answer will do: what must not happen is an error of the sandbox.
        let converted = sandbox().convert(Conversion::PdfToText, &document, 10_000).await.unwrap();
        assert!(!text(&converted).is_empty());
    }
}

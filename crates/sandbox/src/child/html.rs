//! HTML to Markdown.

use htmd::HtmlToMarkdown;

/// What is not the text of a page.
const SKIPPED: [&str; 8] = ["script", "style", "nav", "header", "footer", "svg", "noscript", "template"];

/// The page as Markdown; bytes that are not UTF-8 become U+FFFD.
pub(super) fn to_markdown(html: &[u8]) -> Result<String, String> {
    let converter = HtmlToMarkdown::builder().skip_tags(SKIPPED.to_vec()).build();
    converter.convert(&String::from_utf8_lossy(html)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::to_markdown;

    #[test]
    fn text_is_kept_and_navigation_is_not() {
        let page = "<html><head><title>Title</title><style>p{}</style></head><body><nav>menu</nav><header>top</header>\
            <h1>Heading</h1><p>A <b>bold</b> <a href=\"https://example.org/\">link</a>.</p><ul><li>one<li>two</ul>\
            <script>alert(1)</script><svg><text>drawn</text></svg><footer>end</footer></body></html>";
        let markdown = to_markdown(page.as_bytes()).unwrap();
        assert!(markdown.contains("# Heading"), "{markdown}");
        assert!(markdown.contains("A **bold** [link](https://example.org/)."), "{markdown}");
        assert!(markdown.contains("one") && markdown.contains("two"), "{markdown}");
        for absent in ["menu", "top", "alert", "drawn", "end", "p{}"] {
            assert!(!markdown.contains(absent), "{absent} is in {markdown}");
        }
    }
}

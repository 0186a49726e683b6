//! PDF to text: what the pages show, line by line, in the order of their content.

use std::collections::BTreeMap;

use lopdf::content::{Content, Operation};
use lopdf::{Document, Encoding, LoadOptions, Object, ObjectId};

/// Bytes that one stream may unpack to.
const MAX_STREAM: usize = 32 << 20;
/// A gap in a `TJ` array that separates words, in thousandths of the font size.
const WORD_GAP: f32 = -180.0;

/// The text of the pages, with an empty line between them. Stops after `output` bytes.
pub(super) fn to_text(pdf: &[u8], output: usize) -> Result<String, String> {
    let options = LoadOptions { max_decompressed_size: Some(MAX_STREAM), ..LoadOptions::default() };
    let mut document = Document::load_mem_with_options(pdf, options)
        .map_err(|error| format!("this is no readable PDF: {error}"))?;
    if document.is_encrypted() {
        document.decrypt("").map_err(|_| "the PDF is encrypted with a password".to_owned())?;
    }
    let (mut text, mut failed) = (String::new(), 0_usize);
    for (_, page) in document.get_pages() {
        if text.len() > output {
            break;
        }
        match page_text(&document, page) {
            Ok(page) if page.trim().is_empty() => {}
            Ok(page) => {
                text.push_str(page.trim());
                text.push_str("\n\n");
            }
            Err(_) => failed += 1,
        }
    }
    match (text.is_empty(), failed) {
        (true, 0) => Err("the PDF has no text; its pages may be images".to_owned()),
        (true, failed) => Err(format!("none of its {failed} pages can be read")),
        (false, _) => Ok(text),
    }
}

fn page_text(document: &Document, page: ObjectId) -> lopdf::Result<String> {
    let fonts = document.get_page_fonts(page)?;
    let encodings: BTreeMap<Vec<u8>, Encoding> = fonts
        .into_iter()
        .filter_map(|(name, font)| {
            Some((name, font.get_font_encoding_with_limit(document, MAX_STREAM).ok()?))
        })
        .collect();
    let content = Content::decode(&document.get_page_content_with_limit(page, MAX_STREAM)?)?;
    let mut page = Page {
        encodings,
        font: None,
        size: 1.0,
        leading: 0.0,
        at: (0.0, 0.0),
        line: None,
        text: String::new(),
    };
    for operation in &content.operations {
        page.apply(operation);
    }
    Ok(page.text)
}

/// The state of the text operators of a page (ISO 32000-1, 9.3 and 9.4), as far as lines and words need it.
struct Page<'a> {
    encodings: BTreeMap<Vec<u8>, Encoding<'a>>,
    font: Option<Vec<u8>>,
    size: f32,
    leading: f32,
    /// Where the current line begins.
    at: (f32, f32),
    /// Where the last text began.
    line: Option<(f32, f32)>,
    text: String,
}

impl Page<'_> {
    fn apply(&mut self, operation: &Operation) {
        let operands = operation.operands.as_slice();
        let number = |at: usize| operands.get(at).and_then(|operand| operand.as_float().ok()).unwrap_or(0.0);
        match operation.operator.as_str() {
            "BT" => self.at = (0.0, 0.0),
            "Tf" => {
                self.font = operands.first().and_then(|name| name.as_name().ok()).map(<[u8]>::to_vec);
                self.size = number(1).abs().max(1.0);
            }
            "TL" => self.leading = number(0),
            "Td" => self.step(number(0), number(1)),
            "TD" => {
                self.leading = -number(1);
                self.step(number(0), number(1));
            }
            "Tm" => {
                self.at = (number(4), number(5));
                // The size of the font is often in the matrix.
                self.size = self.size.max(number(3).abs());
            }
            "T*" => self.step(0.0, -self.leading),
            "Tj" => self.show(operands),
            "TJ" => {
                if let Some(Ok(parts)) = operands.first().map(Object::as_array) {
                    self.show(parts);
                }
            }
            "'" => {
                self.step(0.0, -self.leading);
                self.show(operands);
            }
            "\"" => {
                self.step(0.0, -self.leading);
                self.show(operands.get(2..).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn step(&mut self, x: f32, y: f32) {
        self.at = (self.at.0 + x, self.at.1 + y);
    }

    fn show(&mut self, parts: &[Object]) {
        self.separate();
        for part in parts {
            if let Object::String(bytes, _) = part {
                let decoded = self
                    .font
                    .as_ref()
                    .and_then(|font| self.encodings.get(font))
                    .and_then(|encoding| Document::decode_text(encoding, bytes).ok());
                // Zero bytes and the like would reach the model as they are.
                let printed = decoded.unwrap_or_default();
                self.text.extend(printed.chars().filter(|letter| !letter.is_control() || *letter == '\n'));
            } else if part.as_float().is_ok_and(|gap| gap < WORD_GAP) && !self.text.ends_with([' ', '\n']) {
                self.text.push(' ');
            }
        }
    }

    /// Begins a new line, paragraph or word if the position has moved since the last text.
    fn separate(&mut self) {
        let Some((x, y)) = self.line.replace(self.at) else { return };
        let down = (y - self.at.1).abs();
        if down > self.size * 1.9 {
            self.text.push_str("\n\n");
        } else if down > self.size * 0.4 {
            self.text.push('\n');
        } else if (self.at.0 - x).abs() > f32::EPSILON && !self.text.ends_with([' ', '\n']) {
            self.text.push(' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use lopdf::{Stream, dictionary};

    use super::*;

    /// A PDF with one page for each content.
    fn pdf(contents: &[&str]) -> Vec<u8> {
        let mut document = Document::with_version("1.5");
        let pages = document.new_object_id();
        let font = document.add_object(dictionary! {
            "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Helvetica", "Encoding" => "WinAnsiEncoding",
        });
        let kids: Vec<Object> = contents
            .iter()
            .map(|content| {
                let content = document.add_object(Stream::new(dictionary! {}, content.as_bytes().to_vec()));
                let page = dictionary! {
                    "Type" => "Page",
                    "Parent" => pages,
                    "Contents" => content,
                    "Resources" => dictionary! { "Font" => dictionary! { "F1" => font } },
                };
                document.add_object(page).into()
            })
            .collect();
        let count = i64::try_from(kids.len()).unwrap();
        document.objects.insert(
            pages,
            Object::Dictionary(dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count }),
        );
        let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => pages });
        document.trailer.set("Root", catalog);
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn lines_words_and_pages_are_kept_apart() {
        let first = "BT /F1 12 Tf 72 700 Td (First line) Tj 0 -14 Td [(Second) -300 (line)] TJ \
            0 -40 Td (A paragraph) Tj ET";
        let bytes = pdf(&[first, "BT /F1 12 Tf 72 700 Td (Page two) Tj ET"]);
        assert_eq!(
            to_text(&bytes, 1 << 20).unwrap(),
            "First line\nSecond line\n\nA paragraph\n\nPage two\n\n"
        );
    }

    #[test]
    fn what_is_no_pdf_or_has_no_text_is_said() {
        assert!(to_text(b"not a pdf", 1 << 20).unwrap_err().contains("no readable PDF"));
        assert!(to_text(&pdf(&["0 0 m 10 10 l S"]), 1 << 20).unwrap_err().contains("no text"));
    }
}

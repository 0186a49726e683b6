//! Small PDF documents.

use std::fmt::Write as _;

/// A document of one page with these lines. Parentheses and backslashes in them must be in pairs.
pub fn of_lines(lines: &[&str]) -> Vec<u8> {
    let mut content = "BT /F1 12 Tf 72 700 Td".to_owned();
    for line in lines {
        _ = write!(content, " ({line}) Tj 0 -14 Td");
    }
    of_content(&(content + " ET"))
}

/// A document of one page with this content stream.
pub fn of_content(content: &str) -> Vec<u8> {
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>".to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
    ];
    let mut document = "%PDF-1.4\n".to_owned();
    let mut offsets = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        offsets.push(document.len());
        _ = write!(document, "{} 0 obj\n{object}\nendobj\n", number + 1);
    }
    let table = document.len();
    document += "xref\n0 6\n0000000000 65535 f \n";
    for offset in offsets {
        _ = writeln!(document, "{offset:010} 00000 n ");
    }
    _ = write!(document, "trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n");
    document.into_bytes()
}

//! Results as JUnit XML, which CI systems read.

/// The longest text of a case, in characters.
const MOST: usize = 20_000;

/// A case with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    name: String,
    outcome: Outcome,
    output: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Case {
    pub(super) fn passed(name: String) -> Self {
        Self { name, outcome: Outcome::Passed, output: None }
    }

    pub(super) fn failed(name: String, lines: &[String]) -> Self {
        Self { name, outcome: Outcome::Failed(lines.join("\n")), output: None }
    }

    /// One whose failure is expected.
    pub(super) fn skipped(name: String, lines: &[String]) -> Self {
        Self { name, outcome: Outcome::Skipped(lines.join("; ")), output: None }
    }

    /// The same with what was printed about it.
    pub(super) fn saying(self, output: String) -> Self {
        Self { output: Some(output), ..self }
    }

    fn xml(&self) -> String {
        let mut inner = match &self.outcome {
            Outcome::Passed => String::new(),
            Outcome::Failed(text) => {
                let first = text.lines().next().unwrap_or_default();
                format!("    <failure message=\"{}\">{}</failure>\n", escaped(first), escaped(text))
            }
            Outcome::Skipped(text) => format!("    <skipped message=\"{}\"/>\n", escaped(text)),
        };
        if let Some(output) = &self.output {
            inner += &format!("    <system-out>{}</system-out>\n", escaped(output));
        }
        let name = escaped(&self.name);
        match inner.is_empty() {
            true => format!("  <testcase classname=\"houston\" name=\"{name}\"/>\n"),
            false => format!("  <testcase classname=\"houston\" name=\"{name}\">\n{inner}  </testcase>\n"),
        }
    }
}

/// A test suite with these cases.
pub(super) fn junit(suite: &str, cases: &[Case]) -> String {
    let count = |is_meant: fn(&Outcome) -> bool| cases.iter().filter(|case| is_meant(&case.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let cases_xml: String = cases.iter().map(Case::xml).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" \
         errors=\"0\" skipped=\"{skipped}\">\n{cases_xml}</testsuite>\n",
        escaped(suite),
        cases.len()
    )
}

/// Text for XML, without characters that XML does not have, and not longer than people read.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len().min(MOST));
    for c in text.chars().take(MOST) {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\n' | '\t' => xml.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => xml.push('?'),
            c => xml.push(c),
        }
    }
    xml
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;

    /// The elements of a document that is well formed, with their attributes; texts are `#text`.
    fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
        let mut reader = Reader::from_str(xml);
        let mut elements = Vec::new();
        let mut open = 0_usize;
        loop {
            let event = reader.read_event().unwrap();
            match &event {
                Event::Eof => {
                    assert_eq!(open, 0, "{xml}");
                    return elements;
                }
                Event::Start(element) | Event::Empty(element) => {
                    open += usize::from(matches!(event, Event::Start(_)));
                    let attribute = |found: quick_xml::events::attributes::Attribute<'_>| {
                        let key = String::from_utf8(found.key.as_ref().to_vec()).unwrap();
                        let value = String::from_utf8(found.value.to_vec()).unwrap();
                        (key, quick_xml::escape::unescape(&value).unwrap().into_owned())
                    };
                    let attributes = element.attributes().map(|found| attribute(found.unwrap()));
                    let name = String::from_utf8(element.name().as_ref().to_vec()).unwrap();
                    elements.push((name, attributes.collect()));
                }
                Event::End(_) => open -= 1,
                _ => {}
            }
        }
    }

    #[test]
    fn hostile_texts_make_well_formed_xml() {
        let hostile = "]]></failure><x a=\"b\"> & 'y' \u{1b}[31m\u{0}\u{fffe}ä&#0;";
        let cases = [
            Case::passed("a".to_owned()).saying(hostile.to_owned()),
            Case::failed(hostile.to_owned(), &[hostile.to_owned(), "second".to_owned()]),
            Case::skipped("c".to_owned(), &[hostile.to_owned()]),
        ];
        let found = elements(&junit(hostile, &cases));
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let expected = ["testsuite", "testcase", "system-out", "testcase", "failure", "testcase", "skipped"];
        assert_eq!(names, expected);
        let of = |element: usize, name: &str| {
            found[element].1.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap()
        };
        assert_eq!([of(0, "tests"), of(0, "failures"), of(0, "skipped")], ["3", "1", "1"]);
        let expected = "]]></failure><x a=\"b\"> & 'y' ?[31m??ä&#0;";
        assert_eq!([of(0, "name"), of(3, "name"), of(6, "message")], [expected, expected, expected]);
    }

    #[test]
    fn texts_have_a_limit() {
        let case = Case::failed("a".to_owned(), &["<".repeat(1_000_000)]);
        assert!(junit("s", &[case]).len() < 10 * MOST);
    }
}

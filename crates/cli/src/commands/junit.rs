//! Results as JUnit XML, which CI systems read.

/// The longest text of a case, in characters.
const MOST: usize = 20_000;

/// What became of a case: without a failure and a reason to skip it, it has passed.
#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) failure: Option<String>,
    pub(super) skipped: Option<String>,
    pub(super) output: Option<String>,
}

impl Case {
    fn xml(&self) -> String {
        let mut inner = String::new();
        if let Some(text) = &self.failure {
            let first = text.lines().next().unwrap_or_default();
            inner += &format!("    <failure message=\"{}\">{}</failure>\n", escaped(first), escaped(text));
        }
        if let Some(text) = &self.skipped {
            inner += &format!("    <skipped message=\"{}\"/>\n", escaped(text));
        }
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
    let failed = cases.iter().filter(|case| case.failure.is_some()).count();
    let skipped = cases.iter().filter(|case| case.skipped.is_some()).count();
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
            Case { output: Some(hostile.to_owned()), ..Case::default() },
            Case { name: hostile.to_owned(), failure: Some(format!("{hostile}\nsecond")), ..Case::default() },
            Case { skipped: Some(hostile.to_owned()), ..Case::default() },
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
        let case = Case { failure: Some("<".repeat(1_000_000)), ..Case::default() };
        assert!(junit("s", &[case]).len() < 10 * MOST);
    }
}

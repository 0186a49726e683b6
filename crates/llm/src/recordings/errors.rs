use reqwest::header::HeaderMap;
use std::time::Duration;

use super::{are_here, code_of, expected, recordings};
use crate::error;

#[test]
fn recorded_errors_are_classified() {
    if !are_here() {
        return;
    }
    let expected = expected();
    let mut ran = 0;
    for recording in recordings().iter().filter(|recording| recording.status >= 400) {
        let (_, row) = expected.iter().find(|(name, _)| *name == recording.name).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in &recording.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<reqwest::header::HeaderName>(), value.parse()) {
                headers.append(name, value);
            }
        }
        let error = error::refused(recording.status, &headers, &recording.body);
        let code = match recording.name.as_str() {
            // The provider rejected what its own model wrote, as the same error within a stream; the prototype had no
            // code for it.
            "groq/error_400_tool_use_failed" => code_of("Provider"),
            _ => code_of(row["code"].as_str().unwrap()),
        };
        assert_eq!(error.code, code, "{}: {error}", recording.name);
        let wait = row["retry_after_ms"].as_u64().map(Duration::from_millis);
        assert_eq!(error.retry_after, wait, "{}", recording.name);
        assert_eq!(error.status, row["status"].as_u64().map(|status| u16::try_from(status).unwrap()));
        assert!(!error.message.is_empty() && !error.message.contains('<'), "{}: {error}", recording.name);
        ran += 1;
    }
    println!("{ran} recorded errors classified");
    assert!(ran >= 22, "only {ran}");
}

//! What is left of secrets in what a server answers.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn masked(secret: &str, text: &str) -> String {
    Masks::of([secret]).text(text).into_owned()
}

#[test]
fn a_secret_is_taken_out_in_each_form() {
    let secret = "p/ss+w\"rd é&";
    for echoed in [
        secret.to_owned(),
        json!({"authorization": format!("Bearer {secret}")}).to_string(),
        json!({"body": json!({"key": secret}).to_string()}).to_string(),
        "p\\/ss+w\\\"rd \\u00e9&".to_owned(),
        "p%2Fss%2Bw%22rd%20%C3%A9%26".to_owned(),
        "p%2fss%2bw%22rd+%c3%a9%26".to_owned(),
        format!("Basic {}", STANDARD.encode(format!("user:{secret}"))),
        URL_SAFE_NO_PAD.encode(format!("a {secret} b")),
        "p/ss+w&quot;rd é&amp;".to_owned(),
    ] {
        let text = masked(secret, &format!("<<{echoed}>>"));
        assert!(text.contains(REDACTED), "{echoed}");
        assert!(text.starts_with("<<") && text.ends_with(">>"), "{text}");
        assert!(!text.contains("rd"), "{echoed} became {text}");
    }
}

#[test]
fn what_is_no_secret_stays() {
    assert!(matches!(Masks::of(["abc", " "]).text("abc abc"), Cow::Borrowed("abc abc")));
    assert!(Masks::of(["", "  ab "]).is_empty());
    assert!(matches!(Masks::of(["secret"]).text("no sec ret"), Cow::Borrowed(_)));
    let value = json!({"secret": [1, "a secret!", null]});
    assert_eq!(Masks::of(["secret"]).json(value), json!({"[redacted]": [1, "a [redacted]!", null]}));
}

#[test]
fn a_cut_answer_does_not_end_in_the_middle_of_a_secret() {
    let masks = Masks::of(["s3cr3t-key"]);
    let text = |text: &str| String::from_utf8(masks.bytes(text.as_bytes(), true).unwrap()).unwrap();
    assert_eq!(text("key: s3cr3t-k"), "key: [redacted]");
    assert_eq!(text("s3cr3t-key s3cr"), "[redacted] [redacted]");
    assert_eq!(masks.bytes(b"key: s3c", true), None);
}

proptest! {
    #[test]
    fn no_form_of_a_secret_is_left(secret in "[ -~é]{6,24}", before in "[a-z ]{0,7}", after in "[a-z ]{0,7}") {
        prop_assume!(secret.trim() == secret && !before.contains(&secret) && !after.contains(&secret));
        let plain = format!("{before}{secret}{after}");
        let echoes = [
            plain.clone(),
            json!([plain]).to_string(),
            json!([json!([plain]).to_string()]).to_string(),
            percent_encoded(&plain, "-._~", false),
            html_escaped(&plain, "&#39;"),
            hex::encode(&plain),
            STANDARD.encode(&plain),
            URL_SAFE_NO_PAD.encode(&plain),
        ];
        for echoed in echoes {
            let text = masked(&secret, &echoed);
            prop_assert!(text.contains(REDACTED), "{:?} in {:?}", secret, echoed);
            for form in forms_of(&secret).into_iter().filter(|form| form.len() >= SHORTEST) {
                let form = String::from_utf8(form).unwrap();
                prop_assert!(REDACTED.contains(&form) || !text.replace(REDACTED, "\n").contains(&form), "{:?} in {:?}", form, text);
            }
        }
    }
}

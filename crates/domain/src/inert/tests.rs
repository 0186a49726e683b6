//! What is left of addresses.

use proptest::prelude::*;

use super::*;

fn allows(host: &str) -> bool {
    host == "ok.example"
}

fn shown(text: &str) -> String {
    inert(text, allows).0
}

#[test]
fn each_form_of_an_address_is_taken_apart() {
    for (written, expected) in [
        ("![a](https://x.example/i?d=1)", "! [a] (https: //x[.]example/i?d=1)"),
        ("[a](https://x.example/)", "[a] (https: //x[.]example/)"),
        ("![a][b]\n\n[b]: https://x.example/i", "! [a][b]\n\n[b] : https: //x[.]example/i"),
        ("[b]: //x.example/i", "[b] : //x.example/i"),
        ("![a](\n//x.example/i)", "! [a] (\n//x.example/i)"),
        ("![a](&#104;ttp://x.example)", "! [a] (&#104;ttp: //x[.]example)"),
        ("<img\nsrc=//x.example/i>", "< img\nsrc=//x.example/i>"),
        ("<https://x.example/>", "< https: //x[.]example/>"),
        ("</a><!-- --><?x", "< /a>< !-- -->< ?x"),
        ("see https://x.example.", "see https: //x[.]example."),
        ("WWW.x.example", "www[.]x[.]example"),
        ("[a](https://ok.example@x.example/)", "[a] (https: //ok[.]example@x[.]example/)"),
        ("[a](https://ok.example:1@x.example/)", "[a] (https: //ok[.]example:1@x.example/)"),
        ("[a](https://ok.example\\@x.example/)", "[a] (https: //ok[.]example\\@x.example/)"),
        ("[a](//x.example)", "[a] (//x.example)"),
        ("[a](/\\x.example)", "[a] (/\\x.example)"),
        ("[a](<https://ok.example/>)", "[a] (< https://ok.example/>)"),
        ("![a](https://ok.example/i)", "! [a](https://ok.example/i)"),
    ] {
        assert_eq!(inert(written, allows), (expected.to_owned(), true), "{written}");
    }
}

#[test]
fn what_fetches_nothing_from_others_stays() {
    let id = "0190".repeat(8);
    for text in [
        "It costs 3 < 4 [or not] (really): yes! a:b // c".to_owned(),
        "[a](https://ok.example/x?y=1) and https://ok.example".to_owned(),
        "[a](/docs/x) [b](#top)".to_owned(),
        "See https://ok.example. And www. too".to_owned(),
        format!("![image](/v1/images/image_{id}) [bill.pdf](/v1/attachments/att_{id})"),
        format!("![a b.png](/v1/attachments/att_{id})"),
    ] {
        assert_eq!(inert(&text, allows), (text.clone(), false));
    }
    assert_eq!(shown("![i](/v1/images/image_1)"), "! [i](/v1/images/image_1)");
}

/// Pieces of which addresses are made, in any order.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![
        Just("!".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("(".to_owned()),
        Just(")".to_owned()),
        Just("<".to_owned()),
        Just(":".to_owned()),
        Just("/".to_owned()),
        Just("//".to_owned()),
        Just("\\".to_owned()),
        Just("\n".to_owned()),
        Just("www.".to_owned()),
        Just("http".to_owned()),
        Just("https://".to_owned()),
        Just("x.example".to_owned()),
        Just("ok.example".to_owned()),
        Just("img src=".to_owned()),
        Just("/v1/images/image_".to_owned()),
        "[a-zA-Z.é ]{0,4}",
    ];
    prop::collection::vec(piece, 0..24)
}

/// What a client would fetch or follow without showing it.
fn is_dangerous(text: &str) -> Option<String> {
    let at =
        |token: &str| text.match_indices(token).map(|(at, _)| &text[at + token.len()..]).collect::<Vec<_>>();
    let is_ok = |target: &str| {
        let rest = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://"));
        let is_host = |rest: &str| {
            rest.strip_prefix("ok.example").map(|end| end.strip_prefix('.').unwrap_or(end)).is_some_and(
                |end| end.is_empty() || end.starts_with(['/', '?', '#', ')', '>', ',', ';', ' ', '\n']),
            )
        };
        rest.is_some_and(is_host)
    };
    let is_path = |target: &str| {
        let mut first = target.chars();
        let here = (first.next(), first.next());
        matches!(here, (Some('#'), _))
            || matches!(here, (Some('/'), Some(next)) if next.is_ascii_alphanumeric())
    };
    let image = at("![").into_iter().find(|after| !after.contains("](/v1/"));
    let link = at("](").into_iter().find(|target| !is_ok(target) && !is_path(target));
    let tag = at("<")
        .into_iter()
        .find(|after| after.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)));
    let bare = at("://").into_iter().find(|after| !is_ok(&format!("https://{after}")));
    let definition = at("]:").into_iter().next();
    [image, link, tag, bare, definition].into_iter().flatten().next().map(str::to_owned)
}

proptest! {
    #[test]
    fn no_order_of_pieces_leads_past_it(pieces in pieces()) {
        let text = pieces.concat();
        let shown = shown(&text);
        prop_assert_eq!(is_dangerous(&shown), None, "{:?} became {:?}", text, shown);
    }

    #[test]
    fn however_it_is_cut_the_same_is_shown(pieces in pieces()) {
        let text = pieces.concat();
        let mut inert = Inert::default();
        let mut cut: String = pieces.iter().map(|piece| inert.push(piece, allows)).collect();
        prop_assert!(shown(&text).starts_with(&cut));
        cut.push_str(&inert.finish(allows));
        prop_assert_eq!(cut, shown(&text));
        let mut inert = Inert::default();
        let mut single: String = text.chars().map(|c| inert.push(&c.to_string(), allows)).collect();
        single.push_str(&inert.finish(allows));
        prop_assert_eq!(single, shown(&text));
    }

    #[test]
    fn what_is_inert_stays_as_it_is(pieces in pieces()) {
        let once = shown(&pieces.concat());
        prop_assert_eq!(shown(&once), once);
    }
}

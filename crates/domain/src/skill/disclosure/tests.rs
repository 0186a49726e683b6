use proptest::prelude::*;

use super::*;

fn skill(name: &str, source: SkillSource, keywords: &[&str], patterns: &[&str]) -> SkillSummary {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let triggers = Triggers { keywords: texts(keywords), verbs: Vec::new(), patterns: texts(patterns) };
    SkillSummary { name: name.to_owned(), brief: format!("About {name}."), triggers, enabled: true, source }
}

fn tea(name: &str, keywords: &[&str]) -> SkillSummary {
    skill(name, SkillSource::Tenant, keywords, &[])
}

fn texts(skills: &[SkillSummary], message: &str) -> Vec<String> {
    match disclose(skills, message, |_| false) {
        Disclosure::Texts(nths) => nths.into_iter().map(|nth| skills[nth].name.clone()).collect(),
        Disclosure::List => vec!["list".to_owned()],
        Disclosure::Nothing => Vec::new(),
    }
}

#[test]
fn message_decides_what_is_disclosed() {
    let skills = [
        tea("green-tea", &["tea", "green tea"]),
        tea("milk", &[]),
        skill("review", SkillSource::Tenant, &["weekly review"], &["plan\\w* (my|the) week"]),
        tea("wetter", &["天気"]),
    ];
    for (message, wanted) in [
        ("Make some TEA, please", vec!["green-tea"]),
        ("a steamy steak", vec![]),
        ("tea and milk", vec!["milk", "green-tea"]),
        ("/milk", vec!["milk"]),
        ("use the green-tea skill", vec!["green-tea"]),
        ("Let's do the weekly\nreview!", vec!["review"]),
        ("Plan my week", vec!["review"]),
        ("今日の天気は", vec!["wetter"]),
        ("What can you do?", vec!["list"]),
        ("list your skills", vec!["list"]),
        ("", vec![]),
        (" \n", vec![]),
    ] {
        assert_eq!(texts(&skills, message), wanted, "{message}");
    }
    assert_eq!(texts(&[], "What can you do?"), [""; 0], "tier 0");
    let read = disclose(&skills, "tea", |name| name == "green-tea");
    assert_eq!(read, Disclosure::Nothing, "each is read once");
}

#[test]
fn best_three_are_disclosed_in_order() {
    let skills = [
        tea("aa", &["tea"]),
        skill("bb", SkillSource::User, &["tea"], &[]),
        tea("cc", &["a cup of tea"]),
        tea("dd", &["tea", "cup"]),
        tea("ee", &["tea"]),
    ];
    assert_eq!(texts(&skills, "a cup of tea"), ["cc", "dd", "bb"]);
    assert_eq!(texts(&skills, "ee: a cup of tea"), ["ee", "cc", "dd"]);
}

#[test]
fn later_source_counts_and_may_hide() {
    let off = SkillSummary { enabled: false, ..skill("tea", SkillSource::User, &[], &[]) };
    let (bundled, tenant) =
        (skill("tea", SkillSource::Bundled, &[], &[]), skill("tea", SkillSource::Tenant, &[], &[]));
    let sources = |skills: &[&SkillSummary]| {
        available(skills.iter().copied()).iter().map(|skill| skill.source).collect::<Vec<_>>()
    };
    assert_eq!(sources(&[&bundled, &tenant]), [SkillSource::Tenant]);
    assert_eq!(sources(&[&tenant, &bundled, &off]), []);
    let skills = [bundled, skill("milk", SkillSource::Bundled, &["milk"], &[])];
    let standing = standing(&skills);
    assert_eq!((standing.listed.len(), standing.others), (1, 1));
}

#[test]
fn hostile_triggers_and_messages_are_bounded() {
    let slow = "(x+x+)+y|(\\w{1,40}){1,40}";
    let patterns = vec![slow; 10];
    let skills: Vec<SkillSummary> =
        (0..100).map(|n| skill(&format!("s{n}"), SkillSource::Tenant, &["x x y"; 30], &patterns)).collect();
    // Without bounds this takes minutes.
    assert_eq!(disclose(&skills, &"x".repeat(1_000_000), |_| false), Disclosure::Nothing);
    assert_eq!(disclose(&skills, &"x ".repeat(500_000), |_| false), Disclosure::Nothing);
}

proptest! {
    #[test]
    fn disclosure_is_deterministic_and_reads_nothing_twice(
        message in "[a-d ]{0,40}",
        names in proptest::collection::btree_set("[a-d]{1,3}", 0..8),
        words in proptest::collection::vec("[a-d]{1,2}( [a-d]{1,2})?", 8),
        read in "[a-d]{1,3}",
    ) {
        let skills: Vec<SkillSummary> =
            names.iter().zip(&words).map(|(name, word)| tea(name, &[word.as_str()])).collect();
        let one = disclose(&skills, &message, |name| name == read);
        prop_assert_eq!(&one, &disclose(&skills, &message, |name| name == read));
        if let Disclosure::Texts(nths) = one {
            prop_assert!(!nths.is_empty() && nths.len() <= MAX_DISCLOSED);
            let padded = format!(" {} ", message.split_whitespace().collect::<Vec<_>>().join(" "));
            for nth in nths {
                let skill = &skills[nth];
                prop_assert!(skill.name != read);
                let has = |word: &str| padded.contains(&format!(" {word} "));
                prop_assert!(has(&skill.name) || has(&skill.triggers.keywords[0]), "{:?} {}", skill, message);
            }
        }
    }
}

//! Expressions and templates that try to take time, memory or the stack.

pub(super) fn expressions() -> Vec<String> {
    let replaced = |times: usize, by: usize| {
        format!("'x'{}", format!("|replace('x','{}')", "x".repeat(by)).repeat(times))
    };
    vec![
        "nope.result".to_owned(),
        "'x' * 1000000000".to_owned(),
        "[1] * 1000000000".to_owned(),
        "range(1000000000)".to_owned(),
        "2**100000".to_owned(),
        "([[1]*1000]*100000)|length".to_owned(),
        "'x'|center(1000000000)".to_owned(),
        "('x'*1000)|replace('x','y'*1000)".to_owned(),
        "(range(90000)|list)|join('x'*1000)".to_owned(),
        "'a'|indent(1000000000)".to_owned(),
        "'%1000000000s'|format(1)".to_owned(),
        "range(5)|batch(100000000,0)|list|length".to_owned(),
        format!("{}1{}", "(".repeat(3_000), ")".repeat(3_000)),
        format!("{}true", "not ".repeat(249)),
        format!("{}1", "-".repeat(999)),
        format!("a{}", "[0]".repeat(333)),
        format!("a{}", ".b".repeat(499)),
        format!("1{}", "|int".repeat(249)),
        format!("{}1", "1 if 1 else ".repeat(80)),
        vec!["1"; 500].join("+"),
        replaced(7, 16),
        replaced(8, 64),
    ]
}

pub(super) fn templates() -> Vec<String> {
    vec![
        "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}x{% endfor %}{% endfor %}{% endfor %}".to_owned(),
        "{% set s='x' %}{% for a in range(40) %}{% set s = s~s %}{% endfor %}{{s|length}}".to_owned(),
        "{% set ns=namespace(s='x') %}{% for a in range(40) %}{% set ns.s = ns.s~ns.s %}{% endfor %}{{ns.s|length}}".to_owned(),
        "{% set a='x'*1000000 %}{% for i in range(10000) %}{{a}}{% endfor %}".to_owned(),
        format!("{{% set a = 'x' %}}{}{{{{ a }}}}", "{% set a = a ~ a %}".repeat(180)),
        ["{{ ", &"-".repeat(3_900), "1 }}"].concat(), ["{{ ", &"[".repeat(1_900), &"]".repeat(1_900), " }}"].concat(),
        "{% include 'x' %}".to_owned(), "{{ a.nothing }}".to_owned(), "{{ b }}".to_owned(), "{{ 'x' * 100000 }}".to_owned(),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(), "{% if 1 %}".repeat(400),
    ]
}

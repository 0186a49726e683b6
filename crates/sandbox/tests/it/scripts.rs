//! Scripts that try to stay or to grow.

use houston_sandbox::{Host, Limits, NoTools, Outcome, Run, Script};
use serde_json::{Value, json};

use crate::runs::{impatient, run, sandbox, script};

/// How a script ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    Value,
    Thrown,
    Invalid,
    TimedOut,
    OutOfMemory,
    Stuck,
    TooLarge,
    Died,
}

fn end(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Value(_) => End::Value,
        Outcome::Thrown(_) => End::Thrown,
        Outcome::Invalid(_) => End::Invalid,
        Outcome::TimedOut(_) => End::TimedOut,
        Outcome::OutOfMemory(_) => End::OutOfMemory,
        Outcome::Stuck => End::Stuck,
        Outcome::TooLarge { .. } => End::TooLarge,
        Outcome::Died { .. } => End::Died,
    }
}

/// Answers `echo` with its input and `add` with a sum.
pub(crate) struct Calculator;

impl Host for Calculator {
    async fn answer(
        &mut self,
        calls: Vec<houston_sandbox::Call>,
    ) -> Result<Vec<houston_sandbox::Answer>, String> {
        let answer = |call: &houston_sandbox::Call| match call.tool.as_str() {
            "echo" => Ok(call.input.clone()),
            "add" => {
                let number = |name: &str| call.input.get(name).and_then(Value::as_i64).unwrap_or(0);
                Ok(json!(number("a") + number("b")))
            }
            other => Err(format!("{other} fails")),
        };
        Ok(calls.iter().map(answer).collect())
    }
}

pub(crate) fn with_tools(code: &str) -> Script {
    Script { tools: ["echo", "add", "fail"].map(String::from).to_vec(), ..script(code) }
}

pub(crate) async fn run_with_tools(code: &str) -> Run {
    sandbox().run(&with_tools(code), &mut Calculator).await.unwrap()
}

/// Runs each script and checks how it ends, and what its text contains.
pub(crate) async fn check(cases: &[(&str, &str, &[End], &str)]) {
    check_with(cases, |script| script).await;
}

/// The same with little time: for scripts that would not end.
async fn check_stopped(cases: &[(&str, &str, &[End], &str)]) {
    check_with(cases, impatient).await;
}

async fn check_with(cases: &[(&str, &str, &[End], &str)], change: fn(Script) -> Script) {
    let mut wrong = Vec::new();
    for (name, code, ends, text) in cases {
        let script = change(with_tools(code));
        let outcome = sandbox().run(&script, &mut Calculator).await.unwrap().outcome;
        if !ends.contains(&end(&outcome)) || !outcome.text().contains(text) {
            let mut text = outcome.text();
            text.truncate(text.floor_char_boundary(300));
            wrong.push(format!("{name}: {:?} {text}", end(&outcome)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn loops_are_stopped_with_the_right_reason() {
    check_stopped(&[
        ("loop", "while(true){}", &[End::TimedOut], "0.1 s"),
        ("caught", "while(true){ try { while(true){} } catch(e) {} }", &[End::TimedOut], ""),
        ("microtasks", "async function f(){ while(true) await null } await f()", &[End::TimedOut], ""),
        (
            "promises",
            "(function f(){ Promise.resolve().then(f) })(); await new Promise(()=>{})",
            &[End::TimedOut],
            "",
        ),
        ("timers", "const f=()=>setTimeout(f,1); f(); await new Promise(()=>{})", &[End::TimedOut], ""),
        ("interval", "setInterval(()=>{}, 1); await new Promise(()=>{})", &[End::TimedOut], ""),
        ("sort", "[3,2,1].sort(()=>{while(true){}})", &[End::TimedOut], ""),
        ("toString", "const o={toString(){while(true){}}}; return ''+o", &[End::TimedOut], ""),
        ("toJSON", "return await tools.echo({toJSON(){ while(true){} }})", &[End::TimedOut], ""),
        ("regex", "return /^(a+)+$/.test('a'.repeat(40)+'!')", &[End::TimedOut], ""),
        (
            "in an error",
            "throw {get message(){ while(true){} }, toString(){ while(true){} }}",
            &[End::TimedOut, End::Thrown],
            "",
        ),
        ("in a result", "return {toJSON(){ while(true){} }}", &[End::TimedOut], ""),
        ("in a timer", "setTimeout(()=>{ while(true){} }); await new Promise(()=>{})", &[End::TimedOut], ""),
    ])
    .await;
}

#[tokio::test]
async fn native_loops_are_killed() {
    check_stopped(&[
        ("join", "return new Array(4294967295).join('').length", &[End::TimedOut], ""),
        ("long join", "return new Array(1e8).join('abcdefgh').length", &[End::TimedOut], ""),
        (
            "fill",
            "const a = {length: 2**53-1}; return Array.prototype.indexOf.call(a, 1)",
            &[End::TimedOut],
            "",
        ),
        (
            "stringify",
            "let a='x'.repeat(1e6); let o=[]; for(let i=0;i<60;i++) o.push(a); for(;;) JSON.stringify(o)",
            &[End::TimedOut, End::OutOfMemory],
            "",
        ),
        (
            "memory, caught",
            "for(;;){ try { const a=[]; for(;;) a.push('x'.repeat(1e6)+a.length) } catch(e) {} }",
            &[End::TimedOut],
            "",
        ),
    ])
    .await;
}

#[tokio::test]
async fn promises_that_nothing_settles_are_reported() {
    check(&[("never", "await new Promise(()=>{})", &[End::Stuck], "a promise that nothing resolves")]).await;
}

#[tokio::test]
async fn bombs_are_stopped_within_the_memory() {
    let memory: &[End] = &[End::OutOfMemory];
    check(&[
        ("arrays", "const a=[]; for(;;) a.push(new Array(1e6).fill(1))", memory, "64 MiB"),
        ("buffers", "const a=[]; for(;;) a.push(new Uint8Array(16*1024*1024).fill(1))", memory, ""),
        ("map", "const m=new Map(); for(let i=0;;i++) m.set(i,{i})", memory, ""),
        ("closures", "let f=()=>0; for(;;){ const g=f; f=()=>g() }", memory, ""),
        ("strings", "let s='x'; for(;;) s+=s", &[End::Thrown], "string too long"),
        ("repeat", "return 'x'.repeat(2**30).length", &[End::Thrown], "invalid string length"),
        (
            "4 GiB",
            "return new ArrayBuffer(4*1024*1024*1024).byteLength",
            &[End::Thrown],
            "invalid array buffer length",
        ),
        (
            "big numbers",
            "let x=3n; for(let i=0;i<40;i++) x=x*x; return 1",
            &[End::Thrown],
            "BigInt is too large",
        ),
        ("power", "return (2n**(2n**40n)).toString().length", &[End::Thrown], "BigInt is too large"),
        ("getter", "return await tools.echo({get a(){ return 'x'.repeat(1e8) }})", memory, ""),
        ("spread", "const a=[1]; for(;;) a.push(...a)", &[End::Thrown, End::OutOfMemory], ""),
    ])
    .await;
}

#[tokio::test]
async fn deep_nesting_ends_the_script_only() {
    let deep: &[End] = &[End::Thrown];
    check(&[
        ("recursion", "function f(){ return f()+1 } return f()", &[End::Thrown], "stack"),
        ("JSON", "let s='['.repeat(1e6); return JSON.parse(s)", deep, "stack size"),
        ("source", "return eval('('.repeat(1e5)+'1'+')'.repeat(1e5))", deep, "stack size"),
        ("regex", "return new RegExp('('.repeat(1e5)+')'.repeat(1e5))", deep, "too many captures"),
        (
            "prototypes",
            "let o={}; for(let i=0;i<1e5;i++) o=Object.create(o); return o.x ?? 'none'",
            &[End::Value],
            "none",
        ),
        (
            "many prototypes",
            "let o={}; for(let i=0;i<1e6;i++) o=Object.create(o); return o.x",
            &[End::OutOfMemory],
            "",
        ),
        (
            "result",
            "let a=[]; for(let i=0;i<500;i++) a=[a]; return a",
            &[End::Thrown],
            "nested deeper than 100",
        ),
        (
            "input",
            "let a=[]; for(let i=0;i<500;i++) a=[a]; return tools.echo(a)",
            &[End::Thrown],
            "nested deeper than 100",
        ),
        ("written", &"(".repeat(20_000), &[End::Invalid, End::Died], ""),
        (
            "written closed",
            &format!("return {}1{}", "[".repeat(20_000), "]".repeat(20_000)),
            &[End::Invalid, End::Died, End::Thrown],
            "",
        ),
    ])
    .await;
}

#[tokio::test]
async fn output_is_bounded_and_says_so() {
    let flood = run("const x='x'.repeat(1000); for(let i=0;i<1e4;i++) console.log(x); return 1").await;
    assert_eq!(end(&flood.outcome), End::Value);
    assert!(flood.console.len() < 70_000, "{}", flood.console.len());
    let is_cut = |run: &Run| run.console.ends_with("\n[the console had more, which was cut]\n");
    assert!(is_cut(&flood));
    let endless = impatient(script("const x='x'.repeat(1000); for(;;) console.log(x)"));
    let endless = sandbox().run(&endless, &mut Calculator).await.unwrap();
    assert_eq!((end(&endless.outcome), is_cut(&endless)), (End::TimedOut, true));
    let empty = script("for(let i=0;i<1e4;i++) console.log(); return 1");
    let empty = Script { limits: Limits { console: 1000, ..empty.limits }, ..empty };
    let empty = sandbox().run(&empty, &mut NoTools).await.unwrap();
    assert!(is_cut(&empty) && empty.console.lines().count() == 1001);
    let huge = run("return 'x'.repeat(3*1024*1024)").await;
    assert_eq!(huge.outcome, Outcome::TooLarge { bytes: 3 * 1024 * 1024 + 2, limit: 256 << 10 });
    assert!(huge.outcome.text().contains("Return a summary"));
}

#[tokio::test]
async fn stopped_scripts_keep_their_console() {
    let endless = impatient(script("console.log('before'); while(true){}"));
    let run = sandbox().run(&endless, &mut Calculator).await.unwrap();
    assert_eq!(end(&run.outcome), End::TimedOut);
    assert_eq!(run.console, "before\n");
}

#[tokio::test]
async fn odd_results_are_reported_in_words() {
    check(&[
        ("throws an object", "throw {toString(){ throw 1 }}", &[End::Thrown], "thrown: {}"),
        ("throws a string", "throw 'a reason'", &[End::Thrown], "thrown: a reason"),
        ("throws in toJSON", "return {toJSON(){ throw new Error('x') }}", &[End::Thrown], "Error: x"),
        ("circular", "const a={}; a.a=a; return a", &[End::Thrown], "cannot be written as JSON"),
        ("big number", "return {n: 1n}", &[End::Thrown], "cannot be written as JSON"),
        ("symbol", "return Symbol('x')", &[End::Value], "null"),
        ("nothing", "1 + 1", &[End::Value], "null"),
        ("surrogate", "return '\\u0000\\ud800'", &[End::Value], "\"\\u0000\u{fffd}\""),
        ("syntax", "let x = ;", &[End::Invalid], "(line 1, column 9)"),
        ("position", "const a = 1;\n\nreturn a.b.c", &[End::Thrown], "(line 3, column"),
        ("zero character", "return '\0'", &[End::Invalid], "(line 1, column 9)"),
    ])
    .await;
}

#[tokio::test]
async fn long_code_is_refused_without_a_child() {
    let outcome = run(&"x".repeat(50_001)).await.outcome;
    assert!(outcome.text().contains("50001 characters, and 50000 are allowed"), "{}", outcome.text());
    let outcome = run(&format!("/*{}*/ return 1", "x".repeat(49_980))).await.outcome;
    assert_eq!(outcome, Outcome::Value(json!(1)));
}

#[tokio::test]
async fn limits_are_those_that_were_asked_for() {
    let limits = Limits { memory: 4 << 20, console: 10, output: 20, ..script("").limits };
    let small = |code: &str| Script { limits, ..script(code) };
    let run = sandbox().run(&small("const a=[]; for(;;) a.push({})"), &mut Calculator).await.unwrap();
    assert_eq!(run.outcome, Outcome::OutOfMemory(4 << 20));
    let none = Script { limits: Limits { memory: 0, ..limits }, ..small("for (const a = [];;) a.push({})") };
    let run = sandbox().run(&none, &mut Calculator).await.unwrap();
    assert_eq!(run.outcome, Outcome::OutOfMemory(1 << 20), "no limit is not possible");
    let run =
        sandbox().run(&small("console.log('äöü'.repeat(9)); return 'x'.repeat(30)"), &mut Calculator).await;
    let run = run.unwrap();
    assert_eq!(run.outcome, Outcome::TooLarge { bytes: 32, limit: 20 });
    assert!(run.console.starts_with("äöüäö\n["), "{}", run.console);
}

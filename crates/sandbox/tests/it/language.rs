//! What scripts find: the language, TypeScript, and the small pieces of the web platform.

use houston_sandbox::{Language, NoTools, Outcome, Script};
use serde_json::json;

use crate::runs::{run, sandbox, script, value};

#[tokio::test]
async fn modern_javascript_runs() {
    let code = "const groups = Object.groupBy([1, 2, 3], (n) => n % 2 ? 'odd' : 'even');\n\
        const sorted = [3, 1, 2].toSorted().with(0, 9);\n\
        const set = new Set([1, 2]).union(new Set([3]));\n\
        return [groups.odd, sorted, set.size, await Array.fromAsync([Promise.resolve(1)]), /\\p{L}/v.test('ä')]";
    assert_eq!(value(code).await, "[[1,3],[9,2,3],3,[1],true]");
}

#[tokio::test]
async fn typescript_runs_without_its_types() {
    let code = "enum Size { Small = 1, Large }\n\
        interface Box { size: Size; label?: string }\n\
        class Shelf { constructor(private boxes: Box[] = []) {} add(box: Box): this { this.boxes.push(box); return this }\n\
          total(): number { return this.boxes.reduce<number>((sum, box) => sum + box.size, 0) } }\n\
        const shelf = new Shelf().add({ size: Size.Large }).add({ size: Size.Small } satisfies Box);\n\
        return await Promise.resolve(shelf.total() as number)";
    let typescript = |code: &str| Script { language: Language::TypeScript, ..script(code) };
    let run = sandbox().run(&typescript(code), &mut NoTools).await.unwrap();
    assert_eq!(run.outcome, Outcome::Value(json!(3)));
    let run = sandbox().run(&typescript("const a: number = ;\n"), &mut NoTools).await.unwrap();
    assert!(run.outcome.text().contains("(line 1, column 19)"), "{}", run.outcome.text());
    let nested = format!("type T = {}1{};", "A<".repeat(16_000), ">".repeat(16_000));
    let run = sandbox().run(&typescript(&nested), &mut NoTools).await.unwrap();
    assert!(
        matches!(run.outcome, Outcome::Value(_) | Outcome::Died { .. } | Outcome::Invalid(_)),
        "{:?}",
        run.outcome
    );
}

#[tokio::test]
async fn console_shows_values_as_text() {
    let run = run(
        "console.log('a', 1, {b: [2]}, null, undefined, 3n, new Map([['k', 1]]), new Set([1]), Symbol('s'));\n\
         console.error(new TypeError('bad')); console.assert(1 === 2, 'math'); console.log(function f() {});\n\
         const c = {}; c.c = c; console.log(c, '\\ud800')",
    )
    .await;
    assert_eq!(
        run.console,
        "a 1 {\"b\":[2]} null undefined 3n Map [[\"k\",1]] Set [1] Symbol(s)\nerror: TypeError: bad\n\
         error: assertion failed math\n[function f]\n[a value without text] \u{fffd}\n"
    );
}

#[tokio::test]
async fn time_moves_only_to_timers_that_are_due() {
    let code = "const log = []; const t0 = Date.now();\n\
        setTimeout(() => log.push('late'), 2000); setTimeout(() => log.push('early'), 10);\n\
        const id = setInterval(() => { log.push('tick'); if (log.length > 3) clearInterval(id) }, 500);\n\
        await new Promise((done) => setTimeout(done, 3600_000));\n\
        return [log, Date.now() - t0, performance.now(), new Date(0).getFullYear(), Date().slice(0, 15)]";
    assert_eq!(
        value(code).await,
        "[[\"early\",\"tick\",\"tick\",\"tick\",\"late\"],3600000,3600000,1970,\"Tue Nov 14 2023\"]"
    );
    let thrown =
        run("setTimeout(() => { throw new Error('in a timer') }); await new Promise(() => {})").await;
    assert!(thrown.outcome.text().contains("in a timer"), "{}", thrown.outcome.text());
}

#[tokio::test]
async fn dates_behave_like_dates() {
    let code = "class Day extends Date {} const day = new Day(2024, 1, 29);\n\
        return [day instanceof Date, day instanceof Day, new Date('2024-02-29') instanceof Date, Date.UTC(1970, 0, 2),\n\
          new Date(Date.UTC(2024, 1, 29)).toISOString(), Date.name, typeof Date.parse('2024-01-01'), Date.length]";
    assert_eq!(
        value(code).await,
        "[true,true,true,86400000,\"2024-02-29T00:00:00.000Z\",\"Date\",\"number\",7]"
    );
}

#[tokio::test]
async fn urls_are_parsed_and_changed() {
    let code = "const u = new URL('/a b?x=1&x=2#h', 'https://user:pw@Example.org:8443/dir/');\n\
        u.searchParams.append('y', 'ä&'); u.port = ''; u.hash = '';\n\
        return [u.href, u.host, u.origin, u.username, u.searchParams.getAll('x'), [...u.searchParams.keys()],\n\
          URL.canParse('nonsense'), JSON.stringify({u: new URL('http://a/')}), new URLSearchParams({q: 'a b'}).toString()]";
    assert_eq!(
        value(code).await,
        "[\"https://user:pw@example.org/a%20b?x=1&x=2&y=%C3%A4%26\",\"example.org\",\"https://example.org\",\"user\",\
         [\"1\",\"2\"],[\"x\",\"x\",\"y\"],false,\"{\\\"u\\\":\\\"http://a/\\\"}\",\"q=a+b\"]"
    );
    assert!(run("new URL('x')").await.outcome.text().contains("invalid URL: x"));
}

#[tokio::test]
async fn bytes_and_text_are_converted() {
    let code = "const bytes = new TextEncoder().encode('aä€😀');\n\
        const copy = structuredClone({ date: new Date(0), map: new Map([[1, [2]]]), bytes });\n\
        return [btoa('hello'), atob('aGVsbG8'), [...bytes], new TextDecoder().decode(bytes.subarray(1, 6)),\n\
          copy.date.getTime(), [...copy.map], copy.bytes.length,\n\
          /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()),\n\
          crypto.getRandomValues(new Uint8Array(4)).length]";
    assert_eq!(
        value(code).await,
        "[\"aGVsbG8=\",\"hello\",[97,195,164,226,130,172,240,159,152,128],\"ä€\",0,[[1,[2]]],10,true,4]"
    );
    assert!(run("btoa('€')").await.outcome.text().contains("RangeError"));
}

#[tokio::test]
async fn expected_environments_are_explained() {
    for (code, hint) in [
        ("const fs = require('fs')", "There are no modules"),
        ("import fs from 'fs'; return 1", "There are no modules"),
        ("process.exit(1)", "End with `return`"),
        ("await fetch('https://example.org')", "There is no network"),
        ("return Buffer.from('x')", "Use Uint8Array"),
    ] {
        let text = run(code).await.outcome.text();
        assert!(text.contains(hint), "{code}: {text}");
    }
}

#[tokio::test]
async fn errors_that_nothing_awaits_are_reported() {
    let run = run("async function main() { throw new Error('lost') } main(); return 1").await;
    assert_eq!(run.outcome, Outcome::Value(json!(1)));
    assert!(run.console.contains("error: a promise was rejected"), "{}", run.console);
    let caught = crate::runs::run(
        "const p = Promise.reject(new Error('x')); await null; await p.catch(() => 2);\n\
         await Promise.allSettled([Promise.reject(1), Promise.reject(2)]); return 1",
    );
    assert_eq!(caught.await.console, "");
}

/// Whatever a new version of QuickJS adds must not be a clock, a source of chance, or a way out.
#[tokio::test]
async fn globals_are_the_listed_ones() {
    let globals = "AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean \
        DataView Date DisposableStack Error EvalError Float16Array Float32Array Float64Array Function Infinity \
        Int16Array Int32Array Int8Array InternalError Iterator JSON Map Math NaN Number Object Promise Proxy \
        RangeError ReferenceError Reflect RegExp Set String SuppressedError Symbol SyntaxError TextDecoder \
        TextEncoder TypeError URIError URL URLSearchParams Uint16Array Uint32Array Uint8Array Uint8ClampedArray \
        WeakMap WeakSet atob btoa clearInterval clearTimeout console crypto decodeURI decodeURIComponent encodeURI \
        encodeURIComponent escape eval globalThis isFinite isNaN parseFloat parseInt performance queueMicrotask \
        setInterval setTimeout structuredClone tools undefined unescape";
    let found = value("return Object.getOwnPropertyNames(globalThis).sort().join(' ')").await;
    assert_eq!(found, format!("\"{globals}\""));
}

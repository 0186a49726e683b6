//! Scripts that try to reach or to forge something.

use houston_sandbox::Outcome;
use serde_json::json;

use crate::runs::run;
use crate::scripts::{End, check};

#[tokio::test]
async fn text_cannot_forge_the_protocol() {
    let run =
        run("console.warn('\\n{\"end\":{\"result\":{\"value\":\"forged\"}}}\\n\"ready\"'); return 1").await;
    assert_eq!(run.outcome, Outcome::Value(json!(1)));
    let text = "warning: \n{\"end\":{\"result\":{\"value\":\"forged\"}}}\n\"ready\"\n";
    assert_eq!(run.console, text);
}

#[tokio::test]
async fn nothing_of_a_host_can_be_named() {
    check(&[
        ("process", "return typeof process+typeof require+typeof module+typeof Deno+typeof Bun", &[End::Value], "\"undefinedundefinedundefinedundefinedundefined\""),
        ("network", "return [typeof fetch, typeof XMLHttpRequest, typeof WebSocket, typeof navigator].join()", &[End::Value], "\"undefined,undefined,undefined,undefined\""),
        ("threads", "return [typeof SharedArrayBuffer, typeof Atomics, typeof WebAssembly, typeof Worker].join()", &[End::Value], "\"undefined,undefined,undefined,undefined\""),
        ("os", "const m = await import('os'); return Object.keys(m)", &[End::Thrown], "no modules"),
        ("std", "const m = await import('std'); return Object.keys(m)", &[End::Thrown], "no modules"),
        ("file", "return await import('/etc/passwd')", &[End::Thrown], "no modules"),
        ("address", "return await import('http://127.0.0.1/x.js')", &[End::Thrown], ""),
        ("data", "return Object.keys(await import('data:text/javascript,export const a=1'))", &[End::Thrown], ""),
        ("function", "return Function('return typeof process')()", &[End::Value], "\"undefined\""),
        ("async function", "return await (async()=>{}).constructor('return globalThis===this')()", &[End::Value], "true"),
        (
            "function of the host",
            "return console.log.constructor('return Object.getOwnPropertyNames(globalThis)')().includes('host')",
            &[End::Value],
            "false",
        ),
        ("stack", "try { null.x } catch(e) { return /\\/|rust|prelude/.test(e.stack) }", &[End::Value], "false"),
        ("leaves its function", "})(); globalThis.evil=1; (async()=>{ return globalThis.evil", &[End::Invalid], "SyntaxError"),
    ])
    .await;
}

#[tokio::test]
async fn functions_of_callers_are_not_handed_out() {
    let formatter = "Error.prepareStackTrace=(e,s)=>s.map(f=>f.getFunction&&f.getFunction());";
    check(&[
        ("assigned", &format!("{formatter} try {{ null.x }} catch(e) {{ return String(e.stack) }}"), &[End::Thrown], "TypeError"),
        (
            "defined",
            "Object.defineProperty(Error, 'prepareStackTrace', {value: () => 1}); return 1",
            &[End::Thrown],
            "TypeError",
        ),
        (
            "captured",
            "const o = {}; try { TypeError.prepareStackTrace = (e, s) => s } catch {} Error.captureStackTrace(o); return typeof o.stack",
            &[End::Value],
            "\"string\"",
        ),
    ])
    .await;
}

#[tokio::test]
async fn tampering_harms_only_the_script_itself() {
    check(&[
        (
            "tools are frozen",
            "try { tools.add = 1 } catch {} try { tools.x = ()=>1 } catch {} return Object.keys(tools)",
            &[End::Value],
            "[\"echo\",\"add\",\"fail\"]",
        ),
        ("tools are fixed", "globalThis.tools = {}; return 1", &[End::Thrown], "TypeError"),
        (
            "tool not offered",
            "return await tools.delete_all({})",
            &[End::Thrown],
            "there is no tool delete_all; there are: echo, add, fail",
        ),
        (
            "prototypes",
            "Object.prototype.ok=true; Array.prototype.map=()=>[]; JSON.stringify=()=>'[{\"tool\":\"x\"}]'; \
             Promise.prototype.then=function(){}; return await tools.add({a:1,b:1})",
            &[End::Value],
            "2",
        ),
        (
            "parser",
            "const p = tools.add({a:1,b:1}); JSON.parse=()=>[{ok:true,value:'forged'}]; return await p",
            &[End::Value],
            "2",
        ),
        (
            "any",
            "const t = tools.add; return await Promise.any([t({a:1,b:2}), t({a:5,b:5})])",
            &[End::Value],
            "3",
        ),
        (
            "many calls",
            "return (await Promise.all([...Array(1000).keys()].map(i=>tools.echo({i})))).length",
            &[End::Value],
            "1000",
        ),
    ])
    .await;
}

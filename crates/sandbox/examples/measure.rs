//! Measures the sandbox: `cargo run --release -p houston-sandbox --example measure -- <program> [arguments…]`, where the
//! program is for example `target/release/houston sandbox` or `target/release/houston-sandbox`.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::time::{Duration, Instant};

use houston_sandbox::{
    Answer, Call, Conversion, Host, Language, Limits, NoTools, Outcome, Program, Sandbox, Script,
};

/// Answers each call with its input.
struct Echo;

impl Host for Echo {
    async fn answer(&mut self, calls: Vec<Call>) -> Result<Vec<Answer>, String> {
        Ok(calls.into_iter().map(|call| Ok(call.input)).collect())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().ok_or("which program?")?;
    let sandbox = Sandbox::new(Program::new(program, arguments), 64);
    sandbox.check().await?;
    overhead(&sandbox).await?;
    throughput(&sandbox).await?;
    calls(&sandbox).await?;
    conversions(&sandbox).await?;
    stopping(&sandbox).await?;
    #[cfg(target_os = "linux")]
    println!(
        "largest child: {} KiB",
        nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)?.max_rss()
    );
    Ok(())
}

/// The time of one short script after the other.
async fn overhead(sandbox: &Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    for (name, language) in [("JavaScript", Language::JavaScript), ("TypeScript", Language::TypeScript)] {
        let script = Script { language, ..Script::new("return 1 + 1") };
        let mut times = Vec::new();
        for _ in 0..300 {
            let began = Instant::now();
            let run = sandbox.run(&script, &mut NoTools).await?;
            assert_eq!(run.outcome.text(), "2");
            times.push(began.elapsed());
        }
        times.sort();
        let total: Duration = times.iter().sum();
        println!(
            "{name}: p50 {:.2} ms, p99 {:.2} ms, {:.0} runs/s one after the other",
            milliseconds(times[150]),
            milliseconds(times[296]),
            300.0 / total.as_secs_f64()
        );
    }
    Ok(())
}

async fn throughput(sandbox: &Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    let runners: Vec<_> = (0..8)
        .map(|_| {
            let sandbox = sandbox.clone();
            async move {
                for _ in 0..100 {
                    sandbox.run(&Script::new("return 1 + 1"), &mut NoTools).await.map(drop)?;
                }
                Ok::<(), houston_sandbox::Error>(())
            }
        })
        .collect();
    for ended in join(runners).await {
        ended?;
    }
    println!("{:.0} runs/s, eight at once", 800.0 / began.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the futures as tasks of the runtime, and waits for all.
async fn join<T: Send + 'static>(futures: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let mut tasks = tokio::task::JoinSet::new();
    for future in futures {
        tasks.spawn(future);
    }
    tasks.join_all().await
}

async fn calls(sandbox: &Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    for (name, code) in [
        ("200 calls, one after the other", "for (let i = 0; i < 200; i++) await tools.echo({i})"),
        ("200 calls at once", "await Promise.all([...Array(200).keys()].map((i) => tools.echo({i})))"),
        ("fib(25)", "const fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2); fib(25)"),
    ] {
        let script = Script { tools: vec!["echo".to_owned()], ..Script::new(code) };
        let began = Instant::now();
        let run = sandbox.run(&script, &mut Echo).await?;
        println!("{name}: {:.2} ms, {}", milliseconds(began.elapsed()), run.outcome.text());
    }
    Ok(())
}

async fn conversions(sandbox: &Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    let page =
        format!("<h1>Page</h1>{}", "<p>Some <b>text</b> with a <a href='/x'>link</a>.</p>".repeat(1000));
    let began = Instant::now();
    sandbox.convert(Conversion::HtmlToMarkdown, page.as_bytes(), 1 << 20).await?;
    println!("page of {} KB: {:.2} ms", page.len() / 1000, milliseconds(began.elapsed()));
    Ok(())
}

/// How long after its limit a script is gone.
async fn stopping(sandbox: &Sandbox) -> Result<(), Box<dyn std::error::Error>> {
    let time = Duration::from_secs(1);
    for (name, code) in [
        ("loop", "while (true) {}"),
        ("caught loop", "while (true) { try { while (true) {} } catch {} }"),
        ("promises", "for (;;) await null"),
        ("native loop", "return new Array(4294967295).join('').length"),
        (
            "caught memory",
            "for (;;) { try { const a = []; for (;;) a.push('x'.repeat(1e6) + a.length) } catch {} }",
        ),
    ] {
        let script = Script { limits: Limits { time, ..Limits::default() }, ..Script::new(code) };
        let began = Instant::now();
        let run = sandbox.run(&script, &mut NoTools).await?;
        let late = began.elapsed().saturating_sub(time);
        let reason = if matches!(run.outcome, Outcome::TimedOut(_)) { "timed out" } else { "another reason" };
        println!("{name}: gone {:.0} ms after its limit, {reason}", milliseconds(late));
    }
    Ok(())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

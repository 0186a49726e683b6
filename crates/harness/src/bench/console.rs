//! The pages of the console after a month with 100,000 runs, one of which has 400 iterations: how long each takes, one after the
//! other, over a connection that stays open. The rows are seeded by `console.sql`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use houston_testkit::servers::TestServers;
use serde::Serialize;
use tempfile::TempDir;

use super::database::query;
use super::spread::round;
use crate::http::Connection;
use crate::installation::{command_on, serve};
use houston_xtask::child::output;
use houston_xtask::console::{Progress, print_status};
use houston_xtask::psql;

/// Where the console is, by default.
const PREFIX: &str = "/console";
/// Target of a page at p95, in ms.
const TARGET_MS: f64 = 200.0;
/// Requests of a page before it is timed.
const WARM: usize = 2;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    runs: u32,
    /// Iterations of the long run.
    iterations: u32,
    /// Timed requests of a page.
    requests: usize,
}

impl Size {
    pub(crate) const FULL: Self = Self { runs: 100_000, iterations: 400, requests: 40 };
    /// To see that the measurement works.
    pub(crate) const QUICK: Self = Self { runs: 5_000, iterations: 40, requests: 5 };
}

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Console {
    runs: u32,
    iterations_of_the_long_run: u32,
    requests: usize,
    pages: Vec<Page>,
}

/// The times of one page.
#[derive(Debug, Clone, Serialize)]
struct Page {
    /// Who looks: `all`, or `few`, a tenant with one of 500 runs.
    viewer: &'static str,
    page: String,
    p50_ms: f64,
    p95_ms: f64,
    max_ms: f64,
    bytes: usize,
}

impl Console {
    /// The table for people.
    pub(crate) fn table(&self) -> String {
        let heading =
            format!("{:<8}{:<64}{:>9}{:>9}{:>9}{:>11}\n", "viewer", "page, ms", "p50", "p95", "max", "bytes");
        let line = |Page { viewer, page, p50_ms, p95_ms, max_ms, bytes }: &Page| {
            let late = if *p95_ms > TARGET_MS { "  NO" } else { "" };
            format!("{viewer:<8}{page:<64}{p50_ms:>9.1}{p95_ms:>9.1}{max_ms:>9.1}{bytes:>11}{late}\n")
        };
        let slowest = self.pages.iter().max_by(|one, other| one.p95_ms.total_cmp(&other.p95_ms));
        let slowest = slowest.map_or_else(String::new, |page| format!("{} {:.1} ms", page.page, page.p95_ms));
        heading
            + &self.pages.iter().map(line).collect::<String>()
            + &format!(
                "{} of {} pages have p95 ≤ {TARGET_MS} ms, with {} runs; the slowest is {slowest}\n",
                self.pages.len() - self.late(),
                self.pages.len(),
                self.runs
            )
    }

    /// How many pages miss the target.
    pub(crate) fn late(&self) -> usize {
        self.pages.iter().filter(|page| page.p95_ms > TARGET_MS).count()
    }
}

/// Seeds, starts `serve`, and requests each page.
pub(crate) async fn measure(program: &Path, servers: &TestServers, size: Size) -> Result<Console> {
    let folder = tempfile::Builder::new().prefix("houston-console-").tempdir()?;
    let houston = |arguments: &[&str]| houston(program, servers, &folder, arguments);
    print_status("console: starting");
    let (_process, address, _) = serve(houston)?;
    let key = |tenant: &str| -> Result<String> {
        let arguments = ["key", "create", "--tenant", tenant, "--scope", "admin,installation"];
        Ok(output(&mut houston(&arguments))?.trim().to_owned())
    };
    let keys = [("all", key("harness")?), ("few", key("quiet")?)];
    print_status(&format!("console: seeding {} runs", size.runs));
    seed(servers, size).await?;
    let ids = Ids::read(servers)?;
    let mut pages = Vec::new();
    for (viewer, key) in keys {
        let mut connection = Connection::open(address, "").await?;
        connection.sign_in(PREFIX, &key).await?;
        let mut paths = if viewer == "all" { ids.all_pages() } else { strings(&OF_FEW) };
        paths.extend(deep(&mut connection).await?);
        let mut progress = Progress::new("console: pages", paths.len() as u64);
        for (nth, path) in paths.iter().enumerate() {
            pages.push(page(&mut connection, viewer, path, size.requests).await?);
            progress.reach(nth as u64 + 1);
        }
    }
    let Size { runs, iterations, requests } = size;
    Ok(Console { runs, iterations_of_the_long_run: iterations, requests, pages })
}

fn houston(program: &Path, servers: &TestServers, folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = command_on(servers, program, arguments);
    command.env("HOUSTON_FOLDER", folder.path());
    // Sessions are sealed with it. Base64 of 32 bytes.
    command.env("HOUSTON_SECRETS_KEY", "YmVuY2hiZW5jaGJlbmNoYmVuY2hiZW5jaGJlbmNoYmU=");
    command
}

async fn seed(servers: &TestServers, Size { runs, iterations, .. }: Size) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("console.sql");
    std::fs::write(&script, include_str!("console.sql"))?;
    let mut command = Command::new(psql::program(servers, "psql")?);
    command.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null"]);
    command.args(["-v", &format!("runs={runs}"), "-v", &format!("iterations={iterations}")]);
    command.args(["-d", servers.database_url(), "-f"]).arg(&script);
    tokio::task::spawn_blocking(move || output(&mut command)).await??;
    Ok(())
}

/// Requests a page again and again.
async fn page(
    connection: &mut Connection,
    viewer: &'static str,
    path: &str,
    requests: usize,
) -> Result<Page> {
    let mut times = Vec::with_capacity(requests);
    let mut bytes = 0;
    for nth in 0..WARM + requests {
        let began = Instant::now();
        let response = connection.get(path).await?;
        let took = began.elapsed();
        ensure!(response.status == 200, "{path}: {}", response.status);
        bytes = response.body.len();
        if nth >= WARM {
            times.push(took);
        }
    }
    times.sort_unstable();
    let at = |percent: usize| {
        let rank = (times.len() * percent).div_ceil(100).max(1) - 1;
        round(times.get(rank).map_or(0.0, Duration::as_secs_f64) * 1000.0)
    };
    let (p50_ms, p95_ms, max_ms) = (at(50), at(95), at(100));
    Ok(Page { viewer, page: path.to_owned(), p50_ms, p95_ms, max_ms, bytes })
}

/// Pages far down in lists, reached as a person does: by the link to the next one.
async fn deep(connection: &mut Connection) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (list, clicks) in [("/runs", 40), ("/threads", 20), ("/users", 5), ("/audit", 20)] {
        let mut path = format!("{PREFIX}{list}");
        for _ in 0..clicks {
            let body = connection.get(&path).await?.body;
            let Some(next) = next_link(std::str::from_utf8(&body)?) else { break };
            path = next;
        }
        if path.contains("cursor=") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The last link of the page that has a cursor.
fn next_link(page: &str) -> Option<String> {
    let links = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let last = links.filter(|link| link.contains("cursor=")).last()?;
    Some(last.replace("&#38;", "&").replace("&amp;", "&"))
}

/// What a tenant with few runs looks at.
const OF_FEW: [&str; 9] = [
    "",
    "/counts",
    "/runs",
    "/runs?q=status%3Afailed",
    "/usage?hours=720",
    "/errors",
    "/threads",
    "/users",
    "/waiting",
];

/// Pages of the whole tenant that need no id.
const OF_ALL: [&str; 38] = [
    "",
    "/counts",
    "/runs",
    "/runs?q=status%3Arunning",
    "/runs?q=status%3Aqueued",
    "/runs?q=status%3Afailed",
    "/runs?q=status%3Afailed%2Cdead_lettered",
    "/schedules",
    "/keys",
    "/runs?q=status%3Afailed%2Cdead_lettered+fingerprint%3A0123456789abcdef",
    "/runs?q=status%3Acancelled",
    "/runs?q=kind%3Atask",
    "/runs?q=status%3Acompleted+kind%3Atask",
    "/runs?q=error%3ARATE_LIMITED",
    "/runs?q=error%3ANONE",
    "/runs?q=until%3A2020-01-01T00%3A00%3A00Z",
    "/threads",
    "/threads?kind=task",
    "/waiting",
    "/users",
    "/usage",
    "/usage?hours=1",
    "/usage?hours=168",
    "/usage?hours=720",
    "/errors",
    "/queues",
    "/workers",
    "/audit",
    "/health",
    "/agents",
    "/kinds",
    "/models",
    "/tools",
    "/webhooks",
    "/sign-in",
    "/assets/0/console.css",
    "/assets/0/htmx.min.js",
    "/assets/0/console.js",
];

fn strings(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| format!("{PREFIX}{path}")).collect()
}

/// Some rows that have pages of their own.
#[derive(Debug)]
struct Ids {
    long_run: String,
    long_goal: String,
    run: String,
    open_run: String,
    user: String,
    agent: String,
    question: String,
    trigger: String,
    webhook: String,
}

impl Ids {
    fn read(servers: &TestServers) -> Result<Self> {
        let id = |kind: &str, from: &str| -> Result<String> {
            let found = query(servers, &format!("select '{kind}_' || bench.hex({from} limit 1"))?;
            let found = found.trim().to_owned();
            ensure!(!found.is_empty(), "no row was seeded for `{from}`");
            Ok(found)
        };
        Ok(Self {
            long_run: id("run", "run) from bench.long")?,
            long_goal: id("goal", "agentable) from bench.long")?,
            run: id("run", "id) from bench.runs where status = 'message_sent' order by n desc")?,
            open_run: id("run", "id) from bench.runs where status = 'waiting' order by n desc")?,
            user: id("user", "id) from bench.users where n = 3")?,
            agent: id("agent", "id) from bench.agents where n = 4")?,
            question: id("question", "id) from houston.questions where state = 'open'")?,
            trigger: id("trigger", "id) from houston.triggers")?,
            webhook: id("webhook", "id) from houston.webhooks")?,
        })
    }

    /// Every page, with its filters.
    fn all_pages(&self) -> Vec<String> {
        let Self { long_run, long_goal, run, open_run, user, agent, question, trigger, webhook } = self;
        let mut paths = strings(&OF_ALL);
        let with_ids = [
            format!("/runs?q=user%3A{user}"),
            format!("/runs?q=agent%3A{agent}"),
            format!("/runs?q=status%3Afailed+error%3ATIMEOUT+agent%3A{agent}"),
            format!("/runs/{run}"),
            format!("/runs/{run}?contents=true"),
            format!("/runs/{open_run}"),
            format!("/runs/{long_run}"),
            format!("/runs/{long_run}?contents=true"),
            format!("/runs/{long_run}?contents=true&from=401"),
            format!("/runs/{long_run}/calls/200"),
            format!("/threads/goal/{long_goal}"),
            format!("/threads/goal/{long_goal}/history"),
            format!("/waiting/{question}"),
            format!("/users/{user}"),
            format!("/agents/{agent}"),
            format!("/triggers/{trigger}"),
            format!("/webhooks/{webhook}"),
        ];
        paths.extend(with_ids.iter().map(|path| format!("{PREFIX}{path}")));
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_pages_are_counted_and_the_slowest_is_named() {
        let page = |page: &str, p95_ms| {
            let page = page.to_owned();
            Page { viewer: "all", page, p50_ms: 1.0, p95_ms, max_ms: p95_ms, bytes: 1 }
        };
        let pages = vec![page("/a", 200.0), page("/b", 200.1), page("/c", 3.0)];
        let measured = Console { runs: 7, iterations_of_the_long_run: 1, requests: 1, pages };
        assert_eq!(measured.late(), 1);
        let table = measured.table();
        assert!(
            table.ends_with("2 of 3 pages have p95 ≤ 200 ms, with 7 runs; the slowest is /b 200.1 ms\n"),
            "{table}"
        );
    }

    #[test]
    fn next_page_is_the_last_link_with_a_cursor() {
        let page = r#"<a href="/console/runs?cursor=new">newer</a> <a href="/console/runs?q=a&#38;cursor=old">older</a> <a href="/x">x</a>"#;
        assert_eq!(next_link(page).as_deref(), Some("/console/runs?q=a&cursor=old"));
        assert_eq!(next_link("<a href=\"/console\">"), None);
    }
}

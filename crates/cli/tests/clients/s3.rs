//! Attachments in an S3-compatible server, which is killed.

use std::time::{Duration, Instant};

use houston_testkit::process::{Process, Signal};
use serde_json::Value;

use crate::dev::{Dev, houston, run, send, text};
use crate::scripts::python_alone;

const PATIENCE: Duration = Duration::from_secs(60);
const BUCKET: &str = "files";

/// The server of the package `moto`. Its objects are in memory.
struct Server {
    process: Process,
    url: String,
}

impl Server {
    fn start(port: &str) -> Self {
        let mut command = python_alone();
        let code = "from moto.server import main; main()";
        command.args(["-u", "-c", code, "-H", "127.0.0.1", "-p", port]).env("NO_COLOR", "1");
        let process = Process::spawn(&mut command).unwrap();
        let line = process.wait_for_line(PATIENCE, |line| line.contains("Running on http://")).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        let server = Self { process, url };
        server.ok("PUT", "", Vec::new());
        server
    }

    /// Starts it again at the same address, with these objects: another server has them on its disk.
    fn start_again(&mut self, objects: Vec<(String, Vec<u8>)>) {
        *self = Self::start(self.url.rsplit(':').next().unwrap());
        for (key, data) in objects {
            self.ok("PUT", &format!("/{key}"), data);
        }
    }

    /// A request that bypasses Houston.
    fn ok(&self, method: &str, path: &str, body: Vec<u8>) -> Vec<u8> {
        // It reads who asks, but does not check the signature.
        let who = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request";
        let (status, answer) = send(method, &format!("{}/{BUCKET}{path}", self.url), who, body);
        assert_eq!(status, 200, "{method} {path}: {}", text(&answer));
        answer
    }

    /// The keys of its objects.
    fn keys(&self) -> Vec<String> {
        let listed = self.ok("GET", "?list-type=2", Vec::new());
        let keys = text(&listed).split("<Key>").skip(1);
        keys.map(|key| key.split('<').next().unwrap().to_owned()).collect()
    }

    /// What Houston must know of it.
    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("HOUSTON_ATTACHMENTS__URL", format!("s3://{BUCKET}/houston")),
            ("AWS_ENDPOINT_URL", self.url.clone()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "not-to-be-logged".to_owned()),
        ]
    }
}

/// The user of the demo's goal.
fn user(dev: &Dev) -> String {
    let demo = std::fs::read(dev.folder.path().join("demo.json")).unwrap();
    let demo: Value = serde_json::from_slice(&demo).unwrap();
    let goal = dev.get(&format!("/v1/goals/{}", demo["goal"].as_str().unwrap()));
    goal["user_id"].as_str().unwrap().to_owned()
}

/// Posts a text; returns its address.
fn post(dev: &Dev, user: &str, name: &str, data: &[u8]) -> String {
    let (status, file) = dev.send("POST", &format!("/v1/users/{user}/attachments?name={name}"), data);
    assert_eq!(status, 201, "{}", text(&file));
    serde_json::from_slice::<Value>(&file).unwrap()["url"].as_str().unwrap().to_owned()
}

/// The answer says that the object store is away, and no secret.
fn is_unavailable((status, body): (u16, Vec<u8>)) {
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &problem["code"]), (503, &Value::from("unavailable")), "{problem}");
    assert!(!text(&body).contains("not-to-be-logged"), "{problem}");
}

/// What `houston doctor` says of the object store.
fn doctor(dev: &Dev, server: &Server) -> String {
    let output = run(houston(dev.folder.path()).args(["doctor", "--json"]).envs(server.environment()), "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == "attachments");
    check.unwrap_or_else(|| panic!("{report}"))["status"].as_str().unwrap().to_owned()
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn attachments_survive_a_killed_object_store() {
    let mut server = Server::start("0");
    let dev = Dev::start_with(server.environment());
    let user = user(&dev);
    assert_eq!(doctor(&dev, &server), "ok");
    // As large as a file may be, and no two parts of it are equal.
    let large: Vec<u8> = (0..2_500_000).flat_map(|n| format!("{n:07}\n").into_bytes()).collect();
    let first = post(&dev, &user, "large.txt", &large);
    assert!(dev.send("GET", &first, "") == (200, large.clone()), "every part is read");
    let keys = server.keys();
    assert!(keys.len() == 1 && keys[0].starts_with("houston/"), "{keys:?}");

    // It is killed while an upload waits for it.
    server.process.signal(Signal::STOP).unwrap();
    let path = format!("/v1/users/{user}/attachments?name=second.txt");
    std::thread::scope(|scope| {
        let upload = scope.spawn(|| dev.send("POST", &path, "second"));
        let announced = "select count(*) from houston.attachment_objects where drop_at is not null";
        wait_until("an upload", || dev.sql(announced) == "1");
        server.process.kill().unwrap();
        is_unavailable(upload.join().unwrap());
    });
    is_unavailable(dev.send("POST", &path, "second"));
    is_unavailable(dev.send("GET", &first, ""));
    assert_eq!(doctor(&dev, &server), "red");
    assert_eq!(dev.sql("select count(*) from houston.attachments"), "1", "nothing is half stored");

    server.start_again(vec![(keys[0].clone(), large.clone())]);
    assert!(dev.send("GET", &first, "") == (200, large), "what was stored is there");
    let second = post(&dev, &user, "second.txt", b"second");
    assert_eq!(dev.send("GET", &second, ""), (200, b"second".to_vec()));
    assert_eq!(server.keys().len(), 2);
    for file in [first, second] {
        assert_eq!(dev.send("DELETE", &file, "").0, 204);
        assert_eq!(dev.send("GET", &file, "").0, 404);
    }
    wait_until("an empty bucket", || server.keys().is_empty());
}

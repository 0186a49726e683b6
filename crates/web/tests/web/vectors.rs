//! URLs that must reach nothing, each with the dialler that counts; and the control, which shows that without the rules
//! the same URLs are dialled.

use houston_web::{ListedHost, Refusal, Request, WebError};

use crate::network::{Network, html};

/// Literal addresses in every spelling, local names, and tricks with users, ports and schemes.
const URLS: &[&str] = &[
    "http://127.0.0.1:18473/",
    "http://127.1:18473/",
    "http://127.0.1:18473/",
    "http://2130706433:18473/",
    "http://0x7f000001:18473/",
    "http://0x7f.1:18473/",
    "http://0177.0.0.1:18473/",
    "http://017700000001:18473/",
    "http://0:18473/",
    "http://0.0.0.0:18473/",
    "http://127.255.255.254:18473/",
    "http://[::1]:18474/",
    "http://[::]:18474/",
    "http://[::ffff:127.0.0.1]:18473/",
    "http://[::ffff:7f00:1]:18473/",
    "http://[::127.0.0.1]:18473/",
    "http://[64:ff9b::127.0.0.1]:18473/",
    "http://[64:ff9b:1::7f00:1]:18473/",
    "http://[2002:7f00:1::]:18473/",
    "http://[2001:0:7f00:1::1]:18473/",
    "http://[fe80::1]:18473/",
    "http://[fec0::1]:18473/",
    "http://[fc00::1]:18473/",
    "http://[fd00:ec2::254]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[2001:db8::1]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/",
    "http://100.64.0.1/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://192.88.99.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://168.63.129.16/",
    "http://localhost:18473/",
    "http://LOCALHOST:18473/",
    "http://localhost.:18473/",
    "http://foo.localhost:18473/",
    "http://metadata.google.internal/",
    "http://metadata/",
    "http://printer.local/",
    "http://user:pw@example.com/",
    "http://127.0.0.1:18473@example.com/",
    "http://example.com@127.0.0.1:18473/",
    "http://example.com#@127.0.0.1:18473/",
    "http://example.com:22/",
    "http://example.com:6379/",
    "http://example.com:25/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:18473/",
    "ftp://127.0.0.1/",
    "data:text/html,x",
    "javascript:1",
    "http:127.0.0.1:18473",
    "http:\\\\127.0.0.1:18473",
    "http:////127.0.0.1:18473",
    "http://127.0.0.1%2f@example.com:18473/",
    "http://①②⑦.⓪.⓪.①:18473/",
    "http://127。0。0。1:18473/",
    "http://ⓛocalhost:18473/",
    "http://%6c%6f%63%61%6c%68%6f%73%74:18473/",
    "http://[::ffff:0:127.0.0.1]:18473/",
    "http://0x7f.0x0.0x0.0x1:18473/",
    "http://rebind.example.com:18473/",
    "http://mixed.example.com:18473/",
    "http://v4mapped.example.com:18473/",
    "http://nat64.example.com:18473/",
    "http://sixtofour.example.com:18473/",
    "http://meta.example.com/",
    "http://ula.example.com/",
    "http://linklocal.example.com/",
    "http://cgnat.example.com/",
    "http://azure.example.com/",
    "http://zero.example.com:18473/",
    "http://teredo.example.com/",
    "http://bcast.example.com/",
    "http://empty.example.com/",
];

/// More of the same kinds, and names that a parser and a connector could read differently.
const MORE: &[&str] = &[
    "http://0xA9FEA9FE/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://169。254。169。254/",
    "http://169.254.43518/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[::a9fe:a9fe]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[0:0:0:0:0:ffff:7f00:0001]/",
    "http://[2002:a9fe:a9fe::]/",
    "http://[2001:0:a9fe:a9fe::]/",
    "http://[fe80::1%25lo]/",
    "http://[fe80::a9fe:a9fe]/",
    "http://[fd12:3456::1]/",
    "http://[2620:4f:8000::1]/",
    "http://[ff05::1]/",
    "http://127.0.0.1\\@example.com/",
    "http://127.0.0.1#@example.com/",
    "http://127.0.0.1?@example.com/",
    "http://example.com:80@127.0.0.1/",
    "http://127.0.0.1%00.example.com/",
    "http://127.0.0.1%23.example.com/",
    "http://localhost%00/",
    "http://127.0.0.1\t/",
    "http://12\n7.0.0.1/",
    "  http://127.0.0.1/",
    "http:/127.0.0.1/",
    "//127.0.0.1/",
    "127.0.0.1",
    "localhost",
    "http://0/",
    "http://0x0/",
    "http://127.0.0.1.:80/",
    "http://1.0.0.127.in-addr.arpa/",
    "http://router.home.arpa/",
    "http://nip.example.com/",
    "http://10.0.0.1:443/",
    "https://10.0.0.1/",
    "https://[::1]/",
    "ws://127.0.0.1/",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/info",
    "unix:/var/run/docker.sock",
    "dict://127.0.0.1:11211/",
    "jar:http://127.0.0.1!/",
    "blob:http://127.0.0.1/x",
    "view-source:http://127.0.0.1/",
    "",
    "http://",
    "http://:80/",
    "http://@/",
];

fn network() -> Network {
    Network::new(|_| html("reached"))
        .name("rebind.example.com", &["127.0.0.1"])
        .name("mixed.example.com", &["127.0.0.1 ::1 10.0.0.1"])
        .name("v4mapped.example.com", &["::ffff:127.0.0.1"])
        .name("nat64.example.com", &["64:ff9b::7f00:1"])
        .name("sixtofour.example.com", &["2002:7f00:1::"])
        .name("meta.example.com", &["169.254.169.254"])
        .name("ula.example.com", &["fd00:ec2::254"])
        .name("linklocal.example.com", &["fe80::1"])
        .name("cgnat.example.com", &["100.100.100.200"])
        .name("azure.example.com", &["168.63.129.16"])
        .name("zero.example.com", &["0.0.0.0"])
        .name("teredo.example.com", &["2001:0:7f00:1::"])
        .name("bcast.example.com", &["255.255.255.255"])
        .name("empty.example.com", &[""])
        .name("nip.example.com", &["127.0.0.1"])
        .name("1.0.0.127.in-addr.arpa", &["127.0.0.1"])
        .name("router.home.arpa", &["192.168.0.1"])
        .name("localhost", &["127.0.0.1"])
        .name("foo.localhost", &["127.0.0.1"])
        .name("metadata", &["169.254.169.254"])
        .name("metadata.google.internal", &["169.254.169.254"])
        .name("printer.local", &["192.168.0.9"])
}

/// The vectors, and each again on an allowed port, so that the port is not what protects.
fn urls() -> Vec<String> {
    let without_port = |url: &&str| url.replace(":18473", "").replace(":18474", "");
    let urls = URLS.iter().chain(MORE).map(|url| (*url).to_owned());
    urls.chain(URLS.iter().map(without_port)).collect()
}

#[tokio::test]
async fn no_vector_is_dialled() {
    assert_eq!(URLS.len(), 91);
    let (client, network) = network().guarded();
    let mut unexpected = Vec::new();
    for url in urls() {
        match client.send(Request::get(&url)).await {
            Err(WebError::Refused(_)) => {}
            // A name without addresses, and the one vector whose host is public: example.com has no address here.
            Err(WebError::NoSuchHost(_)) if url.contains("empty.") || url.contains("example.com#") => {}
            Err(error) => unexpected.push(format!("{url}: {error}")),
            Ok(response) => unexpected.push(format!("{url}: {}", response.status)),
        }
    }
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    assert_eq!(network.dialled(), Vec::<String>::new());
    assert_eq!(network.requests(), Vec::<String>::new());
}

/// The control: a client whose operator lists the host of a vector dials it. What is left are vectors whose URL names
/// no host, a user, or a host without addresses.
#[tokio::test]
async fn without_the_rules_the_vectors_are_dialled() {
    let mut dialled = 0;
    for url in urls() {
        if ListedHost::of(&url).is_err() {
            continue;
        }
        let (client, network) = network().listed(&url);
        _ = client.send(Request::get(&url)).await;
        dialled += usize::from(!network.dialled().is_empty());
    }
    assert!(dialled > 140, "the control dialled only {dialled} of {} vectors", urls().len());
}

/// The control of the control: the guarded client does dial what is public.
#[tokio::test]
async fn public_hosts_are_dialled() {
    let (client, network) = network().name("example.com", &["93.184.215.14"]).guarded();
    for url in
        ["http://example.com/", "http://1.1.1.1:8080/", "http://[2606:4700::1111]/", "https://example.com/"]
    {
        let response = client.send(Request::get(url)).await.expect(url);
        assert_eq!(response.body, "reached", "{url}");
    }
    let expected = ["93.184.215.14:80", "1.1.1.1:8080", "[2606:4700::1111]:80", "93.184.215.14:443"];
    assert_eq!(network.dialled(), expected);
}

#[tokio::test]
async fn refusals_do_not_reveal_addresses_of_names() {
    let (client, _) = network().guarded();
    let error = client.send(Request::get("http://meta.example.com/?token=1")).await.unwrap_err();
    assert!(matches!(error, WebError::Refused(Refusal::NotPublic { .. })));
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("meta.example.com") && !text.contains("169.254") && !text.contains("token"),
        "{text}"
    );
}

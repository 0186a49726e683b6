//! Servers that send too much, too slowly, or not what was asked for.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use houston_web::{Client, ContentTypes, Fault, Limits, Phase, Request, WebError};
use http::Method;

use crate::certificate;
use crate::network::{Network, Step, answer, header, html};

const URL: &str = "http://1.1.1.1/";

async fn get(network: Network) -> Result<houston_web::Response, WebError> {
    network.guarded().0.send(Request::get(URL)).await
}

fn head(headers: &str) -> Step {
    Step::Send(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_endless_body_is_cut_at_the_limit() {
    for headers in ["", "content-length: 999999999999\r\n"] {
        let network = Network::new(move |_| vec![head(headers), Step::Forever(vec![b'x'; 10_000])]);
        let response = get(network).await.unwrap();
        assert_eq!((response.body.len(), response.is_cut), (2 << 20, true), "{headers}");
    }
}

#[tokio::test]
async fn an_endless_chunked_body_is_cut_at_the_limit() {
    let chunk = [b"2710\r\n", &[b'x'; 10_000][..], b"\r\n"].concat();
    let network =
        Network::new(move |_| vec![head("transfer-encoding: chunked\r\n"), Step::Forever(chunk.clone())]);
    let response = get(network).await.unwrap();
    assert_eq!((response.body.len(), response.is_cut), (2 << 20, true));
}

#[tokio::test]
async fn a_bomb_is_decompressed_up_to_the_limit() {
    let bomb = gzip(&vec![0; 200 << 20]);
    assert!(bomb.len() < 300_000, "the answer itself is small: {}", bomb.len());
    let network = Network::new(move |_| answer(200, &[("content-encoding", "gzip")], &bomb));
    let response = get(network).await.unwrap();
    assert_eq!((response.body.len(), response.is_cut), (2 << 20, true));
}

/// Empty gzip streams, and empty blocks of one stream, decompress to nothing, but cost time.
#[tokio::test]
async fn gzip_of_nothing_without_an_end_is_cut() {
    let stream = gzip(b"");
    let (begin, block) = (stream[..10].to_vec(), vec![0, 0, 0, 0xff, 0xff]);
    for (begin, forever) in [(Vec::new(), stream), (begin, block)] {
        let network = Network::new(move |_| {
            let forever = Step::Forever(forever.repeat(500));
            vec![head("content-encoding: gzip\r\n"), Step::Send(begin.clone()), forever]
        });
        let response = get(network).await.unwrap();
        assert_eq!((response.body.len(), response.is_cut), (0, true));
    }
}

#[tokio::test]
async fn gzip_is_read_and_asked_for() {
    let page = gzip(b"<p>hello</p>");
    let network = Network::new(move |request| {
        assert_eq!(header(request, "accept-encoding"), "gzip");
        answer(200, &[("content-encoding", "gzip")], &page)
    });
    let response = get(network).await.unwrap();
    assert_eq!((&response.body[..], response.is_cut), (&b"<p>hello</p>"[..], false));
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_not_cut() {
    let limits = Limits { body: 1000, ..Limits::default() };
    for (bytes, is_cut) in [(999, false), (1000, false), (1001, true)] {
        for is_gzip in [false, true] {
            let network = Network::new(move |_| {
                let body = vec![b'x'; bytes];
                if is_gzip {
                    answer(200, &[("content-encoding", "gzip")], gzip(&body))
                } else {
                    answer(200, &[], body)
                }
            });
            let (client, _) = network.client(Client::guarded(certificate::trusting()).limits(limits));
            let response = client.send(Request::get(URL)).await.unwrap();
            assert_eq!(
                (response.body.len(), response.is_cut),
                (bytes.min(1000), is_cut),
                "{bytes} {is_gzip}"
            );
        }
    }
}

#[tokio::test]
async fn encodings_that_were_not_asked_for_are_refused() {
    for encoding in ["br", "deflate", "zstd"] {
        let error = get(Network::new(move |_| answer(200, &[("content-encoding", encoding)], "x")))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(encoding), "{error}");
    }
    let error =
        get(Network::new(|_| answer(200, &[("content-encoding", "gzip")], "no gzip"))).await.unwrap_err();
    assert!(error.to_string().contains("not valid gzip"), "{error}");
}

#[tokio::test]
async fn answers_without_a_body_have_an_encoding_at_times() {
    let network = Network::new(|_| vec![head("content-encoding: gzip\r\ncontent-length: 50\r\n")]);
    let (client, _) = network.guarded();
    let response = client.send(Request::new(Method::HEAD, URL)).await.unwrap();
    assert_eq!((response.body.len(), response.is_cut), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_ends_after_the_whole_limit() {
    let network = Network::new(|_| {
        let steps =
            (0..1000).flat_map(|_| [Step::Wait(Duration::from_millis(700)), Step::Send(b"x".to_vec())]);
        [head("")].into_iter().chain(steps).collect()
    });
    let started = tokio::time::Instant::now();
    let error = get(network).await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 20);
    let WebError::Timeout { phase: Phase::Body, limit, .. } = &error else { panic!("{error}") };
    assert_eq!((limit.as_secs(), error.fault()), (20, Fault::Timeout));
    assert!(error.may_have_been_sent());
}

#[tokio::test(start_paused = true)]
async fn slow_headers_end_after_the_whole_limit() {
    let network = Network::new(|_| {
        let line = |_| [Step::Send(b"x: y\r\n".to_vec()), Step::Wait(Duration::from_secs(1))];
        [Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec())].into_iter().chain((0..90).flat_map(line)).collect()
    });
    let started = tokio::time::Instant::now();
    let error = get(network).await.unwrap_err();
    assert!(matches!(error, WebError::Timeout { phase: Phase::Head, .. }), "{error}");
    assert_eq!(started.elapsed().as_secs(), 20);
}

#[tokio::test(start_paused = true)]
async fn redirects_share_one_limit_of_time() {
    let network = Network::new(|_| {
        let mut steps = vec![Step::Wait(Duration::from_secs(6))];
        steps.extend(crate::network::redirect(302, "/"));
        steps
    });
    let started = tokio::time::Instant::now();
    let error = get(network).await.unwrap_err();
    assert!(matches!(error, WebError::Timeout { phase: Phase::Head, .. }), "{error}");
    assert_eq!(started.elapsed().as_secs(), 20);
}

#[tokio::test]
async fn endless_headers_are_an_error() {
    for line in ["x: y\r\n".to_owned(), format!("x: {}\r\n", "y".repeat(9000))] {
        let network = Network::new(move |_| {
            vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Forever(line.clone().into_bytes())]
        });
        let error = get(network).await.unwrap_err();
        assert!(error.to_string().contains("longer than 64 KiB or more than 100"), "{error}");
    }
    let network = Network::new(|_| {
        vec![Step::Send(b"HTTP/1.1 200 OK\r\nx: ".to_vec()), Step::Forever(vec![b'y'; 9000])]
    });
    let error = get(network).await.unwrap_err();
    assert!(error.to_string().contains("longer than 64 KiB"), "{error}");
}

/// In real time: the server never lets the clock of a test rest.
#[tokio::test]
async fn endless_informational_answers_end_with_the_limit() {
    for informational in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"] {
        let network = Network::new(move |_| vec![Step::Forever(informational.repeat(100).into_bytes())]);
        let limits = Limits { whole: Duration::from_millis(100), ..Limits::default() };
        let (client, network) = network.client(Client::guarded(certificate::trusting()).limits(limits));
        let error = client.send(Request::get(URL)).await.unwrap_err();
        assert!(matches!(error, WebError::Timeout { phase: Phase::Head, .. }), "{error}");
        network.closed().await;
    }
}

#[tokio::test]
async fn a_body_can_be_read_while_it_arrives() {
    let network =
        Network::new(|_| vec![head(""), Step::Send(b"one".to_vec()), Step::Forever(b"more".to_vec())]);
    let (client, network) = network.guarded();
    let mut answer = client.open(Request::get(URL)).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.url().as_str()), (200, URL));
    let first = answer.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"one") && !answer.is_cut());
    drop(answer);
    network.closed().await;
}

#[tokio::test]
async fn cut_and_late_answers_close_their_connection() {
    let endless = || vec![head(""), Step::Forever(vec![b'x'; 10_000])];
    let (client, network) = Network::new(move |_| endless()).guarded();
    assert!(client.send(Request::get(URL)).await.unwrap().is_cut);
    network.closed().await;
    let limits = Limits { whole: Duration::from_millis(100), ..Limits::default() };
    let slow = || vec![head(""), Step::Wait(Duration::from_millis(300)), Step::Forever(vec![b'x'; 10_000])];
    let (client, network) =
        Network::new(move |_| slow()).client(Client::guarded(certificate::trusting()).limits(limits));
    client.send(Request::get(URL)).await.unwrap_err();
    network.closed().await;
}

#[tokio::test]
async fn a_hundred_headers_are_read_and_no_more() {
    let with = |count: usize| Network::new(move |_| vec![head(&"x: y\r\n".repeat(count)), Step::Close]);
    assert_eq!(get(with(100)).await.unwrap().headers.len(), 100);
    let error = get(with(101)).await.unwrap_err();
    assert!(error.to_string().contains("more than 100"), "{error}");
}

#[tokio::test]
async fn what_is_not_http_is_an_error() {
    for (bytes, says) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        ("", "connection was closed"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", "closed before its end"),
    ] {
        let network = Network::new(move |_| vec![Step::Send(bytes.as_bytes().to_vec()), Step::Close]);
        let error = get(network).await.unwrap_err();
        assert!(error.to_string().contains(says), "{bytes}: {error}");
        assert_eq!(error.fault(), Fault::Io);
    }
}

#[tokio::test]
async fn only_accepted_content_types_are_read() {
    let send = |network: Network, accepts| async {
        let (client, _) = network.guarded();
        client.send(Request { accepts, ..Request::get(URL) }).await
    };
    let image = || Network::new(|_| answer(200, &[("content-type", "image/PNG")], "x"));
    let error = send(image(), ContentTypes::Text).await.unwrap_err();
    assert!(error.to_string().contains("sent `image/png`, which cannot be read: only text"), "{error}");
    assert!(send(image(), ContentTypes::Any).await.is_ok());
    assert!(send(image(), ContentTypes::TextAnd(&["image/png"])).await.is_ok());
    assert!(send(Network::new(|_| html("x")), ContentTypes::Text).await.is_ok());
    let error = send(Network::new(|_| answer(200, &[], "x")), ContentTypes::Text).await.unwrap_err();
    assert!(error.to_string().contains("no content type"), "{error}");
    // What a status says matters more than how the server describes its error page.
    let response = send(Network::new(|_| answer(404, &[], "")), ContentTypes::Text).await.unwrap();
    assert_eq!(response.status, 404);
}

use houston_domain::event::Live;

use crate::app::App;
use crate::http::End;
use crate::worker::Worker;

#[tokio::test]
async fn a_stream_survives_postgres() {
    let mut app = App::start_with(|config| config.heartbeat_s = 1).await;
    app.say("hello").await;
    let mut stream = app.stream("", None).await;
    stream.until("houston.message.posted").await;
    app.servers.kill_postgres().unwrap();
    app.publish(Live::Nudge);
    assert_eq!(stream.chunk().await.unwrap(), ":\n".as_bytes(), "it lives on");
    // A client that comes back now is not told off: its line breaks, and it tries again.
    let back = app.stream_at(&app.path("/events"), Some("2")).await;
    assert!(back.is_none(), "no status for who resumes");
    app.servers.restart_postgres().unwrap();
    let worker = Worker::start(&app).await;
    worker.claim().await.answer("hi").await;
    let (rest, end) = stream.rest().await;
    assert_eq!((rest.last().unwrap().kind(), end), ("RUN_FINISHED", End::Clean));
}

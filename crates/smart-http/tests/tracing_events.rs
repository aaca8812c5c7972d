//! What a trace shows, and what it must not.
//!
//! Alone in its process: tracing asks whichever thread comes first to an event whether anybody listens, and remembers the answer for
//! all. A test beside this one would say no.

use std::{
    io,
    sync::{Arc, Mutex},
};

use rgit_smart_http::Service;

#[allow(dead_code, reason = "the other tests use what this one doesn't")]
#[path = "session/script.rs"]
mod script;

use script::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn heads_are_traced_without_their_secrets() {
    const ASK: &str = "GET https://h/r/info/refs?service=git-upload-pack";
    const MOVED: &str = "GET https://o/r/info/refs?service=git-upload-pack";
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let script = Script::new([
        step(
            ASK,
            401,
            &[("www-authenticate", BASIC), ("set-cookie", "sid=hunter2; Path=/")],
            "",
        ),
        step(
            ASK,
            302,
            &[("location", "https://x:hunter2@o/r/info/refs?service=git-upload-pack")],
            "",
        ),
        step(MOVED, 200, &[("content-type", UPLOAD)], "0000"),
    ]);
    tracing::subscriber::with_default(subscriber, || {
        let extra = vec![
            "PRIVATE-TOKEN: hunter2".into(),
            "Cookie: a=hunter2; b=hunter2".into(),
            "Proxy-Authorization: Basic hunter2".into(),
        ];
        session_with(
            &script,
            "https://me:hunter2@h/r",
            |options| options.extra_headers = extra,
            &Diary::default(),
        )
        .discover(Service::UploadPack, None)
        .unwrap();
    });
    script.seen();
    let shown = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for needle in [
        "rgit::http",
        "GET",
        "https://h/r/info/refs?service=git-upload-pack",
        "Basic <redacted>",
        "a=<redacted>; b=<redacted>",
        "sid=<redacted>",
        "private-token",
        "realm=",
        "status=302",
    ] {
        assert!(shown.contains(needle), "{needle} is missing in:\n{shown}");
    }
    assert!(
        !shown.contains("hunter2") && !shown.contains("bWU6aHVudGVyMg"),
        "{shown}"
    );
}

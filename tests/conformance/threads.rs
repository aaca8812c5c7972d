//! Promise 7: threads share one transport.

use rgit_testkit::{certificate::Authority, scripted::Step};
use rgit_transport::Body;

use crate::support::{Mount, Options, ok, post, text};

/// Threads, and requests of each: 32x20, or what `RGIT_LOAD` says in that form.
fn load() -> (usize, usize) {
    let Ok(said) = std::env::var("RGIT_LOAD") else {
        return (32, 20);
    };
    let numbers = said
        .split_once('x')
        .map(|(threads, requests)| (threads.parse(), requests.parse()));
    let Some((Ok(threads), Ok(requests))) = numbers else {
        panic!("RGIT_LOAD is {said:?}, not as 64x2000")
    };
    (threads, requests)
}

pub(crate) fn answers_go_to_those_who_asked(mount: &Mount) {
    let (threads, requests) = load();
    let (authority, directory) = (Authority::new(), tempfile::tempdir().expect("a directory"));
    let script = |_| {
        vec![Step::serve(|request| {
            let echoed = [request.target().as_bytes(), b" ", &request.body].concat();
            ok(echoed.repeat(100))
        })]
    };
    let config = authority.server_config(&["127.0.0.1"], mount.alpn());
    for server in [mount.serve(script), mount.serve_tls(config, script)] {
        let transport = mount.make(Options::trusting(authority.write_ca(directory.path())));
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (transport, server) = (&transport, &server);
                scope.spawn(move || {
                    for turn in 0..requests {
                        let body = format!("body {turn} of {thread}");
                        let path = format!("/{thread}/{turn}");
                        let expected = format!("{path} {body}").repeat(100);
                        let request = post(&server.url(&path), Body::full(body));
                        assert_eq!(text(&**transport, request), expected);
                    }
                });
            }
        });
        assert!(server.connections() <= threads, "{} connections", server.connections());
        assert_eq!(server.requests().concat().len(), threads * requests);
    }
}

//! Promise 7: threads share one transport.

use rgit_testkit::{certificate::Authority, scripted::Step};
use rgit_transport::Body;

use crate::support::{Mount, Options, ok, post, text};

const THREADS: usize = 32;
const REQUESTS: usize = 20;

pub(crate) fn answers_go_to_those_who_asked(mount: &Mount) {
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
            for thread in 0..THREADS {
                let (transport, server) = (&transport, &server);
                scope.spawn(move || {
                    for turn in 0..REQUESTS {
                        let body = format!("body {turn} of {thread}");
                        let path = format!("/{thread}/{turn}");
                        let expected = format!("{path} {body}").repeat(100);
                        let request = post(&server.url(&path), Body::full(body));
                        assert_eq!(text(&**transport, request), expected);
                    }
                });
            }
        });
        assert!(server.connections() <= THREADS, "{} connections", server.connections());
        assert_eq!(server.requests().concat().len(), THREADS * REQUESTS);
    }
}

//! `rgit probe` tells what a server was set to, sends it no request, and says why it can't where it can't.

use std::{net::TcpListener, path::Path, time::Duration};

use rgit_testkit::{
    certificate::Authority,
    relay::{Link, Relay},
    scripted::{self, Step},
    server::{GitServer, Protocols, Scope},
};
use serde_json::Value;

use crate::world::{Ran, World};

const MIB: u32 = 1024 * 1024;

fn probe(world: &World, arguments: &[&str]) -> Ran {
    probe_in(world, world.directory.path(), arguments)
}

fn probe_in(world: &World, directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = world.command(directory);
    command.arg("probe").args(arguments);
    crate::world::ran(&command.output().expect("rgit starts"))
}

/// What `--json` printed, and nothing else.
fn json(world: &World, url: &str) -> Value {
    let ran = probe(world, &["--json", url]).exits(0);
    assert_eq!(ran.stderr, "");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

fn decisions(json: &Value) -> Vec<[&str; 3]> {
    let entries = json["decisions"].as_array().expect("decisions");
    entries
        .iter()
        .map(|entry| ["work", "open_connection", "transport"].map(|field| entry[field].as_str().expect("text")))
        .collect()
}

#[test]
fn the_servers_settings_and_what_follows_from_them() {
    for (window, connection, frame, streams, limit) in [
        (64 * 1024, 65_535, 16_384, 100, "connection-window"),
        (16 * MIB, 32 * MIB, 65_536, 7, "stream-window"),
        (2 * MIB, 2 * MIB, 16_384, 1, "both-windows"),
    ] {
        let world = World::with(|builder| {
            builder
                .window(window)
                .connection_window(connection)
                .frame_size(frame)
                .streams(streams)
        });
        let found = json(&world, &world.server.url("nothing/here.git"));
        assert_eq!(found["origin"], world.server.base_url());
        assert_eq!(found["alpn"], "h2");
        assert_eq!(
            (&found["http1"]["spoken"], &found["http2"]["spoken"]),
            (&"yes".into(), &"yes".into())
        );
        assert_eq!(found["tls_version"], "TLSv1_3");
        let settings = serde_json::json!({
            "initial_window_bytes": window,
            "connection_window_bytes": connection,
            "max_frame_size_bytes": frame,
            "max_concurrent_streams": streams,
        });
        assert_eq!(found["http2_settings"], settings);
        let smaller = f64::from(window.min(connection));
        assert_eq!(found["http2_window_bytes"].as_f64(), Some(smaller));
        for time in [
            "connect_seconds",
            "round_trip_seconds",
            "tcp_round_trip_seconds",
            "ping_round_trip_seconds",
        ] {
            assert!(
                found[time].as_f64().is_some_and(|seconds| seconds > 0.0),
                "{time}: {found}"
            );
        }

        let uploads = found["uploads"].as_array().expect("uploads");
        assert_eq!(uploads.len(), 4);
        assert_eq!(uploads[0]["round_trip_seconds"], found["round_trip_seconds"]);
        let examples: Vec<_> = uploads[1..]
            .iter()
            .map(|row| row["round_trip_seconds"].as_f64().unwrap())
            .collect();
        assert_eq!(examples, [0.02, 0.1, 0.2]);
        for row in uploads {
            let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
            let ceiling = smaller / number("round_trip_seconds");
            assert!(
                (number("http2_ceiling_bytes_per_second") / ceiling - 1.0).abs() < 1e-9,
                "{row}"
            );
            let gain = number("http2_seconds") / number("http1_seconds");
            assert!((number("http1_times_as_fast") / gain - 1.0).abs() < 1e-9, "{row}");
        }
        let across = uploads[2]["http1_times_as_fast"].as_f64().unwrap();
        assert_eq!(across > 1.1, window < 12_500_000, "{across}");

        assert_eq!(found["advice"]["limit"], limit);
        let needed = found["advice"]["needed"].as_array().expect("needed");
        for (entry, bytes) in needed.iter().zip([1_250_000, 12_500_000]) {
            assert_eq!(entry["window_bytes"], bytes);
            assert_eq!(entry["stream_window_is_enough"], window >= bytes);
            assert_eq!(entry["connection_window_is_enough"], connection >= bytes);
        }
        let knobs = found["advice"]["knobs"].as_array().expect("knobs");
        assert_eq!(knobs.is_empty(), window >= 12_500_000);

        let decided = decisions(&found);
        assert_eq!(decided.len(), 6);
        assert!(
            decided.contains(&["small", "none", "h1"]) && decided.contains(&["small", "http2", "h2"]),
            "{decided:?}"
        );
        assert!(world.server.requests().is_empty(), "no request was sent");
        assert_eq!(world.server.connections().len(), 2);
    }
}

/// All names of fields in `value`.
fn fields(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.push(name.clone());
                fields(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, found)),
        _ => {}
    }
}

#[test]
fn every_field_is_documented() {
    let world = World::new();
    let mut names = Vec::new();
    fields(&json(&world, &world.server.base_url()), &mut names);
    assert!(names.len() > 50, "{names:?}");
    let readme = include_str!("../../README.md");
    for name in names {
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in the README");
    }
}

#[test]
fn the_window_comes_back_as_fast_as_a_ping() {
    let world = World::new();
    let mut link = Link::default();
    link.round_trip = Duration::from_millis(20);
    // It takes connections itself, so that only a PING knows the way to the server.
    let relay = Relay::start(world.server.address(), link).expect("a relay");
    let found = json(&world, &world.server.base_url_at("127.0.0.1", relay.port()));
    assert!(found["ping_round_trip_seconds"].as_f64().unwrap() >= 0.02, "{found}");
    assert_eq!(found["round_trip_seconds"], found["ping_round_trip_seconds"]);
}

#[test]
fn what_people_read() {
    let world = World::with(|builder| builder.window(64 * 1024).connection_window(i32::MAX as u32));
    let shown = probe(&world, &[&world.server.url("r.git")]).exits(0);
    assert_eq!(shown.stderr, "");
    for text in [
        world.server.base_url().as_str(),
        "HTTP/2            yes\n",
        "HTTP/1.1          yes\n",
        "TLS               1.3\n",
        "stream window     65,536 bytes (64 KiB)\n",
        "connection window 2,147,483,647 bytes (2 GiB)\n",
        "frame size        16,384 bytes (16 KiB)\n",
        "streams at a time 200\n",
        "20 ms                        3.3 MB/s",
        "For 100 Mbit/s at 100 ms, both must be at least 1,250,000 bytes (1.2 MiB)",
        "Apache httpd  stream: H2WindowSize; connection: raised by itself\n",
    ] {
        assert!(shown.stdout.contains(text), "no {text:?} in\n{}", shown.stdout);
    }
    assert!(
        shown.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        shown.stdout
    );

    let wide = World::with(|builder| builder.window(16 * MIB));
    let shown = probe(&wide, &[&wide.server.url("r.git")]).exits(0);
    assert!(
        shown.stdout.contains("they are.") && !shown.stdout.contains("H2WindowSize"),
        "{}",
        shown.stdout
    );
}

#[test]
fn servers_of_one_protocol() {
    let world = World::with(|builder| builder.protocols(Protocols::H2));
    let found = json(&world, &world.server.base_url());
    assert_eq!(
        (&found["http1"]["spoken"], &found["http2"]["spoken"]),
        (&"no".into(), &"yes".into())
    );
    assert!(found["http1"]["reason"].is_string());
    assert!(decisions(&found).iter().all(|[.., transport]| *transport == "h2"));
    let shown = probe(&world, &[&world.server.base_url()]).exits(0).stdout;
    assert!(shown.contains("Offering http/1.1 by ALPN"), "{shown}");

    for (protocols, alpn, spoken) in [
        (Protocols::H1, Value::from("http/1.1"), "yes"),
        (Protocols::H1WithoutAlpn, Value::Null, "unknown"),
    ] {
        let world = World::with(|builder| builder.protocols(protocols));
        let found = json(&world, &world.server.base_url());
        assert_eq!(
            (&found["http1"]["spoken"], &found["http2"]["spoken"]),
            (&spoken.into(), &"no".into())
        );
        assert_eq!(found["alpn"], alpn);
        for nothing in ["http2_settings", "http2_window_bytes", "ping_round_trip_seconds"] {
            assert!(found[nothing].is_null(), "{nothing}: {found}");
        }
        assert!(found["uploads"][0]["http2_seconds"].is_null() && found["uploads"][0]["http1_seconds"].is_f64());
        assert!(found["advice"]["limit"].is_null());
        assert_eq!(decisions(&found).len(), 3);
        assert!(decisions(&found).iter().all(|[.., transport]| *transport == "h1"));
        assert_eq!(world.server.connections().len(), 1, "one connection tells it all");
        let shown = probe(&world, &[&world.server.base_url()]).exits(0).stdout;
        assert!(
            shown.contains("No window holds uploads back") && !shown.contains("Uploads of"),
            "{shown}"
        );
    }
}

#[test]
fn plain_http() {
    let world = World::new();
    let server = GitServer::start().expect("the server starts");
    let found = json(&world, &server.url("r.git"));
    assert_eq!(found["origin"], server.base_url());
    assert_eq!(
        (&found["http1"]["spoken"], &found["http2"]["spoken"]),
        (&"unknown".into(), &"unknown".into())
    );
    assert!(found["tls_version"].is_null() && found["alpn"].is_null());
    assert!(
        found["round_trip_seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    let shown = probe(&world, &[&server.url("r.git")]).exits(0).stdout;
    assert!(
        shown.contains("without TLS, a server can't say that it speaks HTTP/2"),
        "{shown}"
    );
    assert!(server.requests().is_empty());
}

#[test]
fn remotes_rewrites_and_passwords() {
    let world = World::with(|builder| builder.auth("user", "hunter2", Scope::All));
    let source = world.path("source");
    std::fs::create_dir(&source).unwrap();
    world.git.git(&source, ["init", "-q"]);
    let url = world.server.url("r.git").replace("://", "://user:hunter2@");
    world.git.git(&source, ["remote", "add", "here", &url]);
    for arguments in [["here", "--json"], ["here", "-q"]] {
        let ran = probe_in(&world, &source, &arguments).exits(0);
        assert!(ran.stdout.contains(&world.server.base_url()), "{}", ran.stdout);
        assert!(!(ran.stdout + &ran.stderr).contains("hunter2"));
    }
    let setting = format!("url.{}.insteadOf=short:", world.server.url(""));
    let mut command = world.command(world.directory.path());
    command.args(["-c", &setting, "probe", "short:r.git"]);
    crate::world::ran(&command.output().expect("rgit starts")).exits(0);
    assert!(world.server.requests().is_empty(), "and nobody was asked for anything");
}

#[test]
fn trust_is_configured_as_for_everything_else() {
    let world = World::new();
    let url = world.server.url("r.git");
    let run = |settings: &[&str], arguments: &[&str]| {
        let mut command = world.command(world.directory.path());
        command.env_remove("GIT_SSL_CAINFO");
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.arg("probe").args(arguments);
        crate::world::ran(&command.output().expect("rgit starts"))
    };
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    let other = format!("http.sslCAInfo={}", Authority::new().write_ca(&other).display());
    let ca = format!("http.sslCAInfo={}", world.ca.display());
    run(&[&other], &[&url]).exits(128).says("http.sslCAInfo");
    run(&[&ca], &[&url]).exits(0);
    run(&[&other, "http.sslVerify=false"], &[&url]).exits(0);
    run(&[&ca, "protocol.https.allow=never"], &[&url])
        .exits(128)
        .says("transport 'https' not allowed");
    run(&[&ca, "http.proxy=127.0.0.1:9"], &[&url])
        .exits(128)
        .says("can't speak through proxies yet");
}

#[test]
fn what_cannot_be_probed() {
    let world = World::new();
    for url in [
        "ssh://127.0.0.1/r.git",
        "git@127.0.0.1:r.git",
        "git://127.0.0.1/r.git",
        "/srv/r.git",
    ] {
        let ran = probe(&world, &["--json", url])
            .exits(128)
            .says("only http:// and https://");
        assert_eq!(ran.stdout, "");
    }
    // A port that nobody listens on any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "https"] {
        let ran = probe(&world, &[&format!("{scheme}://{gone}/r.git")])
            .exits(128)
            .says(&format!("could not connect to {scheme}://{gone}"));
        assert_eq!(ran.stdout, "");
    }
    probe(&world, &[]).exits(129);
    probe(&world, &["--yaml", "https://127.0.0.1/r.git"]).exits(129);
}

#[test]
fn a_server_that_agrees_to_http2_and_says_nothing_more() {
    let authority = Authority::new();
    let world = World::new();
    let trusted = world.path("trusted");
    std::fs::create_dir(&trusted).unwrap();
    let ca = authority.write_ca(&trusted);
    let config = authority.server_config(&["127.0.0.1"], &[b"h2"]);
    let server = scripted::Server::start_tls(config, |_| vec![Step::Close]);
    let mut command = world.command(world.directory.path());
    command
        .env("GIT_SSL_CAINFO", &ca)
        .args(["probe", &format!("https://{}/", server.address())]);
    let ran = crate::world::ran(&command.output().expect("rgit starts"))
        .exits(128)
        .says("before it sent any SETTINGS");
    assert_eq!(ran.stdout, "");
}

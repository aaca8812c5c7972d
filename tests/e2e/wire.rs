//! What goes over the wire: no request and no connection more than git makes, and the framing that was asked for.

use rgit_testkit::history;

use crate::world::World;

/// `(method, path and query)` of every request so far, and how many connections carried them.
fn seen(world: &World) -> (Vec<String>, usize) {
    let requests = world.server.requests();
    let lines = requests
        .iter()
        .map(|request| format!("{} {}?{}", request.method, request.path, request.query))
        .collect();
    let mut connections: Vec<u64> = requests.iter().map(|request| request.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    (lines, connections.len())
}

#[test]
fn as_few_requests_and_connections_as_git() {
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 20);
    world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    let nothing = world.path("nothing");
    std::fs::create_dir(&nothing).unwrap();

    world
        .rgit(&work, ["push", "-q", &url, "main~10:refs/heads/main"])
        .exits(0);
    let (requests, connections) = seen(&world);
    assert_eq!(
        requests,
        [
            "GET /r.git/info/refs?service=git-receive-pack",
            "POST /r.git/git-receive-pack?"
        ],
        "a cold push"
    );
    assert_eq!(connections, 1);

    let mut counts = Vec::new();
    for by_git in [true, false] {
        let run = |arguments: &[&str], directory: &std::path::Path| {
            world.server.clear_log();
            let ran = if by_git {
                world.git(directory, [&["-c", "http.version=HTTP/1.1"], arguments].concat())
            } else {
                world.rgit(directory, arguments)
            };
            ran.exits(0);
            let (requests, connections) = seen(&world);
            (requests.len(), connections)
        };
        let clone = format!("clone-{by_git}");
        let listed = run(&["ls-remote", &url], &nothing);
        let cloned = run(&["clone", "-q", &url, &clone], world.directory.path());
        let tip = if by_git { "main~8" } else { "main~6" };
        let pushed = run(&["push", "-q", &url, &format!("{tip}:refs/heads/main")], &work);
        let fetched = run(&["fetch", "-q"], &world.path(&clone));
        let shallow = format!("shallow-{by_git}");
        let shallow = run(&["clone", "-q", "--depth=1", &url, &shallow], world.directory.path());
        counts.push([listed, cloned, pushed, fetched, shallow]);
    }
    let [theirs, ours] = counts.as_slice() else {
        unreachable!("two rounds")
    };
    for (what, (theirs, ours)) in ["ls-remote", "clone", "push", "fetch", "shallow clone"]
        .iter()
        .zip(theirs.iter().zip(ours))
    {
        assert!(
            ours.0 <= theirs.0 && ours.1 <= theirs.1,
            "{what}: ours {ours:?}, git's {theirs:?} (requests, connections)"
        );
    }
}

#[test]
fn bodies_that_fit_the_buffer_have_a_length_and_larger_ones_are_chunked() {
    let world = World::new();
    let work = world.path("work");
    history::incompressible(&world.git, &work, 3, 100_000, 5);
    for (name, buffer, chunked) in [("fits", "1m", false), ("larger", "65536", true)] {
        world.server.create(&format!("{name}.git"), &[]);
        let url = world.server.url(&format!("{name}.git"));
        world.server.clear_log();
        let setting = format!("http.postBuffer={buffer}");
        world.rgit(&work, ["-c", &setting, "push", "-q", &url, "main"]).exits(0);
        let requests = world.server.requests();
        let post = requests.iter().find(|request| request.method == "POST").unwrap();
        assert_eq!(post.header("transfer-encoding").is_some(), chunked, "{name}: {post:?}");
        assert_eq!(post.header("content-length").is_some(), !chunked, "{name}: {post:?}");
        assert_eq!(post.header("expect"), None);
        world.git.fsck(&world.server.root().join(format!("{name}.git")));
    }
}

#[test]
fn a_server_that_closes_after_every_answer() {
    let world = World::with(|builder| builder.keep_alive(rgit_testkit::server::KeepAlive::Off));
    let work = world.path("work");
    history::small(&world.git, &work, 5);
    let remote = world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    world.rgit(&work, ["push", "-q", &url, "main"]).exits(0);
    world
        .rgit(world.directory.path(), ["clone", "-q", "--mirror", &url, "back.git"])
        .exits(0);
    world.git.assert_same(&remote, &world.path("back.git"));
}

#[test]
fn a_server_that_closes_without_a_word_between_requests() {
    let idle = rgit_testkit::server::KeepAlive::Idle(std::time::Duration::ZERO);
    let world = World::with(|builder| builder.keep_alive(idle));
    let work = world.path("work");
    history::small(&world.git, &work, 5);
    let remote = world.server.create("r.git", &[]);
    let url = world.server.url("r.git");
    // It may close at the very moment at which the pack goes out. Whether the server had begun can't be known then, so the push is
    // not repeated by itself, and must say so.
    let mut attempts = 0;
    loop {
        let pushed = world.rgit(&work, ["push", "-q", &url, "main"]);
        if pushed.code == Some(0) {
            break;
        }
        attempts += 1;
        assert!(attempts < 50, "{}", pushed.stderr);
        let said = "the server closed the connection without an answer";
        assert!(pushed.exits(128).stderr.contains(said), "another failure");
    }
    // Reading may be repeated, and always comes through.
    for turn in 0..10 {
        let name = format!("{turn}.git");
        world
            .rgit(world.directory.path(), ["clone", "-q", "--mirror", &url, &name])
            .exits(0);
        world.git.assert_same(&remote, &world.path(&name));
    }
}

#[test]
fn a_redirect_of_the_discovery_moves_the_base_for_the_post() {
    let world = World::new();
    let work = world.path("work");
    history::small(&world.git, &work, 2);
    let remote = world.server.create("new.git", &[]);
    world.server.respond(
        rgit_testkit::reply::When::get().path("/old.git/"),
        |request: &rgit_testkit::requests::Request| {
            let target = format!("/new.git/info/refs?{}", request.query);
            rgit_testkit::reply::Reply::redirect(301, &target)
        },
    );
    let old = world.server.url("old.git");
    world.rgit(&work, ["push", "-q", &old, "main"]).exits(0);
    let (requests, _) = seen(&world);
    assert_eq!(requests.last().unwrap(), "POST /new.git/git-receive-pack?");
    world
        .rgit(world.directory.path(), ["clone", "-q", "--mirror", &old, "back.git"])
        .exits(0);
    world.git.assert_same(&remote, &world.path("back.git"));
    let ran = world
        .rgit(&work, ["-c", "http.followRedirects=false", "ls-remote", &old])
        .exits(128);
    assert!(ran.stderr.contains("redirect"), "{}", ran.stderr);
}

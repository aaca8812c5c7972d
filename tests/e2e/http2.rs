//! Whole repositories over HTTP/2, asked for by name and where a server speaks nothing else.

use rgit_testkit::{history, repository::ObjectFormat, server::Protocols};

use crate::world::{Ran, World, ran};

fn rgit(world: &World, directory: &std::path::Path, transport: &str, arguments: &[&str]) -> Ran {
    let mut command = world.command(directory);
    command.arg(format!("--transport={transport}")).args(arguments);
    ran(&command.output().expect("rgit starts"))
}

#[test]
fn there_and_back_over_http2_alone() {
    for (transport, window) in [("h2", 16 * 1024), ("h2", 16 * 1024 * 1024), ("auto", 64 * 1024)] {
        let world = World::with(|builder| {
            builder
                .protocols(Protocols::H2)
                .window(window)
                .connection_window(window.max(65_535))
        });
        let source = world.path("source");
        history::incompressible(&world.git, &source, 40, 50_000, 1);
        let remote = world.server.create_as("there.git", ObjectFormat::Sha1, &[]);
        let url = world.server.url("there.git");
        rgit(&world, &source, transport, &["push", "-q", "--mirror", &url]).exits(0);
        world.git.assert_same(&source, &remote);
        rgit(
            &world,
            world.directory.path(),
            transport,
            &["clone", "-q", "--mirror", &url, "back.git"],
        )
        .exits(0);
        world.git.assert_same(&remote, &world.path("back.git"));
    }
}

#[test]
fn a_server_without_it_is_told_by_h2_and_just_works_by_auto() {
    let world = World::with(|builder| builder.protocols(Protocols::H1));
    world.server.create("there.git", &[]);
    let url = world.server.url("there.git");
    rgit(&world, world.directory.path(), "h2", &["ls-remote", &url])
        .exits(128)
        .says("HTTP/1.1");
    rgit(&world, world.directory.path(), "auto", &["ls-remote", &url]).exits(0);
}

#[test]
fn auto_lists_refs_over_http2_and_pushes_over_http1() {
    let world = World::with(|builder| builder.protocols(Protocols::Both));
    let source = world.path("source");
    history::small(&world.git, &source, 3);
    world.server.create("there.git", &[]);
    let url = world.server.url("there.git");
    for (arguments, expected) in [
        (&["push", "-q", &url, "main"][..], http::Version::HTTP_11),
        (&["ls-remote", &url], http::Version::HTTP_2),
        (&["clone", "-q", &url, "clone"], http::Version::HTTP_11),
    ] {
        world.server.clear_log();
        rgit(&world, &source, "auto", arguments).exits(0);
        let versions: Vec<_> = world.server.requests().iter().map(|seen| seen.version).collect();
        assert!(versions.len() >= 2, "{arguments:?}: {versions:?}");
        assert!(
            versions.iter().all(|version| *version == expected),
            "{arguments:?}: {versions:?}"
        );
    }
}

#[test]
fn sizes_come_from_the_configuration() {
    let world = World::new();
    world.server.create("there.git", &[]);
    let url = world.server.url("there.git");
    for key in ["streamWindow", "connectionWindow", "maxFrameSize"] {
        for (value, code) in [("1m", 0), ("-1", 128), ("8g", 128), ("wide", 128)] {
            let setting = format!("rgit.h2.{key}={value}");
            let ran = rgit(
                &world,
                world.directory.path(),
                "h2",
                &["-c", &setting, "ls-remote", &url],
            )
            .exits(code);
            if code != 0 {
                assert!(ran.stderr.contains(&format!("rgit.h2.{key}")), "{}", ran.stderr);
            }
        }
    }
}

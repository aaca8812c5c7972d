//! Who a connection was authenticated as stays with that connection, and that is used no more.

use rgit_testkit::reply::{Reply, When};

use super::Warm;
use crate::world::ran;

#[test]
fn nobody_rides_on_another_users_connection() {
    for upstream in ["auto", "h1", "h2"] {
        let warm = Warm::new();
        let url = warm.repository();
        let by = format!("rgit.persistent.upstream={upstream}");
        let list = |more: &[&str]| {
            let arguments = [&["-c", &by], more, &["ls-remote", &url]].concat();
            warm.rgit(warm.world.directory.path(), &arguments).exits(0);
        };
        list(&[]);
        list(&["-c", "http.extraHeader=Authorization: Negotiate YII="]);
        list(&[]);
        let kept = Reply::backend().header("persistent-auth", "true");
        warm.world.server.respond(When::post().once(), kept);
        list(&[]);
        list(&[]);
        let requests = warm.world.server.requests();
        let kept = requests.iter().filter(|request| request.method == "POST").nth(3);
        let kept = kept.expect("the fourth command's");
        let is_bound = |at: usize| requests[at].header("authorization").is_some() || std::ptr::eq(&requests[at], kept);
        for (at, request) in requests.iter().enumerate() {
            let bound_before = (0..at).any(|other| requests[other].connection == request.connection && is_bound(other));
            assert!(!bound_before, "{upstream}: {requests:#?}");
        }
        assert!((0..requests.len()).filter(|at| is_bound(*at)).count() >= 2);
        let others = requests
            .iter()
            .filter(|request| request.header("authorization").is_none());
        let mut connections: Vec<_> = others.map(|request| request.connection).collect();
        connections.dedup();
        assert!(connections.len() < 5, "what can be shared is: {connections:?}");
    }
}

/// They are read by nobody here. Once they are, this tells whether the daemon knows of them, too.
#[test]
fn a_client_certificate_means_the_same_directly_and_by_the_daemon() {
    let warm = Warm::new();
    let url = warm.repository();
    let missing = warm.world.path("nothing.pem");
    let missing = missing.to_str().expect("UTF-8");
    let settings = ["sslCert", "sslKey"].map(|key| format!("http.{key}={missing}"));
    let list = |transport: &str| {
        let mut command = warm.command(warm.world.directory.path());
        command.args([
            "--transport",
            transport,
            "-c",
            &settings[0],
            "-c",
            &settings[1],
            "ls-remote",
            &url,
        ]);
        ran(&command.output().expect("rgit starts"))
    };
    let direct = list("h1");
    for transport in ["persistent", "auto"] {
        let ridden = list(transport);
        assert_eq!(
            (ridden.code, &ridden.stdout, &ridden.stderr),
            (direct.code, &direct.stdout, &direct.stderr),
            "{transport}"
        );
    }
    // The daemon was there to be ridden.
    assert!(warm.status()["requests"].as_u64() >= Some(2), "{}", warm.status());
}

//! Who a connection was authenticated as stays with that connection, and that is used no more.

use rgit_testkit::reply::{Reply, When};

use super::Warm;

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

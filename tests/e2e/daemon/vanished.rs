//! Clients that go in the middle of something.

use rgit_testkit::reply::{Gate, Reply, When};

use super::{PATIENCE, Warm, eventually, kill};

#[test]
fn what_was_asked_for_by_one_who_was_killed_is_ended_though_the_server_is_silent() {
    for (upstream, before_any_answer) in [("h1", true), ("h1", false), ("h2", true), ("h2", false)] {
        let warm = Warm::new();
        let url = warm.repository();
        let gate = Gate::new();
        let reply = match before_any_answer {
            true => Reply::backend().gate(&gate),
            false => Reply::backend().stall_after(0, &gate),
        };
        warm.world.server.respond(When::post().once(), reply);
        let by = format!("rgit.persistent.upstream={upstream}");
        let mut child = warm.begin(warm.world.directory.path(), &["-c", &by, "ls-remote", &url]);
        assert!(gate.wait_for(1, PATIENCE), "the server was asked");
        assert_eq!(warm.status()["profiles"][0]["origins"][0]["underway"], 1);
        kill("-9", child.id().into());
        child.wait().expect("it ends");
        // Long before the idle timeout of 300 seconds.
        eventually("its request is ended", || {
            let status = warm.status();
            let profile = &status["profiles"][0];
            let serving = profile["connections"].as_array().expect("a list").iter();
            let served: u64 = serving.filter_map(|connection| connection["underway"].as_u64()).sum();
            profile["origins"][0]["underway"] == 0 && served == 0
        });
        gate.open();
    }
}

//! Connections that the server closes are there again before they are needed.

use std::time::Duration;

use rgit_testkit::server::{KeepAlive, Protocols};

use super::{Warm, eventually};

fn opened(warm: &Warm) -> usize {
    warm.world.server.connections().len()
}

#[test]
fn what_the_server_closed_is_reopened_ahead() {
    for protocols in [Protocols::H1, Protocols::H2] {
        let idle = KeepAlive::Idle(Duration::from_millis(300));
        let warm = Warm::with(|builder| builder.keep_alive(idle).protocols(protocols));
        warm.world.server.create("r.git", &[]);
        let url = warm.world.server.url("r.git");
        warm.list(&url).exits(0);
        let before = opened(&warm);
        eventually("it is opened again", || opened(&warm) > before);
        eventually("and is there", || warm.world.server.open_connections() > 0);
        let told = warm.status();
        let origin = &told["profiles"][0]["origins"][0];
        assert!(origin["reopened"].as_u64() > Some(0), "{told}");
    }
}

#[test]
fn reopening_can_be_switched_off() {
    let warm = Warm::with(|builder| builder.keep_alive(KeepAlive::Idle(Duration::from_millis(100))));
    warm.world.server.create("r.git", &[]);
    let url = warm.world.server.url("r.git");
    let list = ["-c", "rgit.persistent.reopen=0", "ls-remote", &url];
    warm.rgit(warm.world.directory.path(), &list).exits(0);
    let before = opened(&warm);
    eventually("the server closes", || warm.world.server.open_connections() == 0);
    // Three rounds of a keeper that had anything to keep: nothing else would show that there is none.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(opened(&warm), before);
}

//! What the daemon tells of the connections that it holds.

use rgit_testkit::reply::{Gate, Reply, When};
use serde_json::Value;

use super::{PATIENCE, Warm, eventually};
use crate::world::ran;

/// Its connections, all of one profile.
fn held(status: &Value) -> Vec<Value> {
    status["profiles"][0]["connections"]
        .as_array()
        .cloned()
        .expect("a list")
}

#[test]
fn connections_are_told_of_with_what_they_serve() {
    for (upstream, protocol) in [("h1", "HTTP/1.1"), ("h2", "HTTP/2"), ("auto", "HTTP/1.1")] {
        let warm = Warm::new();
        let url = warm.repository();
        let by = format!("rgit.persistent.upstream={upstream}");
        let list = ["-c", &by, "ls-remote", &url];
        let directory = warm.world.directory.path();
        warm.rgit(directory, &list).exits(0);
        let mut told = Vec::new();
        eventually("it is idle", || {
            told = held(&warm.status());
            told.len() == 1 && told[0]["idle_seconds"].is_u64()
        });
        let base = warm.world.server.base_url();
        assert_eq!(told[0]["origin"], base.trim_end_matches('/'), "{told:?}");
        assert_eq!(told[0]["protocol"], protocol);
        assert_eq!((&told[0]["requests"], &told[0]["underway"]), (&2.into(), &0.into()));
        let gate = Gate::new();
        warm.world
            .server
            .respond(When::post().once(), Reply::backend().gate(&gate));
        let child = warm.begin(directory, &list);
        assert!(gate.wait_for(1, PATIENCE), "the server was asked");
        let status = warm.status();
        let told = held(&status);
        assert_eq!(told.len(), 1, "{status}");
        assert_eq!((&told[0]["requests"], &told[0]["underway"]), (&3.into(), &1.into()));
        assert!(told[0]["idle_seconds"].is_null() && told[0]["age_seconds"].is_u64());
        // Neither what is asked for nor by whom.
        assert!(!status.to_string().contains("r.git"), "{status}");
        let text = ran(&warm.daemon(&["status"])).exits(0).stdout;
        assert!(text.contains(&format!("    {protocol}, open for ")), "{text}");
        assert!(text.contains("3 requests, 1 under way"), "{text}");
        gate.open();
        ran(&child.wait_with_output().expect("it ends")).exits(0);
    }
}

//! Fetch in a gix program over an rgit transport: `fetch REPOSITORY REMOTE`. Everything but the one line with the bridge is plain
//! gix.
#![allow(clippy::print_stdout)]

use std::sync::atomic::AtomicBool;

use rgit_porcelain::bridge::Bridge;
use rgit_smart_http::{GitCredentials, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [directory, name]: [String; 2] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: fetch REPOSITORY REMOTE")?;

    let repo = gix::open(directory)?;
    let remote = repo.find_remote(name.as_str())?;
    let url = remote
        .url(gix::remote::Direction::Fetch)
        .ok_or("the remote has no URL")?
        .to_bstring()
        .to_string();
    let transport = rgit_transport_auto::choose(&Default::default())?;
    let session = Session::new(transport, &url, Default::default(), Box::new(GitCredentials::new()))?;

    let outcome = remote
        .to_connection_with_transport(Bridge::new(session))
        .prepare_fetch(gix::progress::Discard, Default::default())?
        .receive(gix::progress::Discard, &AtomicBool::new(false))?;

    for mapping in &outcome.ref_map.mappings {
        println!("{:?} -> {:?}", mapping.remote.as_name(), mapping.local);
    }
    Ok(())
}

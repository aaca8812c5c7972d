//! Push a branch from any gix program: `push REPOSITORY URL REFSPEC`.
#![allow(clippy::print_stdout)]

use std::sync::{Arc, atomic::AtomicBool};

use rgit_porcelain::{push, remote::Remote};
use rgit_smart_http::{GitCredentials, Session};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [directory, url, refspec]: [String; 3] = std::env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| "usage: push REPOSITORY URL REFSPEC")?;

    let repo = gix::open(directory)?;
    let transport = rgit_transport_auto::choose(&Default::default())?;
    let mut session = Session::new(transport, &url, Default::default(), Box::new(GitCredentials::new()))?;
    let remote = Remote::for_push(&repo, Some(url.as_str().into()))?;
    let mut options = push::Options::default();
    options.refspecs.push(refspec.into());
    let (mut progress, stop) = (gix::progress::Discard, Arc::new(AtomicBool::new(false)));
    let outcome = push::push(
        &repo,
        &remote,
        &mut session,
        &options,
        &mut progress,
        &mut |_| {},
        &stop,
    )?;

    for result in &outcome.refs {
        println!("{}: {:?}", result.remote, result.status);
    }
    if outcome.is_success() {
        Ok(())
    } else {
        Err("a ref was refused".into())
    }
}

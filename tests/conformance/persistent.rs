//! The transport that rides a daemon. Each has a daemon of its own, in a thread, that goes with it.

use std::sync::Arc;

use http::{Request, Response, Version};
use rgit_transport::{Answer, Body, Error, Transport};
use rgit_transport_persistent::{Daemon, Factory, Handle, Persistent, Profile, Settings, SocketPath, Upstream};

use crate::support::{Mount, Options, h1, h2};

/// HTTP/1.1 behind it.
pub(crate) const H1: Mount = Mount {
    make: |options| ridden(options, h1),
    version: Version::HTTP_11,
    refused: 0,
};

/// HTTP/2 behind it.
pub(crate) const H2: Mount = Mount {
    make: |options| ridden(options, h2),
    version: Version::HTTP_2,
    refused: 0,
};

/// The transport with its daemon.
#[derive(Debug)]
struct Ridden {
    persistent: Option<Persistent>,
    handle: Handle,
    _directory: tempfile::TempDir,
}

fn ridden(options: Options, upstream: fn(Options) -> Arc<dyn Transport>) -> Arc<dyn Transport> {
    let directory = tempfile::tempdir().expect("a directory");
    let place = SocketPath::within(directory.path().join("rgit"));
    let mut profile = Profile::default();
    profile.idle_timeout = options.idle_timeout;
    let factory: Box<Factory> = Box::new(move |_| Ok(Upstream::new(upstream(options.clone()))));
    let listener = Daemon::bind(&place).expect("a socket");
    let daemon = Daemon::new(listener, place.clone(), factory, Settings::default()).expect("a daemon");
    let handle = daemon.handle();
    std::thread::spawn(move || {
        daemon.run().expect("it leaves when it is told to");
    });
    let persistent = Persistent::new(place, None, &profile, || {
        Err(Error::Request {
            reason: "there is a daemon, and no direct way".into(),
        })
    });
    Arc::new(Ridden {
        persistent: Some(persistent),
        handle,
        _directory: directory,
    })
}

impl Transport for Ridden {
    fn exchange(&self, request: Request<Body<'_>>) -> Result<Response<Answer>, Error> {
        self.persistent.as_ref().expect("it goes last").exchange(request)
    }
}

impl Drop for Ridden {
    fn drop(&mut self) {
        // An answer that is still being held keeps the daemon, so that it is told, and not waited for.
        self.persistent = None;
        self.handle.leave();
    }
}

//! Who rides a daemon that answers, exchange by exchange.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response, Uri};
use rgit_transport::{Answer, Body, Error, Transport};
use rgit_transport_persistent::Persistent;

use crate::{
    Choice, CostModel, Hop, Link,
    auto::{UNSEEN_ROUND_TRIP, work},
    choose,
};

/// The direct way, made when first needed and then shared by all who take it: its connections and what it learns are one.
#[derive(Debug, Clone)]
pub(crate) struct Direct {
    choice: Choice,
    made: Arc<Mutex<Option<Arc<dyn Transport>>>>,
}

impl Direct {
    pub(crate) fn new(choice: Choice) -> Direct {
        Direct {
            choice,
            made: Arc::default(),
        }
    }

    pub(crate) fn transport(&self) -> Result<Arc<dyn Transport>, Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(transport) = &*made {
            return Ok(transport.clone());
        }
        let transport = choose(&self.choice).map_err(|err| Error::Request {
            reason: err.to_string(),
        })?;
        Ok(made.insert(transport).clone())
    }
}

/// Rides the daemon wherever the [`CostModel`] says that this takes less.
#[derive(Debug)]
pub(crate) struct Rider {
    pub(crate) daemon: Persistent,
    pub(crate) direct: Direct,
}

impl Transport for Rider {
    fn exchange(&self, request: Request<Body<'_>>) -> Result<Response<Answer>, Error> {
        let (work, link) = (work(&request), link(request.uri()));
        if CostModel::default().rides(&work, &link, &Hop::default()) {
            return self.daemon.exchange(request);
        }
        tracing::debug!(?work, ?link, "the way by the daemon would take longer");
        self.direct.transport()?.exchange(request)
    }
}

/// What is known of the way before anything went there.
fn link(uri: &Uri) -> Link {
    match is_this_machine(uri.host().unwrap_or_default()) {
        true => Link {
            round_trip: Duration::ZERO,
            rate: Some(Hop::WITHIN_A_MACHINE),
        },
        false => Link {
            round_trip: UNSEEN_ROUND_TRIP,
            rate: None,
        },
    }
}

/// Whether a host is this machine by its name alone (RFC 6761, section 6.3).
fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let name = host.to_ascii_lowercase();
    address.is_ok_and(|address| address.is_loopback()) || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_name() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.1.2.3", true),
            ("[::1]", true),
            ("LocalHost", true),
            ("git.localhost", true),
            ("localhost.example", false),
            ("192.0.2.1", false),
            ("[2001:db8::1]", false),
            ("", false),
        ] {
            assert_eq!(is_this_machine(host), expected, "{host}");
        }
    }
}

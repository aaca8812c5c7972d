use std::time::Duration;

/// A connection that a transport holds: for whoever wants to know what it keeps. It names neither paths nor users.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// To whom: scheme, host and port.
    pub origin: String,
    /// What is spoken on it.
    pub protocol: http::Version,
    /// Since it was made.
    pub age: Duration,
    /// Exchanges begun on it.
    pub requests: u64,
    /// Those that are not over.
    pub underway: usize,
    /// Since the last of them was over, or the connection made. `None` while one is under way.
    pub idle: Option<Duration>,
}

impl Held {
    /// One that was just made and serves nobody.
    pub fn new(origin: String, protocol: http::Version) -> Self {
        Held {
            origin,
            protocol,
            age: Duration::ZERO,
            requests: 0,
            underway: 0,
            idle: Some(Duration::ZERO),
        }
    }
}

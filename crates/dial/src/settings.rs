use std::{path::PathBuf, time::Duration};

/// How to connect, and whom to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Time for connecting and the TLS handshake together. Default: 30 seconds, room for several SYN retransmissions.
    pub connect_timeout: Duration,
    /// PEM file with the only roots to trust, *instead of* the system's (git: `http.sslCAInfo`, `GIT_SSL_CAINFO`).
    pub ca_file: Option<PathBuf>,
    /// Whether server certificates are checked (git: `http.sslVerify`, `GIT_SSL_NO_VERIFY`).
    pub verify: Verify,
    /// Whether [`dial_early`](crate::Dialer::dial_early) sends early data. Default: no. A program that lives shorter than its connections
    /// never has a ticket to send any by.
    pub early_data: bool,
}

/// Whether server certificates are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Verify {
    /// Chain, validity and name.
    #[default]
    Full,
    /// Nothing but that the server holds the key of the certificate it shows: anyone in the path can read and change everything.
    Off,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            connect_timeout: Duration::from_secs(30),
            ca_file: None,
            verify: Verify::Full,
            early_data: false,
        }
    }
}

impl Settings {
    /// Sets [`connect_timeout`](Self::connect_timeout).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets [`ca_file`](Self::ca_file).
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Sets [`verify`](Self::verify).
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// Sets [`early_data`](Self::early_data).
    pub fn early_data(mut self, may_be_sent: bool) -> Self {
        self.early_data = may_be_sent;
        self
    }
}

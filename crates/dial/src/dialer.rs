use std::{
    collections::HashMap,
    fmt, io,
    net::ToSocketAddrs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{ClientConfig, pki_types::ServerName};

use crate::{Connection, Early, Error, Origin, Scheme, Settings, early::Failures, race, tls::Tls, trust};

/// A century: connects take no longer.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The protocols offered in a TLS handshake (RFC 7301), best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alpn {
    /// Only `http/1.1`.
    Http1,
    /// Only `h2`.
    Http2,
    /// `h2`, else `http/1.1`; [`Connection::alpn`] tells which.
    Http2OrHttp1,
}

impl Alpn {
    fn protocols(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Alpn::Http1 => &[b"http/1.1"],
            Alpn::Http2 => &[b"h2"],
            Alpn::Http2OrHttp1 => &[b"h2", b"http/1.1"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// Makes connections. Share one: its TLS sessions resume only within itself, and its roots are read only once.
pub struct Dialer {
    settings: Settings,
    /// One configuration for each ALPN offer, with early data and without, all made from the first so that they share roots and session
    /// cache.
    configs: Mutex<HashMap<(Alpn, bool), Arc<ClientConfig>>>,
    failures: Failures,
}

impl Dialer {
    /// A dialer that works by `settings`. Touches neither network nor files: a CA file is read at the first TLS handshake.
    pub fn new(settings: Settings) -> Result<Dialer, Error> {
        Ok(Dialer {
            settings,
            configs: Mutex::new(HashMap::new()),
            failures: Failures::default(),
        })
    }

    /// Connect to `origin`. `alpn` is offered where TLS is spoken, and ignored for `http`.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_tls`] tells whether TCP came to be.
    pub fn dial(&self, origin: &Origin, alpn: Alpn) -> Result<Connection, Error> {
        self.attempt(origin, alpn, &[], &mut false)
    }

    /// As [`dial`](Self::dial), with `data` in the handshake's first flight where [`Settings::early_data`] and a ticket of the peer's
    /// allow it. [`Connection::early_data`] tells what became of it; what the peer did not take is still to be sent.
    ///
    /// The data is encrypted for the peer whose certificate was verified when the ticket was given, under these same settings. It may be
    /// replayed by others and has no forward secrecy (RFC 8446, section 8), and it may reach the peer twice: where a handshake with it
    /// fails, a second one is made without, as appendix D.3 of RFC 8446 has it, and the origin gets no more of it for ten minutes.
    ///
    /// # Errors
    /// As [`dial`](Self::dial). A handshake that times out is not made a second time.
    pub fn dial_early(&self, origin: &Origin, alpn: Alpn, data: &[u8]) -> Result<Connection, Error> {
        let begun = Instant::now();
        let may_be_sent = self.settings.early_data && !self.failures.has(origin);
        let mut was_sent = false;
        let outcome = self.attempt(origin, alpn, if may_be_sent { data } else { &[] }, &mut was_sent);
        let error = match outcome {
            Err(error) if was_sent => error,
            outcome => return outcome,
        };
        self.failures.add(origin);
        if matches!(error, Error::Timeout { .. }) {
            return Err(error);
        }
        tracing::debug!(%origin, %error, "a handshake with early data failed; connecting without");
        let second = self.dial(origin, alpn)?;
        Ok(second.after_lost_data(begun.elapsed()))
    }

    /// One connection, with `early` data if there is any and it may be sent. `was_sent` tells whether it was, even where that failed.
    fn attempt(&self, origin: &Origin, alpn: Alpn, early: &[u8], was_sent: &mut bool) -> Result<Connection, Error> {
        let begun = Instant::now();
        let resolved = (origin.host.as_str(), origin.port).to_socket_addrs();
        let addresses = race::interleave(resolved.map_err(|source| Error::Resolve {
            host: origin.host.clone(),
            source,
        })?);
        // Looking the name up has the resolver's own limits; ours begin with the first packet to the peer.
        let begun_connecting = Instant::now();
        let deadline = begun_connecting.checked_add(self.settings.connect_timeout);
        // More than the clock can hold is as good as for ever.
        let deadline = deadline.unwrap_or(begun_connecting + FOR_EVER);
        let won = race::connect(&addresses, deadline).map_err(|lost| match lost.source {
            Some(source) => Error::Connect {
                origin: origin.clone(),
                tried: lost.tried,
                source,
            },
            None => self.timeout(origin, false),
        })?;
        let connection = match origin.scheme {
            Scheme::Http => Connection::plain(won.socket, begun.elapsed(), won.round_trip),
            Scheme::Https => {
                let name = ServerName::try_from(origin.host.clone())
                    .map_err(|err| Error::tls(origin, io::Error::new(io::ErrorKind::InvalidInput, err)))?;
                let config = self.config(alpn, !early.is_empty())?;
                let mut tls = Tls::new(won.socket, config, name, early).map_err(|err| Error::tls(origin, err))?;
                *was_sent = tls.early() != Early::Unused;
                tls.handshake(deadline).map_err(|err| match err.kind() {
                    io::ErrorKind::TimedOut => self.timeout(origin, true),
                    _ => Error::tls(origin, err),
                })?;
                Connection::tls(tls, begun.elapsed(), won.round_trip)
            }
        };
        tracing::debug!(%origin, ?connection, resumed = connection.is_resumed(), "connected");
        Ok(connection)
    }

    /// The extension `early_data` stands in a handshake only if there is some to send: others are as if it didn't exist.
    fn config(&self, alpn: Alpn, early: bool) -> Result<Arc<ClientConfig>, Error> {
        // The lock is held while the roots are read, so that threads that start together read them once.
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = configs.get(&(alpn, early)) {
            return Ok(config.clone());
        }
        let mut config = match configs.values().next() {
            Some(sibling) => ClientConfig::clone(sibling),
            None => trust::client_config(&self.settings)?,
        };
        config.alpn_protocols = alpn.protocols();
        config.enable_early_data = early;
        let config = Arc::new(config);
        configs.insert((alpn, early), config.clone());
        Ok(config)
    }

    fn timeout(&self, origin: &Origin, tls: bool) -> Error {
        Error::Timeout {
            origin: origin.clone(),
            tls,
            after: self.settings.connect_timeout,
        }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

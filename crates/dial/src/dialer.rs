use std::{
    collections::HashMap,
    fmt, io,
    net::ToSocketAddrs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{ClientConfig, pki_types::ServerName};

use crate::{Connection, Error, Origin, Scheme, Settings, race, tls::Tls, trust};

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
    /// One configuration for each ALPN offer, all made from the first so that they share roots and session cache.
    configs: Mutex<HashMap<Alpn, Arc<ClientConfig>>>,
}

impl Dialer {
    /// A dialer that works by `settings`. Touches neither network nor files: a CA file is read at the first TLS handshake.
    pub fn new(settings: Settings) -> Result<Dialer, Error> {
        Ok(Dialer {
            settings,
            configs: Mutex::new(HashMap::new()),
        })
    }

    /// Connect to `origin`. `alpn` is offered where TLS is spoken, and ignored for `http`.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::is_tls`] tells whether TCP came to be.
    pub fn dial(&self, origin: &Origin, alpn: Alpn) -> Result<Connection, Error> {
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
                let config = self.config(alpn)?;
                let tls = Tls::handshake(won.socket, config, name, deadline).map_err(|err| match err.kind() {
                    io::ErrorKind::TimedOut => self.timeout(origin, true),
                    _ => Error::tls(origin, err),
                })?;
                Connection::tls(tls, begun.elapsed(), won.round_trip)
            }
        };
        tracing::debug!(%origin, ?connection, resumed = connection.is_resumed(), "connected");
        Ok(connection)
    }

    fn config(&self, alpn: Alpn) -> Result<Arc<ClientConfig>, Error> {
        // The lock is held while the roots are read, so that threads that start together read them once.
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = configs.get(&alpn) {
            return Ok(config.clone());
        }
        let mut config = match configs.values().next() {
            Some(sibling) => ClientConfig::clone(sibling),
            None => trust::client_config(&self.settings)?,
        };
        config.alpn_protocols = alpn.protocols();
        let config = Arc::new(config);
        configs.insert(alpn, config.clone());
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

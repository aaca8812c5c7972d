use std::{fmt, sync::Arc};

use rgit_dial::{Alpn, Connection, Dialer, Origin};
use rgit_transport::{Error, Stage};

/// How [`H1`](crate::H1) comes to its connections.
pub trait Connect: fmt::Debug + Send + Sync {
    /// A new connection for requests to `origin`, on which HTTP/1.1 is spoken.
    ///
    /// # Errors
    /// In the words of the trait: at stage [`Dial`](Stage::Dial) or [`Tls`](Stage::Tls).
    fn connect(&self, origin: &Origin) -> Result<Connection, Error>;

    /// As [`connect`](Self::connect), with a whole `request` that may go out before the connection's handshake is through.
    /// [`Connection::early_data`] tells whether it did. Who knows no early data does as usual.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    fn connect_early(&self, origin: &Origin, request: &[u8]) -> Result<Connection, Error> {
        let _ = request;
        self.connect(origin)
    }
}

impl Connect for Arc<Dialer> {
    fn connect(&self, origin: &Origin) -> Result<Connection, Error> {
        self.dial(origin, Alpn::Http1).map_err(|err| failed(origin, err))
    }

    fn connect_early(&self, origin: &Origin, request: &[u8]) -> Result<Connection, Error> {
        self.dial_early(origin, Alpn::Http1, request)
            .map_err(|err| failed(origin, err))
    }
}

fn failed(origin: &Origin, err: rgit_dial::Error) -> Error {
    if err.is_alpn_refused() {
        return Error::Version {
            origin: origin.to_string(),
            wanted: http::Version::HTTP_2,
            reason: "offered HTTP/1.1 by ALPN, it refused".into(),
            sent: 0,
            code: None,
        };
    }
    let stage = if err.is_tls() { Stage::Tls } else { Stage::Dial };
    Error::broken(stage, origin.to_string(), 0, err)
}

//! The accept loop, TLS, and one task for each connection.
//!
//! Owns which HTTP a connection speaks and when it ends. Requests go to [`Service`].

use std::{pin::pin, sync::Arc};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::HandshakeKind;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    connection::{Activity, Socket, Watched},
    requests::{Alive, Living},
    server::{KeepAlive, Protocols},
    service::Service,
    tally::Passing,
};

/// The protocol's own default window: RFC 9113, section 6.9.2.
const DEFAULT_WINDOW: u32 = 65_535;

/// What the accept loop and its connections need.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) service: Arc<Service>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) living: Arc<Living>,
    pub(crate) ending: watch::Receiver<bool>,
}

impl Listener {
    /// A TLS acceptor that offers what `protocols` allow.
    pub(crate) fn acceptor(config: &rustls::ServerConfig, protocols: Protocols) -> TlsAcceptor {
        let mut config = config.clone();
        let names: &[&[u8]] = match protocols {
            Protocols::H1 => &[b"http/1.1"],
            Protocols::H2 => &[b"h2"],
            Protocols::Both => &[b"h2", b"http/1.1"],
            Protocols::H1WithoutAlpn => &[],
        };
        config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Accepts until the server ends.
    pub(crate) async fn run(self, listener: TcpListener) {
        let _alive = self.living.join();
        let mut ending = self.ending.clone();
        loop {
            tokio::select! {
                biased;
                _ = ending.wait_for(|ending| *ending) => return,
                accepted = listener.accept() => {
                    // A client that is gone before it was accepted is no reason to stop.
                    let Ok((stream, _)) = accepted else { continue };
                    let id = self.service.log.accept();
                    let alive = self.living.join();
                    let connection = self.clone();
                    let mut ending = self.ending.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = connection.serve(stream, id, alive) => {}
                            _ = ending.wait_for(|ending| *ending) => {}
                        }
                    });
                }
            }
        }
    }

    async fn serve(self, stream: TcpStream, id: u64, alive: Alive) {
        // Without this a small answer may wait 40 ms for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let linger = (!self.service.settings.abrupt).then(|| self.ending.clone());
        let socket = Socket::new(stream, linger, alive);
        let protocols = self.service.settings.protocols;
        let Some(tls) = &self.tls else {
            return self.http(socket, protocols, id).await;
        };
        let Ok(stream) = tls.accept(socket).await else { return };
        let (_, session) = stream.get_ref();
        let resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let alpn = session.alpn_protocol().map(<[u8]>::to_vec);
        self.service.log.secured(id, alpn.as_deref(), resumed);
        let protocols = match alpn.as_deref() {
            Some(b"h2") => Protocols::H2,
            Some(_) => Protocols::H1,
            // No ALPN means HTTP/1.1, except to a server that knows nothing else.
            None if protocols == Protocols::H2 => Protocols::H2,
            None => Protocols::H1,
        };
        self.http(stream, protocols, id).await;
    }

    async fn http<S>(&self, stream: S, protocols: Protocols, id: u64)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let settings = &self.service.settings;
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder = match protocols {
            Protocols::H1 | Protocols::H1WithoutAlpn => builder.http1_only(),
            Protocols::H2 => builder.http2_only(),
            Protocols::Both => builder,
        };
        builder.http1().keep_alive(settings.keep_alive != KeepAlive::Off);
        let window = settings.window.unwrap_or(DEFAULT_WINDOW);
        builder
            .http2()
            .initial_stream_window_size(window)
            .initial_connection_window_size(settings.connection_window.unwrap_or(window.max(DEFAULT_WINDOW)))
            .max_frame_size(settings.frame_size.unwrap_or(16_384))
            .max_concurrent_streams(settings.streams.unwrap_or(200))
            // What waits to be sent on one stream: enough for a fast download over a long link.
            .max_send_buf_size(4 * 1024 * 1024);
        let activity = Arc::new(Activity::default());
        let http2 = match protocols {
            Protocols::H1 | Protocols::H1WithoutAlpn => Some(false),
            Protocols::H2 => Some(true),
            Protocols::Both => None,
        };
        let io = TokioIo::new(Watched {
            stream,
            activity: activity.clone(),
            passing: Passing::new(&self.service.log.tally, http2),
        });
        let service = {
            let (service, activity) = (self.service.clone(), activity.clone());
            hyper::service::service_fn(move |request| service.clone().call(request, id, activity.clone()))
        };
        let mut connection = pin!(builder.serve_connection(io, service));
        if let KeepAlive::Idle(timeout) = settings.keep_alive {
            tokio::select! {
                _ = connection.as_mut() => return,
                () = activity.idle_for(timeout) => connection.as_mut().graceful_shutdown(),
            }
        }
        // An error here is the client's leaving or a deliberate cut: the log tells what was exchanged.
        let _ = connection.await;
    }
}

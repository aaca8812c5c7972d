use std::time::Duration;

/// How one exchange travelled: put into [`http::Response::extensions`] by every transport.
///
/// All durations are wall time as seen by this process. Fields are public and may be set by implementations; more may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wire {
    /// The protocol spoken with the server.
    pub protocol: http::Version,
    /// Whether the connection had served an exchange before this one.
    pub reused: bool,
    /// How long it took to make the connection (name, TCP, TLS). `None` when it was reused. Early data travels in that time.
    pub dial_time: Option<Duration>,
    /// The smallest round trip seen on this connection so far: that of an HTTP/2 PING, where one came back, else the TCP handshake's,
    /// which something on the way to the server may have answered.
    pub round_trip: Option<Duration>,
    /// Body bytes of the request handed to the network, before transfer framing.
    pub sent: u64,
    /// How often the request was sent again because the server provably had not processed it, or it may be processed twice.
    pub resent: u32,
    /// Whether the request went out before the connection's handshake was through.
    pub early_data: EarlyData,
    /// Whether the answer's head came before the request's body was through.
    pub early: bool,
    /// How long the body stood still although bytes of it were ready and all earlier ones were out: HTTP/2's windows allowed no
    /// more. Zero on HTTP/1.1, which has none. Close to `sent / peer's window` round trips where a window is what limits an upload.
    pub starved: Duration,
    /// What an HTTP/2 peer allows; `None` on HTTP/1.1.
    pub peer: Option<PeerSettings>,
    /// Whether the server was not asked at all: somebody on the way had its answer still
    /// ([`Rememberable`](crate::Rememberable)). All else is then how that came here.
    pub remembered: bool,
}

impl Wire {
    /// An exchange of which only the protocol is known.
    pub fn new(protocol: http::Version) -> Self {
        Wire {
            protocol,
            reused: false,
            dial_time: None,
            round_trip: None,
            sent: 0,
            resent: 0,
            early_data: EarlyData::Unused,
            early: false,
            starved: Duration::ZERO,
            peer: None,
            remembered: false,
        }
    }

    /// Whether it travelled in HTTP/1.1, where an answer is done with when its content is: see [`Answer`](crate::Answer).
    pub fn is_http11(&self) -> bool {
        self.protocol == http::Version::HTTP_11
    }
}

/// What became of a request as TLS 1.3 early data (RFC 8446, section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum EarlyData {
    /// It went out after the handshake, if there was one.
    #[default]
    Unused,
    /// The server took it, which spared a round trip. Unless [`Wire::resent`] says that it was sent again, as one that is answered by 425
    /// (RFC 8470, section 5.2).
    Accepted,
    /// The server didn't take it: it was sent again when the handshake was through. Where that handshake failed, on another connection,
    /// and [`Wire::resent`] counts it.
    Rejected,
}

/// The limits an HTTP/2 peer had announced when the exchange was made (RFC 9113, section 6.5.2). Units are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerSettings {
    /// `SETTINGS_INITIAL_WINDOW_SIZE`: how much of one stream may be on its way.
    pub initial_window: u32,
    /// The connection's own window, shared by all streams: the most that the peer has allowed to be on its way at one time.
    pub connection_window: u32,
    /// `SETTINGS_MAX_FRAME_SIZE`.
    pub max_frame_size: u32,
    /// `SETTINGS_MAX_CONCURRENT_STREAMS`; `None` where the peer sets no limit.
    pub max_concurrent_streams: Option<u32>,
}

impl PeerSettings {
    /// Settings as announced.
    pub fn new(initial_window: u32, connection_window: u32, max_frame_size: u32) -> Self {
        PeerSettings {
            initial_window,
            connection_window,
            max_frame_size,
            max_concurrent_streams: None,
        }
    }

    /// How many bytes of one request's body may be on their way: the smaller one of the stream's and the connection's window.
    pub fn upload_window(&self) -> u32 {
        self.initial_window.min(self.connection_window)
    }

    /// Sets [`max_concurrent_streams`](Self::max_concurrent_streams).
    pub fn max_concurrent_streams(mut self, streams: Option<u32>) -> Self {
        self.max_concurrent_streams = streams;
        self
    }
}

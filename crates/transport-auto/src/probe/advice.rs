//! What a server's operator can change.

use std::time::Duration;

use rgit_transport::PeerSettings;

use super::{Report, Spoken, units};

/// Rates a link may have, in bits a second, and the round trip that windows are reckoned for.
const RATES: [u64; 2] = [100_000_000, 1_000_000_000];
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// What the connection's window is before any WINDOW_UPDATE (RFC 9113, section 6.9.2).
const INITIAL: u32 = 65_535;
/// Bytes in front of every frame (RFC 9113, section 4.1).
const FRAME_HEAD: f64 = 9.0;

/// Which window holds an upload back (RFC 9113, section 5.2): the smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The stream's: `SETTINGS_INITIAL_WINDOW_SIZE`.
    StreamWindow,
    /// The connection's: 65,535 bytes and what WINDOW_UPDATE on stream 0 adds.
    ConnectionWindow,
    /// They are equal.
    BothWindows,
}

impl Limit {
    /// `stream-window`, `connection-window` or `both-windows`.
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::StreamWindow => "stream-window",
            Limit::ConnectionWindow => "connection-window",
            Limit::BothWindows => "both-windows",
        }
    }
}

/// What one rate needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Needed {
    /// In bits a second.
    pub rate: u64,
    /// At which round trip.
    pub round_trip: Duration,
    /// What each window has to be at least, in bytes: rate × round trip.
    pub window: u64,
    /// Whether the stream's window is.
    pub is_stream_enough: bool,
    /// Whether the connection's window is.
    pub is_connection_enough: bool,
}

impl Needed {
    fn new(peer: &PeerSettings, rate: u64, round_trip: Duration) -> Needed {
        let bits = u128::from(rate) * round_trip.as_micros();
        let window = u64::try_from(bits.div_ceil(8 * 1_000_000)).unwrap_or(u64::MAX);
        Needed {
            rate,
            round_trip,
            window,
            is_stream_enough: u64::from(peer.initial_window) >= window,
            is_connection_enough: u64::from(peer.connection_window) >= window,
        }
    }

    /// Whether nothing has to be raised.
    pub fn is_enough(&self) -> bool {
        self.is_stream_enough && self.is_connection_enough
    }
}

/// What one server calls its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Knob {
    /// The server.
    pub server: &'static str,
    /// Its setting for the stream's window.
    pub stream_window: &'static str,
    /// Its setting for the connection's window; `None` where it raises that to the largest the protocol allows by itself.
    pub connection_window: Option<&'static str>,
    /// What else there is to know; may be empty.
    pub remark: &'static str,
}

/// From each server's documentation and, for what is not in there, its source: `h2_session.c` (Apache), `ngx_http_v2.c` (nginx) and
/// `mux_h2.c` (HAProxy) raise the connection's window to 2³¹ − 1.
const KNOBS: [Knob; 6] = [
    Knob {
        server: "Apache httpd",
        stream_window: "H2WindowSize",
        connection_window: None,
        remark: "",
    },
    Knob {
        server: "nginx",
        stream_window: "http2_body_preread_size",
        connection_window: None,
        remark: "the stream's grows without limit where nginx buffers the body, else (proxy_request_buffering off) to client_body_buffer_size",
    },
    Knob {
        server: "HAProxy",
        stream_window: "tune.h2.fe.initial-window-size",
        connection_window: None,
        remark: "the connection's window is raised when the first body arrives; before 2.8 tune.h2.initial-window-size, from 3.1 better \
                 tune.h2.fe.rxbuf, up to which the stream's window grows by itself",
    },
    Knob {
        server: "Envoy",
        stream_window: "http2_protocol_options.initial_stream_window_size",
        connection_window: Some("http2_protocol_options.initial_connection_window_size"),
        remark: "",
    },
    Knob {
        server: "Go net/http",
        stream_window: "HTTP2Config.MaxReceiveBufferPerStream",
        connection_window: Some("HTTP2Config.MaxReceiveBufferPerConnection"),
        remark: "",
    },
    Knob {
        server: "Kestrel",
        stream_window: "Limits.Http2.InitialStreamWindowSize",
        connection_window: Some("Limits.Http2.InitialConnectionWindowSize"),
        remark: "",
    },
];

/// What to change, if anything.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// Which window is the smaller one; `None` without HTTP/2.
    pub limit: Option<Limit>,
    /// What 100 Mbit/s and 1 Gbit/s need at 100 ms; empty without HTTP/2.
    pub needed: Vec<Needed>,
    /// All of it in sentences.
    pub sentences: Vec<String>,
    /// Where the windows are set; empty where none has to be raised.
    pub knobs: &'static [Knob],
}

/// Advice to whoever runs the server.
pub fn advise(report: &Report) -> Advice {
    let Some(peer) = &report.peer else {
        return Advice {
            limit: None,
            needed: Vec::new(),
            sentences: vec![without_http2(report).to_owned()],
            knobs: &[],
        };
    };
    let needed: Vec<_> = RATES.map(|rate| Needed::new(peer, rate, ROUND_TRIP)).into();
    let limit = match peer.initial_window.cmp(&peer.connection_window) {
        std::cmp::Ordering::Less => Limit::StreamWindow,
        std::cmp::Ordering::Greater => Limit::ConnectionWindow,
        std::cmp::Ordering::Equal => Limit::BothWindows,
    };
    let is_enough = needed.iter().all(Needed::is_enough);
    let mut sentences = vec![limit_sentence(limit, peer)];
    if limit != Limit::StreamWindow && peer.connection_window == INITIAL {
        sentences.push(format!(
            "The connection's window is still what every connection begins with: some servers (HAProxy) raise it only when a body \
             arrives, and with those the stream's, {}, is the limit.",
            units::bytes(peer.initial_window.into())
        ));
    }
    sentences.extend(needed.iter().map(needed_sentence));
    sentences.push(frame_sentence(peer.max_frame_size));
    if !is_enough {
        sentences.push(
            "This goes by the windows as announced: a server may raise them while it reads a body, and one that gives them back in \
             large steps needs up to twice as much."
                .to_owned(),
        );
        sentences.push(
            match report.http1 {
                Spoken::No { .. } => {
                    "Offering http/1.1 by ALPN as well lets clients that can choose upload without a window in the way."
                }
                _ => "Until then, uploads over HTTP/1.1 have no window in the way: go on offering http/1.1 by ALPN.",
            }
            .to_owned(),
        );
    }
    Advice {
        limit: Some(limit),
        needed,
        sentences,
        knobs: if is_enough { &[] } else { &KNOBS },
    }
}

fn without_http2(report: &Report) -> &'static str {
    match report.http2 {
        Spoken::Unknown { .. } => {
            "Only by https:// can a server say that it speaks HTTP/2; over HTTP/1.1, no window holds uploads back."
        }
        _ => "No window holds uploads back: over HTTP/1.1, TCP alone controls the flow.",
    }
}

fn limit_sentence(limit: Limit, peer: &PeerSettings) -> String {
    let stream = units::bytes(peer.initial_window.into());
    let connection = units::bytes(peer.connection_window.into());
    match limit {
        Limit::StreamWindow => format!(
            "Of the two windows the stream's is the smaller: SETTINGS_INITIAL_WINDOW_SIZE is {stream}; the connection's window is \
             {connection}."
        ),
        Limit::ConnectionWindow => format!(
            "Of the two windows the connection's is the smaller: it is {connection}, which WINDOW_UPDATE on \
             stream 0 raises; SETTINGS_INITIAL_WINDOW_SIZE is {stream}."
        ),
        Limit::BothWindows => {
            format!("Both windows, SETTINGS_INITIAL_WINDOW_SIZE and the connection's, are {stream}.")
        }
    }
}

fn needed_sentence(needed: &Needed) -> String {
    let verdict = match (needed.is_stream_enough, needed.is_connection_enough) {
        (true, true) => "they are",
        (false, true) => "raise the stream's (SETTINGS_INITIAL_WINDOW_SIZE)",
        (true, false) => "raise the connection's (WINDOW_UPDATE on stream 0)",
        (false, false) => {
            "raise both, the stream's (SETTINGS_INITIAL_WINDOW_SIZE) and the connection's (WINDOW_UPDATE on stream 0)"
        }
    };
    format!(
        "For {} at {}, both must be at least {}: {verdict}.",
        units::bits(needed.rate as f64),
        units::time(needed.round_trip),
        units::bytes(needed.window),
    )
}

fn frame_sentence(max_frame_size: u32) -> String {
    let share = FRAME_HEAD / f64::from(max_frame_size.max(1)) * 100.0;
    format!(
        "SETTINGS_MAX_FRAME_SIZE, {}, is no limit: heads of frames add {share:.2} %.",
        units::bytes(max_frame_size.into())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(peer: Option<PeerSettings>, http1: Spoken) -> Report {
        Report {
            origin: "https://example.com:443".into(),
            is_tls: true,
            tls_version: Some("TLSv1_3"),
            alpn: None,
            http1,
            http2: match peer {
                Some(_) => Spoken::Yes,
                None => Spoken::no("it chose HTTP/1.1"),
            },
            dial_time: Duration::from_millis(60),
            tcp_round_trip: Duration::from_millis(20),
            ping: None,
            peer,
        }
    }

    #[test]
    fn the_limit_and_what_is_needed() {
        use Limit::{BothWindows, ConnectionWindow, StreamWindow};
        const LARGEST: u32 = i32::MAX as u32;
        const RAISE_STREAM: &str = "raise the stream's";
        const RAISE_CONNECTION: &str = "raise the connection's";
        const RAISE_BOTH: &str = "raise both";
        const ENOUGH: &str = "they are";
        // Windows of stream and connection; the limit; what is said of 100 Mbit/s and of 1 Gbit/s.
        let cases: &[(u32, u32, Limit, &str, &str)] = &[
            (65_535, LARGEST, StreamWindow, RAISE_STREAM, RAISE_STREAM),
            (65_536, 65_535, ConnectionWindow, RAISE_BOTH, RAISE_BOTH),
            (65_535, 65_535, BothWindows, RAISE_BOTH, RAISE_BOTH),
            (16 << 20, 65_535, ConnectionWindow, RAISE_CONNECTION, RAISE_CONNECTION),
            (1_250_000, LARGEST, StreamWindow, ENOUGH, RAISE_STREAM),
            (1_249_999, LARGEST, StreamWindow, RAISE_STREAM, RAISE_STREAM),
            (786_432, 1_048_576, StreamWindow, RAISE_BOTH, RAISE_BOTH),
            (12_500_000, 12_500_000, BothWindows, ENOUGH, ENOUGH),
            (0, LARGEST, StreamWindow, RAISE_STREAM, RAISE_STREAM),
        ];
        for (stream, connection, limit, slow, fast) in cases {
            let peer = PeerSettings::new(*stream, *connection, 16_384);
            let advice = advise(&report(Some(peer), Spoken::Yes));
            let context = format!("{stream} {connection}: {advice:#?}");
            assert_eq!(advice.limit, Some(*limit), "{context}");
            let windows: Vec<_> = advice.needed.iter().map(|needed| needed.window).collect();
            assert_eq!(windows, [1_250_000, 12_500_000], "{context}");
            assert!(
                advice.sentences[0].contains(&units::bytes((*stream).into())),
                "{context}"
            );
            let is_initial = *connection == 65_535;
            let more = &advice.sentences[1..];
            assert_eq!(more[0].contains("HAProxy"), is_initial, "{context}");
            let more = &more[usize::from(is_initial)..];
            for (sentence, rate, window, verdict) in [
                (&more[0], "100 Mbit/s at 100 ms", "1,250,000 bytes", slow),
                (&more[1], "1 Gbit/s at 100 ms", "12,500,000 bytes", fast),
            ] {
                let found = [rate, window, verdict].iter().all(|text| sentence.contains(*text));
                assert!(found, "{sentence} {context}");
            }
            let is_enough = *fast == ENOUGH;
            assert_eq!(advice.knobs.is_empty(), is_enough, "{context}");
            assert_eq!(more.len(), if is_enough { 3 } else { 5 }, "{context}");
        }
    }

    #[test]
    fn frames_are_no_limit() {
        let peer = PeerSettings::new(65_535, 65_535, 16_384);
        let advice = advise(&report(Some(peer), Spoken::Yes));
        let of_frames = |sentence: &&String| sentence.contains("SETTINGS_MAX_FRAME_SIZE, 16,384 bytes (16 KiB)");
        let sentence = advice.sentences.iter().find(of_frames).expect("a sentence on frames");
        assert!(sentence.contains("0.05 %"));
    }

    #[test]
    fn http1_is_the_way_around() {
        let peer = PeerSettings::new(65_535, 65_535, 16_384);
        let last = |http1| advise(&report(Some(peer), http1)).sentences.pop().unwrap();
        assert!(last(Spoken::Yes).contains("go on offering http/1.1"));
        assert!(last(Spoken::no("it refused")).starts_with("Offering http/1.1"));
    }

    #[test]
    fn without_http2_no_window_is_in_the_way() {
        let advice = advise(&report(None, Spoken::Yes));
        assert_eq!((advice.limit, advice.needed.len(), advice.knobs.len()), (None, 0, 0));
        assert!(advice.sentences[0].contains("TCP alone"));
        let mut plain = report(None, Spoken::unknown("no request"));
        plain.http2 = Spoken::unknown("no TLS");
        assert!(advise(&plain).sentences[0].contains("https://"));
    }
}

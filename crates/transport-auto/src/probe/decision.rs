//! Which way [`Auto`](crate::Auto) would take, and why.

use std::time::Duration;

use super::{Report, Spoken, UPLOAD, units};
use crate::{Amount, CostModel, Link, Name, Protocol, Road, Work};

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A request and an answer of no size: a listing, a refusal.
    Small,
    /// A push of [`UPLOAD`] bytes.
    BulkUp,
    /// A fetch of as many.
    BulkDown,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Small, Kind::BulkUp, Kind::BulkDown];

    /// `small`, `bulk-up` or `bulk-down`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Small => "small",
            Kind::BulkUp => "bulk-up",
            Kind::BulkDown => "bulk-down",
        }
    }

    fn work(self) -> Work {
        let small = Work::SMALL;
        let large = Amount::Bytes(UPLOAD);
        match self {
            Kind::Small => small,
            Kind::BulkUp => Work { up: large, ..small },
            Kind::BulkDown => Work { down: large, ..small },
        }
    }
}

/// Which connection is there already. With one of HTTP/1.1, everything rides that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Open {
    /// None: one has to be made.
    Nothing,
    /// One of HTTP/2, and none of HTTP/1.1.
    Http2,
}

impl Open {
    /// `none` or `http2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Open::Nothing => "none",
            Open::Http2 => "http2",
        }
    }
}

/// What would be chosen for one kind of work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// For what.
    pub kind: Kind,
    /// With what there already.
    pub open: Open,
    /// The choice: [`Name::H1`] or [`Name::H2`].
    pub transport: Name,
    /// How long it is predicted to take over HTTP/1.1; `None` where the server doesn't speak it.
    pub http1: Option<Duration>,
    /// The same over HTTP/2.
    pub http2: Option<Duration>,
    /// Why, in a sentence.
    pub reason: String,
}

/// What [`Auto`](crate::Auto) would choose: for each kind of work on a new connection, and, where the server
/// speaks HTTP/2, on one of that which is there.
pub fn decisions(model: &CostModel, report: &Report) -> Vec<Decision> {
    let opens: &[Open] = match report.http2 {
        Spoken::Yes => &[Open::Nothing, Open::Http2],
        _ => &[Open::Nothing],
    };
    let of = |kind: Kind| opens.iter().map(move |open| decide(model, report, kind, *open));
    Kind::ALL.into_iter().flat_map(of).collect()
}

fn decide(model: &CostModel, report: &Report, kind: Kind, open: Open) -> Decision {
    let link = Link {
        round_trip: report.round_trip(),
        rate: None,
    };
    let work = kind.work();
    let handshakes = if report.is_tls { CostModel::HANDSHAKES } else { 1 };
    let mut roads = Vec::with_capacity(2);
    if !matches!(report.http1, Spoken::No { .. }) {
        roads.push(Road::http1(handshakes));
    }
    if report.http2 == Spoken::Yes {
        let handshakes = if open == Open::Http2 { 0 } else { handshakes };
        roads.push(Road::http2(handshakes, report.window()));
    }
    let time = |protocol| {
        let road = roads.iter().find(|road| road.protocol == protocol)?;
        Some(model.time(&work, &link, road))
    };
    let (http1, http2) = (time(Protocol::Http1), time(Protocol::Http2));
    let chosen = model.choose(&work, &link, &roads).map(|number| roads[number].protocol);
    let transport = if chosen == Some(Protocol::Http2) {
        Name::H2
    } else {
        Name::H1
    };
    let reason = match (http1, http2, transport) {
        (Some(http1), None, _) if report.http2.as_str() == "unknown" => {
            format!("{}: without TLS nothing else can be agreed on", units::time(http1))
        }
        (Some(http1), None, _) => format!("{}: the server speaks nothing else", units::time(http1)),
        (None, Some(http2), _) => format!("{}: the server speaks nothing else", units::time(http2)),
        (Some(http1), Some(http2), Name::H2) => format!(
            "{} on the connection that is there, {} on a new one of HTTP/1.1",
            units::time(http2),
            units::time(http1)
        ),
        (Some(http1), Some(http2), _) if http1 < http2 => format!(
            "{}, against {} over HTTP/2: its window of {} holds the upload back",
            units::time(http1),
            units::time(http2),
            units::about(report.window().unwrap_or(CostModel::UNSEEN_WINDOW)),
        ),
        (Some(http1), Some(_), _) => format!(
            "{} over either, and of equals HTTP/1.1, which no window holds back",
            units::time(http1)
        ),
        (None, None, _) => "the server speaks neither HTTP/1.1 nor HTTP/2".to_owned(),
    };
    Decision {
        kind,
        open,
        transport,
        http1,
        http2,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use rgit_transport::PeerSettings;

    use super::*;

    fn report(milliseconds: u64, window: Option<u32>) -> Report {
        Report {
            origin: "https://example.com:443".into(),
            is_tls: true,
            tls_version: Some("TLSv1_3"),
            alpn: None,
            http1: Spoken::Yes,
            http2: match window {
                Some(_) => Spoken::Yes,
                None => Spoken::no("it chose HTTP/1.1"),
            },
            dial_time: Duration::from_millis(milliseconds * 3),
            tcp_round_trip: Duration::from_millis(milliseconds),
            ping: None,
            peer: window.map(|window| PeerSettings::new(window, i32::MAX as u32, 16_384)),
        }
    }

    fn chosen(report: &Report) -> Vec<(&'static str, &'static str, Name)> {
        decisions(&CostModel::default(), report)
            .iter()
            .map(|decision| {
                assert!(!decision.reason.is_empty() && !decision.reason.contains('\n'));
                (decision.kind.as_str(), decision.open.as_str(), decision.transport)
            })
            .collect()
    }

    #[test]
    fn a_small_window_is_left_for_a_large_upload_only() {
        let expected = |bulk_up| {
            vec![
                ("small", "none", Name::H1),
                ("small", "http2", Name::H2),
                ("bulk-up", "none", Name::H1),
                ("bulk-up", "http2", bulk_up),
                ("bulk-down", "none", Name::H1),
                ("bulk-down", "http2", Name::H2),
            ]
        };
        assert_eq!(chosen(&report(100, Some(65_535))), expected(Name::H1));
        assert_eq!(chosen(&report(100, Some(16 << 20))), expected(Name::H2));
    }

    #[test]
    fn reasons_tell_the_times_and_the_window() {
        let all = decisions(&CostModel::default(), &report(100, Some(65_535)));
        let reason = |kind, open| {
            let found = all
                .iter()
                .find(|decision| (decision.kind, decision.open) == (kind, open));
            &found.expect("a decision").reason
        };
        assert!(reason(Kind::BulkUp, Open::Http2).contains("64 KiB holds the upload back"));
        assert!(reason(Kind::Small, Open::Nothing).contains("300 ms over either"));
        assert!(reason(Kind::Small, Open::Http2).starts_with("100 ms on the connection that is there, 300 ms"));
    }

    #[test]
    fn where_there_is_one_way_it_is_taken() {
        let mut only2 = report(100, Some(65_535));
        only2.http1 = Spoken::no("it refused");
        assert!(chosen(&only2).iter().all(|(_, _, name)| *name == Name::H2));
        let only1 = report(100, None);
        assert_eq!(chosen(&only1).len(), 3);
        assert!(chosen(&only1).iter().all(|(_, _, name)| *name == Name::H1));
        let mut plain = report(100, None);
        plain.is_tls = false;
        plain.http1 = Spoken::unknown("no request is sent");
        plain.http2 = Spoken::unknown("no TLS");
        let decided = decisions(&CostModel::default(), &plain);
        assert!(decided.iter().all(|decision| decision.reason.contains("without TLS")));
    }
}

//! `rgit probe --json`: one object. Names of fields stay as they are, and say their unit; further ones may come. What is not known or
//! does not apply is `null`. The README lists them.

use std::{io::Write, time::Duration};

use rgit_smart_http::mask_control;
use rgit_transport_auto::probe::{Decision, Knob, Needed, Spoken, UPLOAD, Upload};
use serde_json::{Value, json};

use super::Findings;

pub(super) fn write(out: &mut dyn Write, findings: &Findings) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &value(findings))?;
    out.write_all(b"\n")
}

fn value(findings: &Findings) -> Value {
    let report = &findings.report;
    let settings = report.peer.map(|peer| {
        json!({
            "initial_window_bytes": peer.initial_window,
            "connection_window_bytes": peer.connection_window,
            "max_frame_size_bytes": peer.max_frame_size,
            "max_concurrent_streams": peer.max_concurrent_streams,
        })
    });
    json!({
        "origin": masked(&report.origin),
        "alpn": report.alpn.as_deref().map(masked),
        "http1": spoken(&report.http1),
        "http2": spoken(&report.http2),
        "tls_version": report.tls_version,
        "connect_seconds": seconds(report.dial_time),
        "round_trip_seconds": seconds(report.round_trip()),
        "tcp_round_trip_seconds": seconds(report.tcp_round_trip),
        "ping_round_trip_seconds": report.ping.map(seconds),
        "http2_settings": settings,
        "http2_window_bytes": report.window(),
        "predicted_link_bytes_per_second": findings.model.rate,
        "uploads": findings.uploads.iter().map(upload).collect::<Vec<_>>(),
        "decisions": findings.decisions.iter().map(decision).collect::<Vec<_>>(),
        "advice": {
            "limit": findings.advice.limit.map(|limit| limit.as_str()),
            "needed": findings.advice.needed.iter().map(needed).collect::<Vec<_>>(),
            "sentences": findings.advice.sentences,
            "knobs": findings.advice.knobs.iter().map(knob).collect::<Vec<_>>(),
        },
    })
}

fn spoken(spoken: &Spoken) -> Value {
    json!({ "spoken": spoken.as_str(), "reason": spoken.reason().map(masked) })
}

fn upload(upload: &Upload) -> Value {
    json!({
        "bytes": UPLOAD,
        "round_trip_seconds": seconds(upload.round_trip),
        "measured": upload.is_measured,
        "http2_ceiling_bytes_per_second": upload.ceiling,
        "http1_seconds": seconds(upload.http1),
        "http2_seconds": upload.http2.map(seconds),
        "http1_times_as_fast": upload.speedup(),
    })
}

fn decision(decision: &Decision) -> Value {
    json!({
        "work": decision.kind.as_str(),
        "open_connection": decision.open.as_str(),
        "transport": decision.transport.to_string(),
        "http1_seconds": decision.http1.map(seconds),
        "http2_seconds": decision.http2.map(seconds),
        "reason": decision.reason,
    })
}

fn needed(needed: &Needed) -> Value {
    json!({
        "rate_bits_per_second": needed.rate,
        "round_trip_seconds": seconds(needed.round_trip),
        "window_bytes": needed.window,
        "stream_window_is_enough": needed.is_stream_enough,
        "connection_window_is_enough": needed.is_connection_enough,
    })
}

fn knob(knob: &Knob) -> Value {
    json!({
        "server": knob.server,
        "stream_window": knob.stream_window,
        "connection_window": knob.connection_window,
        "remark": Some(knob.remark).filter(|remark| !remark.is_empty()),
    })
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// JSON escapes only some of the characters that a terminal may act on.
fn masked(text: &str) -> String {
    mask_control(text.as_bytes())
}

//! `rgit probe` for people.

use std::io::Write;

use rgit_smart_http::mask_control;
use rgit_transport_auto::{
    Name,
    probe::{Decision, Kind, Open, Report, Spoken, UPLOAD, Upload, units},
};

use super::Findings;

/// Where the text of a line ends.
const WIDTH: usize = 100;

pub(super) fn write(out: &mut dyn Write, findings: &Findings) -> std::io::Result<()> {
    let report = &findings.report;
    writeln!(out, "{}", masked(&report.origin))?;
    for (name, text) in facts(report) {
        wrapped(out, &format!("  {name:<18}"), &text)?;
    }
    let link = units::bits(findings.model.rate * 8.0);
    let amount = format!("{} MB", UPLOAD / 1_000_000);
    if report.peer.is_some() {
        writeln!(out, "\nUploads of {amount}, as predicted on a link of {link}:")?;
        table(out, &findings.uploads)?;
        if let Spoken::No { .. } = report.http1 {
            writeln!(
                out,
                "  The server doesn't speak HTTP/1.1: that column is what it forgoes."
            )?;
        }
    }
    let round_trip = units::time(report.round_trip());
    writeln!(
        out,
        "\nWhat auto would choose, and the time it predicts at {round_trip} on a link of {link}:"
    )?;
    for decision in &findings.decisions {
        let label = format!(
            "  {:<38}{}  ",
            situation(decision, &amount),
            transport(decision.transport)
        );
        wrapped(out, &label, &decision.reason)?;
    }
    writeln!(out, "\nFor the server's operator:")?;
    for sentence in &findings.advice.sentences {
        wrapped(out, "  - ", sentence)?;
    }
    if !findings.advice.knobs.is_empty() {
        writeln!(out, "\nWhere the windows are set:")?;
    }
    for knob in findings.advice.knobs {
        let connection = match knob.connection_window {
            Some(setting) => format!("connection: {setting}"),
            None => "connection: raised by itself".to_owned(),
        };
        let mut text = format!("stream: {}; {connection}", knob.stream_window);
        if !knob.remark.is_empty() {
            text.push_str("; ");
            text.push_str(knob.remark);
        }
        wrapped(out, &format!("  {:<14}", knob.server), &text)?;
    }
    Ok(())
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let mut facts = vec![("HTTP/2", spoken(&report.http2)), ("HTTP/1.1", spoken(&report.http1))];
    if let Some(version) = report.tls_version {
        facts.push(("TLS", version.trim_start_matches("TLSv").replace('_', ".")));
    }
    let steps = if report.is_tls {
        "name, TCP and TLS"
    } else {
        "name and TCP"
    };
    facts.push((
        "time to connect",
        format!("{} ({steps})", units::time(report.dial_time)),
    ));
    let mut round_trip = format!("{} (TCP", units::time(report.tcp_round_trip));
    match report.ping {
        Some(ping) => round_trip.push_str(&format!("), {} (HTTP/2 PING)", units::time(ping))),
        None if report.peer.is_some() => round_trip.push_str("; no answer to an HTTP/2 PING)"),
        None => round_trip.push(')'),
    }
    facts.push(("round trip", round_trip));
    if let Some(peer) = report.peer {
        let streams = peer
            .max_concurrent_streams
            .map_or_else(|| "no limit".to_owned(), |streams| units::count(streams.into()));
        facts.extend([
            ("stream window", units::bytes(peer.initial_window.into())),
            ("connection window", units::bytes(peer.connection_window.into())),
            ("frame size", units::bytes(peer.max_frame_size.into())),
            ("streams at a time", streams),
        ]);
    }
    facts
}

fn spoken(spoken: &Spoken) -> String {
    let mut text = spoken.as_str().to_owned();
    if let Some(reason) = spoken.reason() {
        text.push_str(": ");
        text.push_str(&masked(reason));
    }
    text
}

fn table(out: &mut dyn Write, uploads: &[Upload]) -> std::io::Result<()> {
    let nothing = || "-".to_owned();
    let mut rows = vec![["round trip", "window allows", "HTTP/2", "HTTP/1.1", "HTTP/1.1 gains"].map(ToOwned::to_owned)];
    for upload in uploads {
        let measured = if upload.is_measured { " (measured)" } else { "" };
        rows.push([
            format!("{}{measured}", units::time(upload.round_trip)),
            upload.ceiling.map_or_else(nothing, units::rate),
            upload.http2.map_or_else(nothing, units::time),
            units::time(upload.http1),
            upload.speedup().map_or_else(nothing, |times| match times {
                ..1.05 => "none".to_owned(),
                ..10.0 => format!("{times:.1} x"),
                _ => format!("{times:.0} x"),
            }),
        ]);
    }
    for [first, others @ ..] in rows {
        write!(out, "  {first:<22}")?;
        for column in others {
            write!(out, "{column:>15}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn situation(decision: &Decision, amount: &str) -> String {
    let work = match decision.kind {
        Kind::Small => "a small request".to_owned(),
        Kind::BulkUp => format!("{amount} up"),
        Kind::BulkDown => format!("{amount} down"),
        kind => kind.as_str().to_owned(),
    };
    let open = match decision.open {
        Open::Http2 => "an HTTP/2 connection",
        _ => "no connection",
    };
    format!("{work}, {open}")
}

fn transport(name: Name) -> String {
    match name {
        Name::H1 => "HTTP/1.1".to_owned(),
        Name::H2 => "HTTP/2  ".to_owned(),
        name => name.to_string(),
    }
}

fn masked(text: &str) -> String {
    mask_control(text.as_bytes())
}

/// `text` behind `label`, in lines of [`WIDTH`] where words allow it, further lines indented as far as the label reaches.
fn wrapped(out: &mut dyn Write, label: &str, text: &str) -> std::io::Result<()> {
    let indent = label.chars().count();
    let mut line = label.to_owned();
    let mut length = indent;
    for word in text.split(' ') {
        let more = word.chars().count();
        if length > indent && length + 1 + more > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            length = indent;
        }
        if length > indent {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += more;
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words_under_their_label() {
        let shown = |label: &str, text: &str| {
            let mut out = Vec::new();
            wrapped(&mut out, label, text).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown("  - ", "a b"), "  - a b\n");
        assert_eq!(shown("  - ", ""), "  -\n");
        let long = shown("  - ", &"word ".repeat(40));
        assert!(long.lines().all(|line| line.len() <= WIDTH && line.ends_with("word")));
        assert!(long.lines().skip(1).all(|line| line.starts_with("    word")));
        let whole = "x".repeat(150);
        assert_eq!(shown("  ", &whole), format!("  {whole}\n"));
    }
}

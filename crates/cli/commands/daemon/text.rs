//! The daemon's status for people.

use std::io::{Result, Write};

use rgit_transport_auto::daemon::SocketPath;
use serde_json::Value;

pub(super) fn write(out: &mut dyn Write, status: &Value, place: &SocketPath) -> Result<()> {
    writeln!(
        out,
        "The daemon runs as process {} since {}, on {}",
        status["pid"],
        age(&status["age_seconds"]),
        place.socket().display()
    )?;
    writeln!(
        out,
        "{} requests, {} bytes sent, {} received; {} clients, {} answers remembered",
        status["requests"],
        status["bytes_sent"],
        status["bytes_received"],
        status["clients"],
        status["remembered_answers"]
    )?;
    for profile in list(&status["profiles"]) {
        let trust = match (profile["verify"].as_bool(), profile["ca_file"].as_str()) {
            (Some(false), _) => "certificates unchecked".to_owned(),
            (_, Some(path)) => format!("trusting {path}"),
            _ => "trusting the system's authorities".to_owned(),
        };
        writeln!(out, "by {}, {trust}:", text(&profile["upstream"]))?;
        let connections = list(&profile["connections"]);
        for origin in list(&profile["origins"]) {
            writeln!(
                out,
                "  {}: {} requests, {} of them on warm connections; last used {} ago",
                text(&origin["origin"]),
                origin["requests"],
                origin["reused"],
                age(&origin["idle_seconds"])
            )?;
            for connection in connections.iter().filter(|one| one["origin"] == origin["origin"]) {
                write_connection(out, connection)?;
            }
        }
    }
    Ok(())
}

fn write_connection(out: &mut dyn Write, connection: &Value) -> Result<()> {
    let state = match connection["idle_seconds"].is_null() {
        true => format!("{} under way", connection["underway"]),
        false => format!("idle for {}", age(&connection["idle_seconds"])),
    };
    writeln!(
        out,
        "    {}, open for {}: {} requests, {state}",
        text(&connection["protocol"]),
        age(&connection["age_seconds"]),
        connection["requests"],
    )
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Seconds in the unit that they fill.
fn age(seconds: &Value) -> String {
    match seconds.as_u64().unwrap_or_default() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

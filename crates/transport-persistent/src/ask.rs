//! What a person asks the daemon: how it is, and to go.

use std::{io, io::Read, io::Write, os::unix::net::UnixStream};

use crate::{Error, Program, SocketPath, start as starting};

/// Longest status taken.
const LONGEST: u64 = 4 * 1024 * 1024;

/// What the daemon at `place` tells of itself, as JSON.
///
/// # Errors
/// [`Error::NotRunning`] where there is none.
pub fn status(place: &SocketPath) -> Result<serde_json::Value, Error> {
    let mut stream = place.connect()?;
    let answer = ask(&mut stream, "/status").map_err(|source| Error::Answer { source })?;
    // One chunk of JSON between lines of framing.
    let text = String::from_utf8_lossy(&answer);
    let json = text
        .find('{')
        .zip(text.rfind('}'))
        .and_then(|(start, end)| text.get(start..=end));
    serde_json::from_str(json.unwrap_or_default()).map_err(|err| Error::Answer { source: err.into() })
}

/// Tell the daemon at `place` to go, and wait until it has finished what it had begun.
///
/// # Errors
/// [`Error::NotRunning`] where there is none.
pub fn stop(place: &SocketPath) -> Result<(), Error> {
    let mut stream = place.connect()?;
    match ask(&mut stream, "/stop") {
        Ok(_) => Ok(()),
        // It is gone either way.
        Err(err) if err.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(source) => Err(Error::Answer { source }),
    }
}

/// See that a daemon answers at `place`; `true` if it had to be started as `program`.
///
/// # Errors
/// When none does and none can be started.
pub fn start(place: &SocketPath, program: &Program) -> Result<bool, Error> {
    match place.connect() {
        Ok(_) => Ok(false),
        Err(Error::NotRunning { .. }) => starting::connect(place, Some(program)).map(|_| true),
        Err(err) => Err(err),
    }
}

/// All that comes until the daemon closes the connection.
fn ask(stream: &mut UnixStream, target: &str) -> io::Result<Vec<u8>> {
    write!(stream, "GET {target} HTTP/1.1\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(answer)
}

//! Coming to a daemon: one that answers, or else one that is started.
//!
//! Whoever starts a daemon makes its socket first, under the lock, and hands it over as standard input. So the socket can be connected to
//! before the daemon has run its first instruction, nobody waits for it by the clock, and of many who race one makes the socket and the
//! others find it. What lies at its path when nobody answers there was left by a daemon that died.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::{ChildStderr, Command, Stdio},
};

use crate::{Error, SocketPath};

/// Bytes of a daemon's last words that are passed on.
const LAST_WORDS: u64 = 4096;

/// How the daemon is run: a program that calls [`Daemon::run`](crate::Daemon::run) with its standard input for a socket.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// What it is told.
    pub arguments: Vec<OsString>,
}

/// A connection to the daemon at `place`, started as `program` if none answers.
pub(crate) fn connect(place: &SocketPath, program: Option<&Program>) -> Result<UnixStream, Error> {
    let Some(program) = program else { return place.connect() };
    match place.connect() {
        Err(Error::NotRunning { .. }) => {}
        other => return other,
    }
    place.prepare()?;
    let _lock = place.lock()?;
    // Whoever held the lock before us has started one, most likely.
    match place.connect() {
        Err(Error::NotRunning { .. }) => {}
        other => return other,
    }
    let socket = place.socket();
    match fs::remove_file(&socket) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(place.error(&socket, err)),
        _ => {}
    }
    let listener = UnixListener::bind(&socket).map_err(|err| place.error(&socket, err))?;
    let started = spawn(program, listener).and_then(|said| match place.connect() {
        Err(Error::NotRunning { .. }) => Err(io::Error::other(last_words(said, place))),
        other => Ok(other),
    });
    started.unwrap_or_else(|source| {
        // Nobody will ever answer there.
        fs::remove_file(&socket).ok();
        Err(Error::Start {
            program: program.path.clone(),
            source,
        })
    })
}

/// Start `program`. It makes itself a session of its own, so it is no group's leader here ([`detach`](crate::Daemon::detach)).
/// What it writes to standard error before it serves can be read.
fn spawn(program: &Program, listener: UnixListener) -> io::Result<Option<ChildStderr>> {
    let mut command = Command::new(&program.path);
    command
        .args(&program.arguments)
        // Secrets live in environments, too; and no directory is to be kept busy.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let said = child.stderr.take();
    // Should it end before we do, somebody has to take note.
    std::thread::Builder::new()
        .name("rgit-daemon".to_owned())
        .spawn(move || child.wait())
        .map(|_| said)
}

/// Why a daemon that serves nobody ended. It holds the pipe until then, or until it serves, so this waits for nothing else.
fn last_words(said: Option<ChildStderr>, place: &SocketPath) -> String {
    let mut words = Vec::new();
    if let Some(said) = said {
        said.take(LAST_WORDS).read_to_end(&mut words).ok();
    }
    let words = String::from_utf8_lossy(&words);
    match words.trim() {
        "" => format!("it ended at once; {} may say why", place.log().display()),
        words => format!("it ended at once: {words}"),
    }
}

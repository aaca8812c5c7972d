//! Sending a request and receiving the head of its answer, both at once.

use std::{
    error::Error as StdError,
    io::{self, Read, Write},
    time::Duration,
};

use http::Method;
use rgit_dial::{Connection, Interest, Origin};
use rgit_transport::{Error, Stage};

use crate::{
    chunked::Chunked,
    framing::Receiving,
    head::{self, Head, Malformed},
    outgoing::Outgoing,
};

/// How much of an early answer is set aside while the body is still being sent.
const SET_ASIDE: usize = 1024 * 1024;
/// Room for one read while the head is awaited: most heads, with the start of what follows.
const READ: usize = 16 * 1024;
/// Informational answers (1xx) taken before the final one.
const INFORMATIONAL: u32 = 32;
/// How long to look for the server's last words after it broke the connection: they are in the socket already, or will never be.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// An answer's head, and what goes with it.
pub(crate) struct Received {
    pub(crate) head: Head,
    pub(crate) framing: Receiving,
    /// Bytes read behind the head.
    pub(crate) rest: Vec<u8>,
    /// Whether the request went out to its end.
    pub(crate) whole: bool,
    /// Whether the head came before that.
    pub(crate) early: bool,
}

/// Why there is no answer.
pub(crate) enum Failure {
    /// The request's own body.
    Body(io::Error),
    /// The server closed or reset the connection without a byte of an answer.
    Silent { stage: Stage, source: io::Error },
    /// Anything else.
    Broken {
        stage: Stage,
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl Failure {
    /// In the words of the trait, after `sent` body bytes.
    pub(crate) fn into_error(self, origin: &Origin, sent: u64) -> Error {
        match self {
            Failure::Body(source) => Error::Body { sent, source },
            Failure::Silent { stage, source } => Error::broken(stage, origin.to_string(), sent, source),
            Failure::Broken { stage, source } => Error::broken(stage, origin.to_string(), sent, source),
        }
    }
}

impl From<Malformed> for Failure {
    fn from(err: Malformed) -> Self {
        Failure::Broken {
            stage: Stage::Receive,
            source: Box::new(err),
        }
    }
}

/// Send `outgoing` over `connection` and receive the head of the final answer, which follows the `rest` of the answer before.
pub(crate) fn run(
    connection: &mut Connection,
    outgoing: &mut Outgoing<'_>,
    method: &Method,
    rest: Option<Chunked>,
    idle: Duration,
) -> Result<Received, Failure> {
    let mut exchange = Exchange {
        connection,
        incoming: Incoming::new(method, rest),
        idle,
    };
    let whole = exchange.send(outgoing)?;
    exchange.await_head()?;
    let Incoming { bytes, head, early, .. } = exchange.incoming;
    match head {
        Some((head, framing)) => Ok(Received {
            head,
            framing,
            rest: bytes,
            whole,
            early,
        }),
        None => Err(Failure::Silent {
            stage: Stage::Wait,
            source: io::ErrorKind::UnexpectedEof.into(),
        }),
    }
}

struct Exchange<'e> {
    connection: &'e mut Connection,
    incoming: Incoming<'e>,
    idle: Duration,
}

impl Exchange<'_> {
    /// Send until all is out (`true`), or an answer makes the rest pointless (`false`).
    fn send(&mut self, outgoing: &mut Outgoing<'_>) -> Result<bool, Failure> {
        loop {
            if outgoing.is_empty() && !outgoing.is_last() {
                outgoing.fill().map_err(Failure::Body)?;
            }
            let step = match outgoing.is_through() {
                true => self.connection.flush(),
                false => outgoing.write(self.connection),
            };
            match step {
                Ok(()) if outgoing.is_through() => {
                    // With TLS, written is not yet flushed.
                    match self.connection.flush() {
                        Ok(()) => return Ok(true),
                        Err(err) if is_retry(&err) => {}
                        Err(err) => return self.last_words(err),
                    }
                }
                Ok(()) => {
                    // The socket takes more: only look, without waiting, whether the server objects.
                    if self.incoming.has_room() && self.hear(outgoing)? {
                        return self.stopped(outgoing);
                    }
                    continue;
                }
                Err(err) if is_retry(&err) => {}
                Err(err) => return self.last_words(err),
            }
            let interest = Interest {
                read: self.incoming.has_room(),
                write: true,
            };
            let ready = self.wait(interest, Stage::Send)?;
            match ready {
                None if self.incoming.head.is_some() => return Ok(false),
                None => return Err(self.timed_out(Stage::Send)),
                Some(readable) if readable && self.hear(outgoing)? => return self.stopped(outgoing),
                Some(_) => {}
            }
        }
    }

    /// Take in what has come. Whether that is a reason to stop sending: a refusal, or the end of the connection.
    ///
    /// A server that sends a 2xx and then closes its side may still be reading: only a failing write tells that it isn't.
    fn hear(&mut self, outgoing: &Outgoing<'_>) -> Result<bool, Failure> {
        self.incoming.pull(self.connection, !outgoing.is_through())?;
        Ok(match &self.incoming.head {
            Some((head, _)) => head.status.as_u16() >= 300,
            None => self.incoming.ended.is_some(),
        })
    }

    fn stopped(&mut self, outgoing: &Outgoing<'_>) -> Result<bool, Failure> {
        match (&self.incoming.head, self.incoming.ended.take()) {
            (None, Some(err)) => Err(self.ended(Stage::Send, err)),
            _ => Ok(outgoing.is_through() && self.connection.flush().is_ok()),
        }
    }

    /// The connection takes no more. If the server had said why, that is the answer.
    fn last_words(&mut self, err: io::Error) -> Result<bool, Failure> {
        while self.incoming.head.is_none() && self.incoming.ended.is_none() {
            if !self.incoming.pull(self.connection, true)?
                && !self
                    .connection
                    .wait(Interest::READ, LAST_WORDS.min(self.idle))
                    .is_ok_and(|ready| ready.readable)
            {
                break;
            }
        }
        match self.incoming.head {
            Some(_) => Ok(false),
            None => Err(self.ended(Stage::Send, err)),
        }
    }

    fn await_head(&mut self) -> Result<(), Failure> {
        while self.incoming.head.is_none() {
            if let Some(err) = self.incoming.ended.take() {
                return Err(self.ended(Stage::Wait, err));
            }
            match self.wait(Interest::READ, Stage::Wait)? {
                None => return Err(self.timed_out(Stage::Wait)),
                Some(_) => self.incoming.pull(self.connection, false)?,
            };
        }
        Ok(())
    }

    /// `None` when the idle timeout passed, else whether there may be something to read.
    fn wait(&mut self, interest: Interest, stage: Stage) -> Result<Option<bool>, Failure> {
        match self.connection.wait(interest, self.idle) {
            Ok(ready) => Ok(ready.any().then_some(ready.readable)),
            Err(err) => Err(Failure::Broken {
                stage,
                source: err.into(),
            }),
        }
    }

    /// No answer, and the connection is at its end.
    fn ended(&self, stage: Stage, err: io::Error) -> Failure {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
        if self.incoming.heard {
            return Failure::Broken {
                stage: Stage::Receive,
                source: err.into(),
            };
        }
        match err.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
                Failure::Silent { stage, source: err }
            }
            _ => Failure::Broken {
                stage,
                source: err.into(),
            },
        }
    }

    fn timed_out(&self, stage: Stage) -> Failure {
        Failure::Broken {
            stage: if self.incoming.heard { Stage::Receive } else { stage },
            source: Box::new(idle_for(self.idle)),
        }
    }
}

/// What the server sent.
struct Incoming<'e> {
    method: &'e Method,
    /// What is to come of the answer before.
    rest: Option<Chunked>,
    /// Behind the head, once there is one.
    bytes: Vec<u8>,
    head: Option<(Head, Receiving)>,
    early: bool,
    informational: u32,
    /// Whether any byte came.
    heard: bool,
    /// The server's side is at its end, in the words of this error.
    ended: Option<io::Error>,
}

impl<'e> Incoming<'e> {
    fn new(method: &'e Method, rest: Option<Chunked>) -> Self {
        Incoming {
            method,
            rest,
            bytes: Vec::new(),
            head: None,
            early: false,
            informational: 0,
            heard: false,
            ended: None,
        }
    }

    fn has_room(&self) -> bool {
        self.ended.is_none() && self.bytes.len() < SET_ASIDE
    }

    /// Read once, without waiting: whether anything came. `early` is whether the request is still being sent.
    fn pull(&mut self, connection: &mut Connection, early: bool) -> Result<bool, Malformed> {
        let before = self.bytes.len();
        self.bytes.resize(before + READ, 0);
        let outcome = connection.read(&mut self.bytes[before..]);
        let got = *outcome.as_ref().unwrap_or(&0);
        self.bytes.truncate(before + got);
        match outcome {
            Ok(0) => {
                let said = match self.heard {
                    true => "the server closed the connection in the middle of the answer's head",
                    false => "the server closed the connection without an answer",
                };
                self.ended = Some(io::Error::new(io::ErrorKind::UnexpectedEof, said));
            }
            Ok(_) if !self.pass_rest() => {}
            Ok(_) => {
                let first = !self.heard;
                self.heard = true;
                // Only the end of a line can complete a head; what is no HTTP at all shows in the first bytes, and a line without
                // end must not be waited for.
                let telling = first || self.bytes.len() >= head::LIMIT || self.bytes[before..].contains(&b'\n');
                if self.head.is_none() && telling {
                    self.parse(early)?;
                }
            }
            Err(err) if is_retry(&err) => return Ok(false),
            Err(err) => self.ended = Some(err),
        }
        Ok(true)
    }

    /// Drop what belongs to the answer before. Whether anything of this one has come.
    fn pass_rest(&mut self) -> bool {
        if let Some(mut rest) = self.rest.take() {
            let Some(used) = rest.follow(&self.bytes) else {
                // As if the connection had been closed before this request: not a byte of its answer can be told from what came.
                let said = "the server went on with the answer before, which had seemed to be at its end";
                self.ended = Some(io::Error::new(io::ErrorKind::ConnectionAborted, said));
                self.bytes.clear();
                return false;
            };
            self.bytes.drain(..used);
            if !rest.is_over() {
                self.rest = Some(rest);
            }
        }
        !self.bytes.is_empty()
    }

    fn parse(&mut self, early: bool) -> Result<(), Malformed> {
        while let Some((length, head)) = Head::parse(&self.bytes)? {
            self.bytes.drain(..length);
            if head.status == http::StatusCode::SWITCHING_PROTOCOLS {
                return Err(Malformed::Upgrade);
            }
            if !head.status.is_informational() {
                let framing = Receiving::of(&head, self.method)?;
                self.head = Some((head, framing));
                self.early = early;
                break;
            }
            self.informational += 1;
            if self.informational > INFORMATIONAL {
                return Err(Malformed::Informational);
            }
        }
        Ok(())
    }
}

/// The error of an idle timeout.
pub(crate) fn idle_for(idle: Duration) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("no byte moved for {idle:?}"))
}

/// Nothing happened; try again once the socket is ready.
pub(crate) fn is_retry(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

//! The transport that rides the daemon.

use std::{
    error::Error as StdError,
    fmt, io,
    io::Read,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use rgit_dial::{Connection, Origin};
use rgit_transport::{Answer, Body, Early, Error, Rememberable, Repeatable, Stage, Transport};
use rgit_transport_h1::{Connect, H1, Trailers};

use crate::{
    Profile, Program, SocketPath,
    control::{self, Ask, Failure},
    serve, start,
};

/// Longest text of an error that the daemon tells.
const REASON: u64 = 16 * 1024;
/// What the upstream may need in silence beyond two idle timeouts, one for each attempt: looking a name up and connecting.
const DIALLING: Duration = Duration::from_secs(150);
/// The idle timeout of upstreams where the profile names none: the hop has to be more patient than they are.
const USUAL: Duration = Duration::from_secs(300);

type Direct = dyn Fn() -> Result<Arc<dyn Transport>, Error> + Send + Sync;
type Notice = dyn Fn(&str) + Send + Sync;

/// Carries exchanges by way of the daemon, and directly where none can be had.
pub struct Persistent {
    hop: H1,
    profile: HeaderValue,
    early_data: bool,
    direct: Box<Direct>,
    notice: Box<Notice>,
    /// The way taken once there turned out to be no daemon.
    fallen: OnceLock<Arc<dyn Transport>>,
}

/// Connects to the daemon, whatever the origin.
#[derive(Debug)]
struct Hop {
    place: SocketPath,
    program: Option<Program>,
}

impl Connect for Hop {
    fn connect(&self, origin: &Origin) -> Result<Connection, Error> {
        let begun = Instant::now();
        let broken = |err: Box<dyn StdError + Send + Sync>| Error::broken(Stage::Dial, origin.to_string(), 0, err);
        let stream = start::connect(&self.place, self.program.as_ref()).map_err(|err| broken(err.into()))?;
        serve::widen(&stream);
        Connection::local(stream, begun.elapsed()).map_err(|err| broken(err.into()))
    }
}

impl Persistent {
    /// A transport that rides the daemon at `place`, starting it as `program` where none answers. Without a `program` only a daemon that
    /// answers already will do.
    ///
    /// `direct` makes the transport that is used where there is no daemon.
    pub fn new(
        place: SocketPath,
        program: Option<Program>,
        profile: &Profile,
        direct: impl Fn() -> Result<Arc<dyn Transport>, Error> + Send + Sync + 'static,
    ) -> Persistent {
        let idle = profile
            .idle_timeout
            .unwrap_or(USUAL)
            .saturating_mul(2)
            .saturating_add(DIALLING);
        let settings = rgit_transport_h1::Settings::default()
            .idle_timeout(idle)
            .buffer(serve::BUFFER);
        Persistent {
            hop: H1::through(Hop { place, program }, settings),
            profile: profile.header(),
            early_data: false,
            direct: Box::new(direct),
            notice: Box::new(|_| {}),
            fallen: OnceLock::new(),
        }
    }

    /// Let the daemon send as early data what may be ([`Early`]); not without this.
    pub fn early_data(mut self, may_be_sent: bool) -> Persistent {
        self.early_data = may_be_sent;
        self
    }

    /// Tell `notice` why no daemon can be had, once.
    pub fn on_fallback(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Persistent {
        self.notice = Box::new(notice);
        self
    }

    /// The direct way, from now on.
    fn fall_back(&self, reason: &Error) -> Result<&Arc<dyn Transport>, Error> {
        let direct = (self.direct)()?;
        if self.fallen.set(direct).is_ok() {
            let reason = causes(reason);
            tracing::info!(%reason, "no daemon; connecting directly");
            (self.notice)(&reason);
        }
        self.fallen.get().ok_or_else(|| Error::Request {
            reason: "there is neither a daemon nor a direct way".into(),
        })
    }

    /// One request over the hop, with what the daemon is to know of it.
    fn over(&self, mut request: Request<Body<'_>>) -> Result<Response<Answer>, Error> {
        let remember = request.extensions().get::<Rememberable>();
        let ask = Ask {
            repeatable: request.extensions().get::<Repeatable>().is_some(),
            replays: request.body().can_replay(),
            remember: remember.is_some(),
            anew: remember == Some(&Rememberable::Anew),
            early: self.early_data && request.extensions().get::<Early>().is_some(),
        };
        control::strip(request.headers_mut());
        request.headers_mut().insert(control::PROFILE, self.profile.clone());
        request.headers_mut().insert(control::ASK, ask.header());
        self.hop.exchange(request)
    }
}

/// What lies behind `err`, in one line.
fn causes(err: &Error) -> String {
    let mut said = Vec::new();
    let mut next = err.source();
    while let Some(err) = next {
        said.push(err.to_string());
        next = err.source();
    }
    said.join(": ")
}

/// How an attempt over the hop turned out.
enum Outcome {
    Over(Result<Response<Answer>, Error>),
    /// No server has processed anything, for this reason.
    Unprocessed(Error),
    /// The daemon asks for the body once more.
    Again,
}

impl Outcome {
    fn of(result: Result<Response<Answer>, Error>, method: &Method) -> Outcome {
        match result {
            Ok(response) => Self::told(response, method),
            Err(Error::Broken {
                stage,
                origin,
                sent,
                source,
                ..
            }) => {
                let timed_out = is_timeout(&*source);
                let error = |said: Cause| Error::broken(stage, origin.clone(), sent, said);
                match stage {
                    _ if timed_out => Outcome::Over(Err(error(Cause::Hangs))),
                    Stage::Dial => Outcome::Unprocessed(Error::broken(stage, origin, sent, source)),
                    // It says a word before it acts on a request.
                    Stage::Send | Stage::Wait => Outcome::Unprocessed(error(Cause::Left)),
                    _ => Outcome::Over(Err(error(Cause::Died))),
                }
            }
            Err(err) => Outcome::Over(Err(err)),
        }
    }

    fn told(response: Response<Answer>, method: &Method) -> Outcome {
        let (mut head, answer) = response.into_parts();
        if head.headers.contains_key(control::FAILURE) {
            let mut text = String::new();
            // A reason that breaks off is still the best there is.
            answer.take(REASON).read_to_string(&mut text).ok();
            return match Failure::read(&head.headers, &text) {
                Some(Failure::Again) => Outcome::Again,
                Some(Failure::Error(err)) => Outcome::Over(Err(err)),
                None => Outcome::Over(Err(odd())),
            };
        }
        let Some(wire) = control::wire(&head.headers) else {
            return Outcome::Over(Err(odd()));
        };
        let trailers = head.extensions.remove::<Trailers>();
        let framing = head.headers.remove(control::FRAMING);
        for name in [header::TRANSFER_ENCODING, header::CONNECTION, header::CONTENT_LENGTH] {
            head.headers.remove(name);
        }
        if let Some(framing) = framing {
            let is_length = framing.as_bytes().iter().all(u8::is_ascii_digit);
            let name = if is_length {
                header::CONTENT_LENGTH
            } else {
                header::TRANSFER_ENCODING
            };
            head.headers.insert(name, framing);
        }
        control::strip(&mut head.headers);
        head.version = wire.protocol;
        head.extensions.insert(wire);
        let answer = match (trailers, has_no_body(method, head.status)) {
            (_, true) => Answer::empty(),
            (trailers, false) => Answer::new(Whole {
                answer,
                trailers,
                broken: None,
            }),
        };
        Outcome::Over(Ok(Response::from_parts(head, answer)))
    }
}

/// Answers that have no body whatever their headers say (RFC 9112, section 6.3).
pub(crate) fn has_no_body(method: &Method, status: StatusCode) -> bool {
    method == Method::HEAD || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
}

fn odd() -> Error {
    Error::Request {
        reason: "what listens on the daemon's socket gave an answer that is no daemon's".into(),
    }
}

fn is_timeout(err: &(dyn StdError + 'static)) -> bool {
    err.downcast_ref::<io::Error>()
        .is_some_and(|err| err.kind() == io::ErrorKind::TimedOut)
}

/// What became of the daemon.
#[derive(Debug)]
enum Cause {
    Left,
    Died,
    Hangs,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Left => "the daemon went away before it took the request up; nothing was done: try again",
            Cause::Died => {
                "the daemon ended in the middle of this request, so what the server made of it is not known: look there, then \
                 try again; the next command starts a new daemon"
            }
            Cause::Hangs => "the daemon does not react any more; end it with `rgit daemon stop`, or by its process id",
        })
    }
}

impl StdError for Cause {}

impl Transport for Persistent {
    fn exchange(&self, request: Request<Body<'_>>) -> Result<Response<Answer>, Error> {
        let origin = Origin::try_from(request.uri()).map_err(|err| Error::Request {
            reason: err.to_string(),
        })?;
        let (parts, mut body) = request.into_parts();
        let replays = body.can_replay();
        let mut resent = 0;
        let mut lost = false;
        loop {
            // Before the body is touched: then another way is still open to it.
            let direct = match self.fallen.get() {
                Some(direct) => Some(direct),
                None => match self.hop.warm(&origin) {
                    Ok(_) => None,
                    Err(err) => Some(self.fall_back(&err)?),
                },
            };
            let attempt = Request::from_parts(parts.clone(), body.reborrow());
            if let Some(direct) = direct {
                return direct.exchange(attempt);
            }
            match Outcome::of(self.over(attempt), &parts.method) {
                Outcome::Over(mut result) => {
                    if let Ok(response) = &mut result
                        && let Some(wire) = response.extensions_mut().get_mut::<rgit_transport::Wire>()
                    {
                        wire.resent += resent;
                    }
                    return result;
                }
                Outcome::Again if replays && resent == 0 => resent = 1,
                Outcome::Again => return Err(odd()),
                // Twice in a row is no coincidence.
                Outcome::Unprocessed(err) if !replays || lost => return Err(err),
                Outcome::Unprocessed(err) => {
                    tracing::debug!(%err, "the daemon left; trying again");
                    lost = true;
                }
            }
        }
    }
}

impl fmt::Debug for Persistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("hop", &self.hop)
            .field("profile", &self.profile)
            .field("direct", &self.fallen.get())
            .finish_non_exhaustive()
    }
}

/// A body that is over only when the daemon says that it is: its last chunk alone says no more than that the daemon goes on.
struct Whole {
    answer: Answer,
    trailers: Option<Trailers>,
    broken: Option<io::ErrorKind>,
}

impl Read for Whole {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        let outcome = match self.answer.read(buf) {
            Ok(0) if !buf.is_empty() => control::ended(self.trailers.as_ref().and_then(Trailers::fields)).map(|()| 0),
            Err(err) if err.kind() == io::ErrorKind::Interrupted => return Err(err),
            Err(err) if err.kind() == io::ErrorKind::TimedOut => Err(io::Error::new(err.kind(), Cause::Hangs)),
            Err(_) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, Cause::Died)),
            read => read,
        };
        self.broken = outcome.as_ref().err().map(io::Error::kind);
        outcome
    }
}

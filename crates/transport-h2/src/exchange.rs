//! Sending a request and receiving the head of its answer, both at once.

use std::{
    error::Error as StdError,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, client::ResponseFuture};
use http::Response;
use rgit_dial::Origin;
use rgit_transport::{Cancel, Error, Stage};

use crate::{
    driver::Leave,
    link::{Link, idle_for},
    observed::Meter,
    outgoing::Outgoing,
    request::Request,
};

/// Informational answers (1xx) taken before the final one.
const INFORMATIONAL: u32 = 32;

/// An answer's head, and what goes with it.
pub(crate) struct Received {
    pub(crate) response: Response<RecvStream>,
    /// Kept as long as the answer is read, where the request was not sent to its end: letting go of it resets the stream.
    pub(crate) sending: Option<SendStream<Bytes>>,
    pub(crate) meter: Arc<Meter>,
    /// Whether the head came before the request was through.
    pub(crate) early: bool,
    pub(crate) starved: Duration,
    pub(crate) cancel: Cancel,
}

/// Why there is no answer.
pub(crate) enum Failure {
    /// The request's own body.
    Body(io::Error),
    /// Anything else.
    Broken {
        stage: Stage,
        code: Option<Reason>,
        source: Box<dyn StdError + Send + Sync>,
        /// The server provably did not process it.
        unprocessed: bool,
        /// The connection ended without a word about this exchange.
        silent: bool,
    },
}

impl Failure {
    fn broken(stage: Stage, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Failure {
        Failure::Broken {
            stage,
            code: None,
            source: source.into(),
            unprocessed: false,
            silent: false,
        }
    }

    /// In the words of the trait, after `sent` body bytes.
    pub(crate) fn into_error(self, origin: &Origin, sent: u64) -> Error {
        let origin = origin.to_string();
        match self {
            Failure::Body(source) => Error::Body { sent, source },
            Failure::Broken { code: Some(code), .. } if code == Reason::HTTP_1_1_REQUIRED => Error::Version {
                origin,
                wanted: http::Version::HTTP_11,
                reason: "it answered with HTTP_1_1_REQUIRED".into(),
                sent,
                code: Some(code.into()),
            },
            Failure::Broken {
                stage, code, source, ..
            } => Error::Broken {
                stage,
                origin,
                sent,
                code: code.map(Into::into),
                source,
            },
        }
    }
}

/// The error of an exchange that was ended from outside.
pub(crate) fn cancelled() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "nobody waits for the answer any more")
}

/// What came of one step.
enum Step {
    /// The next piece of the body is wanted.
    More,
    /// The body is through, or the server wants no more of it.
    Sent,
    /// An answer that ends the sending.
    Refused,
    Failed(h2::Error),
}

/// A request whose head is on its way.
pub(crate) struct Begun {
    response: ResponseFuture,
    sending: SendStream<Bytes>,
}

/// Open a stream for `request`, which has no body to follow when it is `through`.
///
/// # Errors
/// When the connection takes no more. Nothing is lost then: no stream was opened.
pub(crate) fn begin(link: &Link, request: &Request, through: bool) -> Result<Begun, Box<dyn StdError + Send + Sync>> {
    let mut sender = link.sender().ok_or("the connection is closed")?;
    let (response, sending) = sender.send_request(request.message(), through)?;
    Ok(Begun { response, sending })
}

/// Send `outgoing` over `link` behind the request begun there, and receive the head of the final answer. Behind the outcome, what moved.
pub(crate) fn run(
    link: &Arc<Link>,
    begun: Begun,
    outgoing: &mut Outgoing<'_>,
    cancel: &Cancel,
) -> (Result<Received, Failure>, Arc<Meter>) {
    let stream = begun.response.stream_id().as_u32();
    let meter = link.observed.meter(stream);
    let mut exchange = Exchange {
        link,
        stream,
        through: outgoing.is_through(),
        response: Some(begun.response),
        sending: begun.sending,
        meter: meter.clone(),
        answer: None,
        starving: None,
        starved: Duration::ZERO,
        flooded: false,
        cancel,
    };
    let outcome = exchange.send(outgoing).and_then(|()| exchange.await_head());
    let outcome = match outcome {
        Ok(()) => exchange.received(),
        Err(failure) => {
            exchange.give_up();
            Err(failure)
        }
    };
    (outcome, meter)
}

struct Exchange<'l> {
    link: &'l Arc<Link>,
    stream: u32,
    /// Whether all of the body was handed over.
    through: bool,
    response: Option<ResponseFuture>,
    sending: SendStream<Bytes>,
    meter: Arc<Meter>,
    /// The answer, and whether it came early.
    answer: Option<(Response<RecvStream>, bool)>,
    starving: Option<Instant>,
    starved: Duration,
    /// More informational answers came than anybody needs.
    flooded: bool,
    cancel: &'l Cancel,
}

impl Exchange<'_> {
    /// Send until all is handed over, or an answer or the server's disinterest makes the rest pointless.
    fn send(&mut self, outgoing: &mut Outgoing<'_>) -> Result<(), Failure> {
        if self.through {
            return Ok(());
        }
        loop {
            if outgoing.piece.is_empty() && !outgoing.is_last() {
                outgoing.fill().map_err(Failure::Body)?;
            }
            let step = self.wait(|exchange, cx| exchange.hand_over(outgoing, cx));
            match step {
                None => return Err(self.timed_out()),
                Some(Step::More) => {}
                Some(Step::Sent | Step::Refused) => return Ok(()),
                Some(Step::Failed(err)) => return Err(self.failed(&err)),
            }
        }
    }

    fn hand_over(&mut self, outgoing: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Step> {
        match self.listen(cx) {
            Poll::Ready(Err(err)) => return Poll::Ready(Step::Failed(err)),
            Poll::Ready(Ok(())) if self.is_refused() => return Poll::Ready(Step::Refused),
            _ => {}
        }
        loop {
            if outgoing.piece.is_empty() && !outgoing.is_last() {
                return Poll::Ready(Step::More);
            }
            let wanted = outgoing.piece.len();
            let capacity = match wanted {
                0 => 0,
                // Asked first: `poll_capacity` tells only of increases.
                _ => match self.sending.capacity() {
                    0 => match self.more_capacity(wanted, outgoing.handed, cx) {
                        Poll::Ready(Some(Ok(capacity))) => capacity,
                        // The stream takes no more. Why that is, its answer tells.
                        Poll::Ready(None | Some(Err(_))) => return self.stopped(cx),
                        Poll::Pending => return Poll::Pending,
                    },
                    capacity => capacity,
                },
            };
            self.fed();
            let until_update = self.link.observed.until_update(&self.meter, outgoing.handed);
            let piece = outgoing.piece.split_to(capacity.min(wanted).min(until_update));
            let count = piece.len() as u64;
            let last = outgoing.is_through();
            if self.sending.send_data(piece, last).is_err() {
                return self.stopped(cx);
            }
            outgoing.handed += count;
            if last {
                self.through = true;
                return Poll::Ready(Step::Sent);
            }
        }
    }

    fn more_capacity(
        &mut self,
        wanted: usize,
        handed: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<usize, h2::Error>>> {
        self.sending.reserve_capacity(wanted);
        // The reservation may have been granted at once.
        let capacity = self.sending.capacity();
        if capacity > 0 {
            return Poll::Ready(Some(Ok(capacity)));
        }
        let polled = self.sending.poll_capacity(cx);
        // The stream is open, all that was handed over is out, and still there is no room: that is the peer's window, and neither our
        // buffer nor the network.
        if polled.is_pending() && self.starving.is_none() && self.meter.begun() && self.meter.sent() == handed {
            self.starving = Some(Instant::now());
        }
        polled
    }

    fn fed(&mut self) {
        if let Some(since) = self.starving.take() {
            self.starved += since.elapsed();
        }
    }

    /// The stream takes no more: either there is an answer, or the reason why there is none.
    fn stopped(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        if self.answer.is_some() {
            return Poll::Ready(Step::Sent);
        }
        match self.listen(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Step::Sent),
            Poll::Ready(Err(err)) => Poll::Ready(Step::Failed(err)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Look for the answer's head.
    fn listen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        if self.answer.is_some() {
            return Poll::Ready(Ok(()));
        }
        let Some(response) = &mut self.response else {
            return Poll::Pending;
        };
        match Pin::new(response).poll(cx) {
            Poll::Ready(Ok(response)) => {
                self.response = None;
                let early = !self.meter.is_finished();
                self.answer = Some((response, early));
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(err)) => Poll::Ready(Err(err)),
            Poll::Pending if self.meter.heads() > INFORMATIONAL + 1 => {
                self.flooded = true;
                Poll::Ready(Err(Reason::ENHANCE_YOUR_CALM.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_refused(&self) -> bool {
        matches!(&self.answer, Some((response, _)) if response.status().as_u16() >= 300)
    }

    /// Wait for the head, and, where it agrees, for the rest of the request to leave: letting go of the stream before would cut it off.
    fn await_head(&mut self) -> Result<(), Failure> {
        let failed = self.wait(|exchange, cx| {
            // Asked first, so that whatever comes next wakes us.
            let finished = exchange.meter.finished(cx.waker());
            match exchange.listen(cx) {
                Poll::Ready(Err(err)) => Poll::Ready(Some(err)),
                Poll::Ready(Ok(())) if finished || exchange.is_refused() || !exchange.through => Poll::Ready(None),
                // A stream that was reset finishes no more, nor does one whose connection has ended, which h2 doesn't tell of a stream
                // that was closed before.
                Poll::Ready(Ok(())) if exchange.sending.poll_reset(cx).is_ready() || exchange.link.has_ended() => {
                    Poll::Ready(None)
                }
                _ => Poll::Pending,
            }
        });
        match failed {
            Some(None) => Ok(()),
            Some(Some(err)) => Err(self.failed(&err)),
            None if self.answer.is_some() && !self.cancel.is_cancelled() => Ok(()),
            None => Err(self.timed_out()),
        }
    }

    fn wait<T>(&mut self, mut step: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<T>) -> Option<T> {
        let (link, meter) = (self.link.clone(), self.meter.clone());
        let idle = link.tuning.idle_timeout;
        let begun = Instant::now();
        let deadline = || link.observed.moved(&meter).max(begun) + idle;
        let waited = link.wait_for(Leave::Listening, deadline, |cx| match self.cancel.watch(cx.waker()) {
            true => Poll::Ready(None),
            false => step(self, cx).map(Some),
        });
        waited.flatten()
    }

    fn received(mut self) -> Result<Received, Failure> {
        self.fed();
        let Some((response, early)) = self.answer.take() else {
            return Err(Failure::broken(Stage::Wait, "there is no answer"));
        };
        Ok(Received {
            response,
            sending: (!self.meter.is_finished()).then_some(self.sending),
            meter: self.meter,
            early,
            starved: self.starved,
            cancel: self.cancel.clone(),
        })
    }

    /// Let the peer know that nobody waits any more.
    fn give_up(mut self) {
        self.response = None;
        self.sending.send_reset(Reason::CANCEL);
        let link = self.link.clone();
        link.observed.forget(self.stream);
        drop(self);
        link.tend(Leave::Speaking);
    }

    fn heard(&self) -> bool {
        self.meter.heads() > 0 || self.link.cut_in() == Some(self.stream)
    }

    /// Where the exchange had come to.
    fn stage(&self) -> Stage {
        if self.heard() {
            Stage::Receive
        } else if self.through && self.meter.is_finished() {
            Stage::Wait
        } else {
            Stage::Send
        }
    }

    fn timed_out(&self) -> Failure {
        if self.cancel.is_cancelled() {
            return Failure::broken(self.stage(), cancelled());
        }
        let idle = self.link.tuning.idle_timeout;
        // Not a word on the whole connection: another exchange would fare no better.
        if self.link.observed.heard().elapsed() >= idle {
            self.link.retire();
        }
        let stage = self.stage();
        let source: Box<dyn StdError + Send + Sync> = match stage {
            Stage::Send if self.starving.is_some() => format!(
                "{} (the server's HTTP/2 window lets nothing more through: {} bytes left for the connection)",
                idle_for(idle),
                self.link.observed.connection_window_left()
            )
            .into(),
            _ => idle_for(idle).into(),
        };
        Failure::broken(stage, source)
    }

    fn failed(&self, err: &h2::Error) -> Failure {
        let stage = self.stage();
        let goaway = self.link.observed.goaway();
        let below = goaway.is_some_and(|goaway| self.stream > goaway.last_stream);
        let refused = err.is_reset() && err.is_remote() && err.reason() == Some(Reason::REFUSED_STREAM);
        let unprocessed = !self.heard() && (below || refused || !self.meter.begun());
        // Our own complaint about what came. That is the peer's doing, but not the peer's code.
        let complaint = self.flooded || err.is_library() || err.is_reset() && !err.is_remote();
        let code = match complaint {
            true => None,
            false if err.is_io() => goaway
                .filter(|goaway| goaway.code != 0)
                .map(|goaway| goaway.code.into()),
            false => err.reason(),
        };
        let source: Box<dyn StdError + Send + Sync> = if self.flooded {
            "informational answers came without end".into()
        } else if complaint {
            format!("what came is no valid HTTP/2: {err}").into()
        } else if err.is_io() && self.link.has_ended() {
            let said = match self.link.cut_in() {
                Some(_) => "the server closed the connection in the middle of a frame",
                None => "the server closed the connection without an answer",
            };
            format!("{said} ({err})").into()
        } else {
            err.to_string().into()
        };
        Failure::Broken {
            stage: if complaint { Stage::Receive } else { stage },
            code,
            source,
            unprocessed,
            silent: err.is_io() && !self.heard(),
        }
    }
}

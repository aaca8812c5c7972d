//! The answer's body on its way from the backend (or a canned reply) to hyper: counted, and cut where a reply says so.
//!
//! Owns the shaping of [`crate::reply::Shape`]; knows no sockets and no processes.

use std::{
    io, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, SizeHint};

use crate::{
    connection::{Activity, Exchange},
    reply::{Gate, Shape},
    requests::Entry,
};

/// Any body, by the name hyper sees.
pub(crate) type Source = UnsyncBoxBody<Bytes, io::Error>;

type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A shaped, counted body.
pub(crate) struct Answer {
    inner: Source,
    entry: Arc<Entry>,
    activity: Arc<Activity>,
    _exchange: Exchange,
    sized: bool,
    sent: u64,
    cut: Option<u64>,
    end: Option<u64>,
    stall: Option<(u64, Gate)>,
    pause: Option<Pause>,
    state: State,
}

enum State {
    Open,
    /// The cut has been reached; what was sent is being flushed.
    Cutting,
    Ended,
}

impl Answer {
    pub(crate) fn new(
        inner: Source,
        shape: Shape,
        sized: bool,
        entry: Arc<Entry>,
        activity: Arc<Activity>,
        exchange: Exchange,
    ) -> Self {
        Answer {
            inner,
            entry,
            activity,
            _exchange: exchange,
            sized: sized && shape.end.is_none(),
            sent: 0,
            cut: shape.cut,
            end: shape.end,
            stall: shape.stall,
            pause: None,
            state: State::Open,
        }
    }

    /// How many bytes may go before something happens.
    fn room(&self) -> u64 {
        let stall = self.stall.as_ref().map(|(after, _)| *after);
        [self.cut, self.end, stall]
            .into_iter()
            .flatten()
            .min()
            .map_or(u64::MAX, |mark| mark.saturating_sub(self.sent))
    }

    /// Does what is due at this place; `true` when a pause was begun or the body has ended.
    fn mark(&mut self) -> bool {
        if let Some((_, gate)) = self.stall.take_if(|(after, _)| *after == self.sent) {
            self.pause = Some(Box::pin(async move { gate.pass().await }));
        } else if self.cut == Some(self.sent) {
            self.state = State::Cutting;
            self.pause = Some(Box::pin(self.activity.flushed()));
        } else if self.end == Some(self.sent) {
            self.state = State::Ended;
        } else {
            return false;
        }
        true
    }

    fn finish(&mut self) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.state = State::Ended;
        self.entry.finished();
        Poll::Ready(None)
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            match this.state {
                State::Open => {}
                State::Cutting => {
                    this.state = State::Ended;
                    return Poll::Ready(Some(Err(io::Error::other("the answer was cut on purpose"))));
                }
                State::Ended => return this.finish(),
            }
            if this.mark() {
                continue;
            }
            let room = this.room();
            let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(cx)?) else {
                return this.finish();
            };
            let Ok(mut data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            if let Some(kept) = usize::try_from(room).ok().filter(|room| *room < data.len()) {
                let later = data.split_off(kept);
                this.inner = prepend(later, mem::take(&mut this.inner));
            }
            this.sent += data.len() as u64;
            this.entry.sent(data.len());
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized {
            self.inner.size_hint()
        } else {
            SizeHint::new()
        }
    }
}

/// A body that yields `first` and then what `rest` has: what is left of a frame that a mark divides.
fn prepend(first: Bytes, rest: Source) -> Source {
    Source::new(Prepended {
        first: Some(first),
        rest,
    })
}

struct Prepended {
    first: Option<Bytes>,
    rest: Source,
}

impl Body for Prepended {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

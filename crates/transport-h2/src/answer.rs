//! The body of an answer, read as it comes.

use std::{
    io::{self, Read},
    sync::Arc,
    task::Poll,
    time::Instant,
};

use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use rgit_transport::{Answer, Cancel};

use crate::{
    driver::Leave,
    exchange::{Received, cancelled},
    link::{Slot, idle_for},
    observed::Meter,
};

/// A body being read. Holds its place on the connection until it is over; dropped before, its stream is reset.
pub(crate) struct AnswerBody {
    open: Option<Open>,
    /// Received and not read yet.
    chunk: Bytes,
    /// Once broken, always broken: a later read must not look like the end.
    broken: Option<io::ErrorKind>,
}

struct Open {
    receiving: RecvStream,
    sending: Option<SendStream<Bytes>>,
    meter: Arc<Meter>,
    stream: u32,
    slot: Slot,
    cancel: Cancel,
}

impl Open {
    /// The stream is done with, in whatever state it is.
    fn close(self) {
        let Open {
            receiving,
            sending,
            meter,
            stream,
            slot,
            cancel,
        } = self;
        cancel.unwatch();
        let link = slot.0.clone();
        let reset = sending.is_some() || !receiving.is_end_stream();
        // h2 resets what is not at its end.
        drop((receiving, sending, meter));
        link.observed.forget(stream);
        drop(slot);
        if reset {
            link.tend(Leave::Speaking);
        }
    }
}

impl AnswerBody {
    /// The answer's body; one without bytes is over at once.
    pub(crate) fn answer(received: Received, slot: Slot) -> http::Response<Answer> {
        let (parts, receiving) = received.response.into_parts();
        let mut body = AnswerBody {
            open: Some(Open {
                stream: receiving.stream_id().as_u32(),
                receiving,
                sending: received.sending,
                meter: received.meter,
                slot,
                cancel: received.cancel,
            }),
            chunk: Bytes::new(),
            broken: None,
        };
        body.close_at_end();
        let answer = match body.open {
            Some(_) => Answer::new(body),
            None => Answer::empty(),
        };
        http::Response::from_parts(parts, answer)
    }

    fn close_at_end(&mut self) {
        if let Some(open) = self.open.take_if(|open| open.receiving.is_end_stream()) {
            open.close();
        }
    }

    /// Wait for the next bytes; none at the end.
    fn receive(&mut self) -> io::Result<Bytes> {
        let Some(open) = &mut self.open else {
            return Ok(Bytes::new());
        };
        let Open {
            receiving,
            meter,
            slot,
            cancel,
            ..
        } = open;
        let link = slot.0.clone();
        let idle = link.tuning.idle_timeout;
        let begun = Instant::now();
        let deadline = || link.observed.moved(meter).max(begun) + idle;
        let received = link.wait_for(Leave::Speaking, deadline, |cx| {
            if cancel.watch(cx.waker()) {
                return Poll::Ready(None);
            }
            let polled = receiving.poll_data(cx);
            if let Poll::Ready(Some(Ok(bytes))) = &polled {
                // Before leaving, so that the window's update can go along. It can't fail: this much was just received.
                receiving.flow_control().release_capacity(bytes.len()).ok();
            }
            polled.map(Some)
        });
        let Some(received) = received else {
            return Err(idle_for(idle));
        };
        match received.ok_or_else(cancelled)? {
            Some(Ok(bytes)) => Ok(bytes),
            None => Ok(Bytes::new()),
            // h2 forgets that the answer was whole when the connection ends or is reset behind it.
            Some(Err(err)) if meter.is_answered() && !err.is_library() => Ok(Bytes::new()),
            Some(Err(err)) => Err(broken_off(&err)),
        }
    }
}

/// In the words of the trait: whatever ends a body before its END_STREAM cuts it short.
fn broken_off(err: &h2::Error) -> io::Error {
    let kind = match err.is_library() && err.reason() != Some(Reason::NO_ERROR) {
        true => io::ErrorKind::InvalidData,
        false => io::ErrorKind::UnexpectedEof,
    };
    io::Error::new(kind, format!("the server broke its answer off: {err}"))
}

impl Read for AnswerBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        while self.chunk.is_empty() {
            if self.open.is_none() {
                return Ok(0);
            }
            match self.receive() {
                // Padding and nothing else is no end.
                Ok(bytes) => {
                    let over = bytes.is_empty();
                    self.chunk = bytes;
                    self.close_at_end();
                    if over {
                        if let Some(open) = self.open.take() {
                            open.close();
                        }
                        return Ok(0);
                    }
                }
                Err(err) => {
                    self.broken = Some(err.kind());
                    if let Some(open) = self.open.take() {
                        open.close();
                    }
                    return Err(err);
                }
            }
        }
        let count = self.chunk.len().min(buf.len());
        self.chunk.copy_to_slice(&mut buf[..count]);
        Ok(count)
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.close();
        }
    }
}

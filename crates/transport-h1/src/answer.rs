//! The body of an answer, read from its connection, which is handed back afterwards.

use std::{
    io::{self, Read},
    sync::{Arc, OnceLock},
};

use http::HeaderMap;
use rgit_dial::{Interest, Origin};
use rgit_transport::Answer;

use crate::{
    Settings,
    exchange::{idle_for, is_retry},
    framing::{Decoder, Receiving},
    head,
    pool::Pool,
    pooled::Pooled,
};

/// The trailer of a chunked answer (RFC 9110, section 6.5), in the response's extensions: empty until its body was read to the end.
#[derive(Debug, Clone, Default)]
pub struct Trailers(Arc<OnceLock<HeaderMap>>);

impl Trailers {
    /// Its fields; `None` before the end of the body, and where there were none.
    pub fn fields(&self) -> Option<&HeaderMap> {
        self.0.get()
    }

    /// Lines that are no fields are no trailer: nothing depends on them but who asked for them.
    fn keep(&self, lines: &[u8]) {
        let mut parsed = [httparse::EMPTY_HEADER; head::LINES];
        if let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(lines, &mut parsed)
            && !fields.is_empty()
            && let Ok(fields) = head::map(fields)
        {
            self.0.set(fields).ok();
        }
    }
}

/// Reads at least this large go around the buffer.
const DIRECT: usize = 16 * 1024;

/// A body being read. Owns its connection until the body is over. Dropped between two chunks, it hands the connection back: who stops
/// there has had all data, if what follows is the last chunk, and whoever uses the connection next sees whether it is. Dropped anywhere
/// else, it takes the connection along.
pub(crate) struct AnswerBody {
    decoder: Decoder,
    connection: Option<Pooled>,
    buffer: Vec<u8>,
    /// What of the buffer was received and not yet decoded: `start..end`.
    start: usize,
    end: usize,
    settings: Settings,
    trailers: Trailers,
    /// Where the connection goes when the body is over.
    home: Option<(Arc<Pool>, Origin)>,
    may_be_reset: bool,
    /// Once broken, always broken: a later read must not look like the end.
    broken: Option<io::ErrorKind>,
}

impl AnswerBody {
    /// A body of which `rest` has been received.
    pub(crate) fn new(framing: Receiving, rest: Vec<u8>, connection: Pooled, settings: Settings) -> Self {
        AnswerBody {
            decoder: Decoder::new(framing),
            connection: Some(connection),
            start: 0,
            end: rest.len(),
            buffer: rest,
            settings,
            trailers: Trailers::default(),
            home: None,
            may_be_reset: false,
            broken: None,
        }
    }

    /// Where the trailer will be found.
    pub(crate) fn trailers(&self) -> Trailers {
        self.trailers.clone()
    }

    /// The connection can serve another exchange when the body is over.
    pub(crate) fn hand_back_to(mut self, pool: Arc<Pool>, origin: Origin) -> Self {
        self.home = Some((pool, origin));
        self
    }

    /// The server may well reset the connection: part of the request lies unread before it. That ends a body without length.
    pub(crate) fn may_be_reset(mut self) -> Self {
        self.may_be_reset = true;
        self
    }

    /// Begin. A body without bytes is over at once.
    pub(crate) fn into_answer(mut self) -> Answer {
        if self.decoder.is_over() {
            self.finish();
            return Answer::empty();
        }
        Answer::new(self)
    }

    fn finish(&mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        self.trailers.keep(self.decoder.trailer());
        match self.home.take() {
            // Bytes behind the body were not asked for: whatever they are, they must not become the next answer.
            Some((pool, origin)) if self.start == self.end => pool.put(origin, connection, None),
            _ => connection.shutdown(),
        }
    }

    /// The connection and what is left of the body, if that is no data as far as can be seen.
    fn leave(&mut self) {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::Length(0));
        let rest = decoder.rest(&self.buffer[self.start..self.end]);
        if let (Some(rest), Some((pool, origin)), Some(connection)) = (rest, self.home.take(), self.connection.take()) {
            let rest = Some(rest).filter(|rest| !rest.is_over());
            pool.put(origin, connection, rest);
        }
    }

    /// Fill the buffer, or `direct` where given.
    fn receive(&mut self, direct: Option<&mut [u8]>) -> io::Result<usize> {
        let Some(connection) = &mut self.connection else {
            return Ok(0);
        };
        let into_buffer = direct.is_none();
        let target = match direct {
            Some(target) => target,
            None => {
                if self.buffer.len() != self.settings.buffer {
                    self.buffer = vec![0; self.settings.buffer];
                }
                self.buffer.as_mut_slice()
            }
        };
        let got = loop {
            match connection.read(target) {
                Err(err) if is_retry(&err) => {}
                other => break other?,
            }
            if !connection.wait(Interest::READ, self.settings.idle_timeout)?.any() {
                return Err(idle_for(self.settings.idle_timeout));
            }
        };
        if into_buffer {
            self.start = 0;
            self.end = got;
        }
        Ok(got)
    }

    fn step(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if self.start < self.end {
            let decoded = self.decoder.decode(&self.buffer[self.start..self.end], buf);
            let (used, written) = decoded.map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))?;
            self.start += used;
            if self.decoder.is_over() {
                self.finish();
                return Ok(Some(written));
            }
            return Ok((written > 0).then_some(written));
        }
        let plain = usize::try_from(self.decoder.plain())
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let direct = plain >= DIRECT;
        let received = self.receive(direct.then_some(&mut buf[..plain]));
        match received {
            Ok(0) => {}
            Ok(count) if direct => {
                self.decoder.skip(count);
                if self.decoder.is_over() {
                    self.finish();
                }
                return Ok(Some(count));
            }
            Ok(_) => return Ok(None),
            Err(err) if self.may_be_reset && err.kind() == io::ErrorKind::ConnectionReset => {}
            Err(err) => return Err(err),
        }
        if matches!(self.decoder, Decoder::ToEnd) {
            self.finish();
            return Ok(Some(0));
        }
        let said = match &self.decoder {
            Decoder::Length(left) => {
                format!("the server closed the connection {left} bytes before the end of its answer")
            }
            _ => "the server closed the connection before the last chunk of its answer".to_owned(),
        };
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, said))
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.leave();
        }
    }
}

impl Read for AnswerBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        if buf.is_empty() {
            return Ok(0);
        }
        while self.connection.is_some() {
            match self.step(buf) {
                Ok(Some(count)) => return Ok(count),
                Ok(None) => {}
                Err(err) => {
                    self.broken = Some(err.kind());
                    self.connection = None;
                    return Err(err);
                }
            }
        }
        Ok(0)
    }
}

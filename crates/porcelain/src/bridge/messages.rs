//! A look at the remote's messages (side band 2) on their way to gix, which turns them into progress and drops what is none.

use std::{
    io::{self, BufRead, Read},
    sync::{Arc, Mutex, PoisonError},
};

use gix::protocol::transport::{
    Protocol,
    client::{
        self, MessageKind,
        blocking_io::{ExtendedBufRead, HandleProgress, ReadlineBufRead},
    },
    packetline::PacketLineRef,
};

/// Called with the text of side band 2, in pieces as they arrive; the text is hostile and unmasked.
pub type RemoteMessages = Box<dyn FnMut(&[u8]) + Send>;

#[derive(Clone, Default)]
pub(super) struct Listener(pub(super) Option<Arc<Mutex<RemoteMessages>>>);

/// Lines whose progress handler also tells the listener.
pub(super) struct Overheard<R> {
    pub(super) inner: R,
    pub(super) listener: Listener,
}

impl<R: Read> Read for Overheard<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

impl<R: BufRead> BufRead for Overheard<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
    }
}

impl<R: ReadlineBufRead> ReadlineBufRead for Overheard<R> {
    fn readline(&mut self) -> Option<io::Result<gix::error::Result<PacketLineRef<'_>>>> {
        self.inner.readline()
    }

    fn readline_str(&mut self, line: &mut String) -> io::Result<usize> {
        self.inner.readline_str(line)
    }
}

impl<'a, R: ExtendedBufRead<'a>> ExtendedBufRead<'a> for Overheard<R> {
    fn set_progress_handler(&mut self, handler: Option<HandleProgress<'a>>) {
        let Some(listener) = self.listener.0.clone() else {
            return self.inner.set_progress_handler(handler);
        };
        self.inner
            .set_progress_handler(handler.map(|mut handler| -> HandleProgress<'a> {
                Box::new(move |is_error, text| {
                    (listener.lock().unwrap_or_else(PoisonError::into_inner))(text);
                    handler(is_error, text)
                })
            }));
    }

    fn peek_data_line(&mut self) -> Option<io::Result<Result<&[u8], client::Error>>> {
        self.inner.peek_data_line()
    }

    fn reset(&mut self, version: Protocol) {
        self.inner.reset(version);
    }

    fn stopped_at(&self) -> Option<MessageKind> {
        self.inner.stopped_at()
    }
}

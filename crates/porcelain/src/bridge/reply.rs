//! Answers that are watched while they are read.

use std::{
    io::{self, Read},
    sync::{Arc, Mutex, PoisonError},
};

/// An answer of which no more than so many bytes are read.
pub(super) struct Capped<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R> Capped<R> {
    pub(super) fn new(inner: R, limit: u64) -> Self {
        Capped {
            inner,
            left: limit,
            limit,
        }
    }
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let said = format!(
                "the list of refs is longer than {} bytes and was not read further",
                self.limit
            );
            io::Error::new(io::ErrorKind::InvalidData, said)
        })?;
        Ok(read)
    }
}

/// An answer that is remembered while it is read.
pub(super) struct Tee<R> {
    pub(super) reply: R,
    pub(super) copy: Arc<Mutex<Vec<u8>>>,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reply.read(buf)?;
        self.copy
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(&buf[..read]);
        Ok(read)
    }
}

//! One accepted connection: the byte streams under and over TLS, and how it ends.
//!
//! Owns closing: lingering so that an early answer is not lost to a reset, idle timeouts, and the flush that must come
//! before a deliberate cut. Knows no Git and no request.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
    sync::{Notify, watch},
};

use crate::{requests::Alive, tally::Passing};

/// How long a closed connection goes on taking what the client still sends: Apache's figure is 30 s, nginx's 5 s.
const LINGER: Duration = Duration::from_secs(10);

/// What the answers on a connection share with the task that drives it.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    exchanges: AtomicUsize,
    /// Whether there was any exchange yet.
    begun: AtomicBool,
    changed: Notify,
    flushes: watch::Sender<u64>,
}

impl Activity {
    pub(crate) fn begin(self: &Arc<Self>) -> Exchange {
        self.exchanges.fetch_add(1, Ordering::SeqCst);
        self.begun.store(true, Ordering::SeqCst);
        self.changed.notify_one();
        Exchange(self.clone())
    }

    /// Resolves once everything handed to the connection before this call has left for the kernel.
    pub(crate) fn flushed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut flushes = self.flushes.subscribe();
        flushes.mark_unchanged();
        async move {
            // An error means that the connection is gone, and so is what was to be flushed.
            let _ = flushes.changed().await;
        }
    }

    /// Resolves when no exchange has been in flight for `timeout` without a break, after there was one: no server closes on a client
    /// that has just connected.
    pub(crate) async fn idle_for(&self, timeout: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.exchanges.load(Ordering::SeqCst) > 0 || !self.begun.load(Ordering::SeqCst) {
                changed.await;
            } else if tokio::time::timeout(timeout, changed).await.is_err()
                && self.exchanges.load(Ordering::SeqCst) == 0
            {
                return;
            }
        }
    }
}

/// An exchange in flight, until dropped.
#[derive(Debug)]
pub(crate) struct Exchange(Arc<Activity>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.exchanges.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

/// The TCP stream under everything else.
///
/// A socket that is closed while unread bytes wait in it sends a reset, and the reset destroys an answer that the client
/// has not read yet. So the close is done in two steps, as web servers do: FIN, then read until the client has closed.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Option<TcpStream>,
    /// The word that the server is ending; `None` is a close without lingering.
    linger: Option<watch::Receiver<bool>>,
    /// Its place in the count of the living, lingering included.
    alive: Option<Alive>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, linger: Option<watch::Receiver<bool>>, alive: Alive) -> Self {
        Socket {
            stream: Some(stream),
            linger,
            alive: Some(alive),
        }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let (Some(mut stream), Some(mut ending)) = (self.stream.take(), self.linger.take()) else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if *ending.borrow() {
            return;
        }
        let alive = self.alive.take();
        runtime.spawn(async move {
            let discard = async {
                let mut scrap = vec![0; 64 * 1024];
                if stream.shutdown().await.is_ok() {
                    while matches!(stream.read(&mut scrap).await, Ok(1..)) {}
                }
            };
            tokio::select! {
                _ = tokio::time::timeout(LINGER, discard) => {}
                _ = ending.changed() => {}
            }
            drop(alive);
        });
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(cx)
    }
}

/// What hyper reads and writes: the stream (plain or TLS) with its flushes made known to [`Activity::flushed`], and its
/// frames counted.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    pub(crate) stream: S,
    pub(crate) activity: Arc<Activity>,
    pub(crate) passing: Passing,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.passing.received(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.passing.sent(&buf[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))?;
        let mut left = written;
        for buf in bufs {
            let part = left.min(buf.len());
            self.passing.sent(&buf[..part]);
            left -= part;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.activity.flushes.send_modify(|flushes| *flushes += 1);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

//! A script played over HTTP/2: the same steps, in frames.
//!
//! Owns the translation only; the protocol is the `h2` crate's server. Requests are recorded as their HTTP/1.1 counterparts would be.

mod answer;

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    net::TcpStream,
    pin::Pin,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    server::{Connection, SendResponse},
};
use http::Method;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{mpsc, oneshot},
};

use super::{Framing, Handler, Request, Shared, Step, lock};
use answer::{Answer, Part};

/// Body bytes kept of a request; the rest is only counted.
const KEPT: usize = 1 << 20;

type Wire = Watched<Box<dyn Stream>>;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(super) fn play(
    socket: TcpStream,
    config: Option<Arc<ServerConfig>>,
    number: usize,
    shared: &Arc<Shared>,
    steps: &[Step],
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let raw = socket.try_clone()?;
    let mut player = runtime.block_on(async {
        let socket = tokio::net::TcpStream::from_std(socket)?;
        let stream: Box<dyn Stream> = match config {
            None => Box::new(socket),
            Some(config) => Box::new(tokio_rustls::TlsAcceptor::from(config).accept(socket).await?),
        };
        let blocked = Arc::new(AtomicBool::new(false));
        let wire = Watched {
            stream,
            blocked: blocked.clone(),
        };
        let connection = h2::server::handshake(wire).await.map_err(io::Error::other)?;
        io::Result::Ok(Player {
            connection: Some(connection),
            blocked,
            raw,
            number,
            shared: shared.clone(),
            waiting: VecDeque::new(),
            current: None,
        })
    })?;
    let ended = runtime.block_on(player.play(steps));
    if let Ok(End::Held) = ended {
        // Held open, unread, until the server ends.
        let mut guard = lock(&shared.requests);
        while !shared.stop.load(Ordering::SeqCst) {
            guard = shared.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
    // Dropped inside the runtime: sockets belong to it.
    let _inside = runtime.enter();
    drop(player);
    ended.map(drop)
}

/// How a script ended.
enum End {
    Held,
    Closed,
}

struct Player {
    connection: Option<Connection<Wire, Bytes>>,
    blocked: Arc<AtomicBool>,
    raw: TcpStream,
    number: usize,
    shared: Arc<Shared>,
    waiting: VecDeque<Exchange>,
    current: Option<Exchange>,
}

impl Player {
    async fn play(&mut self, steps: &[Step]) -> io::Result<End> {
        for step in steps {
            match step {
                Step::ReadHead => self.read_head().await?,
                Step::ReadBytes(count) => {
                    let mut left = *count;
                    while left > 0 {
                        match self.read_piece().await? {
                            Some(length) => left = left.saturating_sub(length),
                            None => break,
                        }
                    }
                }
                Step::ReadRequest => {
                    if self.current.as_ref().is_none_or(|exchange| exchange.read) {
                        self.read_head().await?;
                    }
                    while self.read_piece().await?.is_some() {}
                }
                Step::ReadToEnd => while self.read_head().await.is_ok() {},
                Step::Write(bytes) | Step::WriteBytewise(bytes) => {
                    let Some(exchange) = &mut self.current else { continue };
                    exchange.answer.pending.extend_from_slice(bytes);
                    if exchange.answer.closes()
                        && let Some(connection) = &mut self.connection
                    {
                        connection.graceful_shutdown();
                    }
                    exchange.write()?;
                    self.flush().await?;
                }
                Step::Wait(gate) => {
                    if !gate.wait_unless(&self.shared.stop) {
                        return Ok(End::Closed);
                    }
                }
                Step::Open(gate) => gate.open(),
                Step::Serve(handler) => self.serve(handler).await?,
                Step::HalfClose => {
                    self.finish().await?;
                    self.raw.shutdown(std::net::Shutdown::Write)?;
                }
                Step::Close => {
                    self.finish().await?;
                    return self.end(None);
                }
                Step::Cut => return self.end(None),
                Step::Reset => return self.end(Some(Duration::ZERO)),
            }
        }
        Ok(End::Held)
    }

    /// The kernel closes a socket with its last descriptor: the one kept for waking must go, too.
    fn end(&self, linger: Option<Duration>) -> io::Result<End> {
        socket2::SockRef::from(&self.raw).set_linger(linger)?;
        lock(&self.shared.sockets).remove(&self.number);
        Ok(End::Closed)
    }

    /// An answer whose length nobody told ends with the connection.
    async fn finish(&mut self) -> io::Result<()> {
        if let Some(exchange) = &mut self.current {
            exchange.answer.over();
            exchange.write()?;
        }
        self.flush().await
    }

    /// Do what h2 has to do, until `done`. New requests are queued.
    async fn drive<T>(
        &mut self,
        mut done: impl FnMut(&mut Self, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        poll_fn(|cx| {
            let mut closed = self.connection.is_none();
            while let Some(connection) = &mut self.connection {
                match connection.poll_accept(cx) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        let exchange = Exchange::new(request, respond, self.number, &self.shared);
                        self.waiting.push_back(exchange);
                    }
                    Poll::Ready(Some(Err(err))) => return Poll::Ready(Err(io::Error::other(err))),
                    Poll::Ready(None) => {
                        closed = true;
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            match done(self, cx) {
                Poll::Pending if closed => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                other => other,
            }
        })
        .await
    }

    /// Until all that h2 can send now is with the kernel.
    async fn flush(&mut self) -> io::Result<()> {
        self.drive(|player, _| match player.blocked.load(Ordering::SeqCst) {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        })
        .await
    }

    async fn read_head(&mut self) -> io::Result<()> {
        let exchange = self
            .drive(|player, _| {
                player
                    .waiting
                    .pop_front()
                    .map_or(Poll::Pending, |next| Poll::Ready(Ok(next)))
            })
            .await?;
        self.current = Some(exchange);
        Ok(())
    }

    async fn read_piece(&mut self) -> io::Result<Option<u64>> {
        self.drive(|player, cx| match &mut player.current {
            Some(exchange) => exchange.poll_piece(cx),
            None => Poll::Ready(Ok(None)),
        })
        .await
    }

    async fn serve(&mut self, handler: &Handler) -> io::Result<()> {
        let (closing, mut closings) = mpsc::unbounded_channel::<oneshot::Sender<()>>();
        loop {
            let next = self
                .drive(|player, cx| {
                    while let Poll::Ready(Some(done)) = closings.poll_recv(cx) {
                        if let Some(connection) = &mut player.connection {
                            connection.graceful_shutdown();
                        }
                        let _ = done.send(());
                    }
                    player
                        .waiting
                        .pop_front()
                        .map_or(Poll::Pending, |next| Poll::Ready(Ok(next)))
                })
                .await;
            let Ok(mut exchange) = next else {
                // Closed in due form; what follows finds nobody.
                return Ok(());
            };
            let (handler, closing) = (handler.clone(), closing.clone());
            tokio::spawn(async move {
                while matches!(poll_fn(|cx| exchange.poll_piece(cx)).await, Ok(Some(_))) {}
                let request = exchange.recorded();
                if !request.complete {
                    return;
                }
                exchange.answer.pending = handler(&request);
                if exchange.answer.closes() {
                    let (done, wait) = oneshot::channel();
                    let _ = closing.send(done);
                    let _ = wait.await;
                }
                let _ = exchange.write();
            });
        }
    }
}

/// A request and its answer.
struct Exchange {
    respond: SendResponse<Bytes>,
    sending: Option<SendStream<Bytes>>,
    body: RecvStream,
    answer: Answer,
    number: usize,
    index: usize,
    shared: Arc<Shared>,
    read: bool,
}

impl Exchange {
    fn new(
        request: http::Request<RecvStream>,
        respond: SendResponse<Bytes>,
        number: usize,
        shared: &Arc<Shared>,
    ) -> Exchange {
        let (parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut head = format!("{} {target} HTTP/2.0\r\n", parts.method);
        if let Some(authority) = parts.uri.authority() {
            head.push_str(&format!("host: {authority}\r\n"));
        }
        for (name, value) in &parts.headers {
            head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
        }
        head.push_str("\r\n");
        let mut recorded = Request {
            head,
            complete: body.is_end_stream(),
            ..Request::default()
        };
        let length = recorded
            .header("content-length")
            .first()
            .and_then(|value| value.parse().ok());
        recorded.framing = match length {
            Some(length) => Framing::Length(length),
            None if body.is_end_stream() => Framing::None,
            None => Framing::Chunked,
        };
        let index = {
            let mut all = lock(&shared.requests);
            all[number].push(recorded);
            all[number].len() - 1
        };
        shared.changed.notify_all();
        Exchange {
            respond,
            sending: None,
            read: body.is_end_stream(),
            body,
            answer: Answer::new(parts.method == Method::HEAD),
            number,
            index,
            shared: shared.clone(),
        }
    }

    fn recorded(&self) -> Request {
        lock(&self.shared.requests)[self.number][self.index].clone()
    }

    fn note(&self, change: impl FnOnce(&mut Request)) {
        change(&mut lock(&self.shared.requests)[self.number][self.index]);
        self.shared.changed.notify_all();
    }

    /// The length of the next piece of the body; `None` at its end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<u64>>> {
        match self.body.poll_data(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                self.body
                    .flow_control()
                    .release_capacity(piece.len())
                    .map_err(io::Error::other)?;
                self.note(|request| {
                    let room = KEPT.saturating_sub(request.body.len()).min(piece.len());
                    request.body.extend_from_slice(&piece[..room]);
                    request.length += piece.len() as u64;
                });
                Poll::Ready(Ok(Some(piece.len() as u64)))
            }
            Poll::Ready(Some(Err(err))) => Poll::Ready(Err(io::Error::other(err))),
            Poll::Ready(None) => {
                self.read = true;
                self.note(|request| request.complete = true);
                Poll::Ready(Ok(None))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Send what there is of the answer.
    fn write(&mut self) -> io::Result<()> {
        while let Some(part) = self.answer.next()? {
            match part {
                Part::Informational(head) => self.respond.send_informational(head).map_err(io::Error::other)?,
                Part::Head(head, over) => {
                    self.sending = Some(self.respond.send_response(head, over).map_err(io::Error::other)?);
                }
                Part::Data(data, over) => {
                    if let Some(sending) = &mut self.sending {
                        sending.send_data(data, over).map_err(io::Error::other)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Knows whether the last write found room.
struct Watched<S> {
    stream: S,
    blocked: Arc<AtomicBool>,
}

impl<S> Watched<S> {
    fn watch<T>(&self, polled: Poll<T>) -> Poll<T> {
        self.blocked.store(polled.is_pending(), Ordering::SeqCst);
        polled
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

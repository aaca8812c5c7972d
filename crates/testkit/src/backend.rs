//! `git http-backend` as a CGI program: git-http-backend(1) and RFC 3875.
//!
//! Owns the child processes: their environment, the three pipes, and that none outlives its exchange. Bytes stream both
//! ways as they come; a pipe that is full holds its producer back. Knows nothing of connections.

use std::{
    ffi::OsString,
    io,
    path::PathBuf,
    pin::Pin,
    process::Stdio,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, request::Parts};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
};

use crate::{
    body::Source,
    reply::Rest,
    requests::{Alive, Entry, Living, Log},
};

/// The most a CGI head may take: far beyond anything git writes.
const HEAD_LIMIT: usize = 64 * 1024;
/// Bytes read from the child's stdout at once, and the width asked for its pipes.
const CHUNK: usize = 256 * 1024;
/// The most that is kept of an answer while its head is held back. A child that writes more before it has read its input gets
/// its answer passed on all the same: it might never read on otherwise.
const HELD_LIMIT: usize = 16 * 1024 * 1024;
/// How long a child that was asked to end (SIGTERM: git removes its temporary files) may take before SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// How to run the backend for one server.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) program: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) path: OsString,
    /// Whether an answer waits until the request's body was read to its end.
    pub(crate) hold_head: bool,
    pub(crate) log: Arc<Log>,
    pub(crate) children: Arc<Living>,
    pub(crate) ending: watch::Receiver<bool>,
}

impl Backend {
    /// Answers one request. The answer's body is the rest of the child's output; dropping it ends the child.
    pub(crate) async fn answer(
        &self,
        parts: &Parts,
        body: Incoming,
        user: Option<&str>,
        rest: Rest,
        entry: Arc<Entry>,
    ) -> io::Result<Response<Source>> {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(self.environment(parts, user));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // A group of its own, so that what http-backend has started (receive-pack, index-pack, hooks) ends with it.
        command.process_group(0).kill_on_drop(true).current_dir(&self.root);
        let alive = self.children.join();
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("a child without pipes"));
        };
        widen(&stdin);
        widen(&stdout);
        let order = watch::Sender::new(Order::Run);
        tokio::spawn(diagnose(stderr, self.log.clone()));
        tokio::spawn(guard(child, order.subscribe(), self.ending.clone(), alive));
        let mut feeding = tokio::spawn(feed(body, stdin, entry, order.clone(), rest));
        let mut output = Output {
            stdout,
            scratch: vec![0; CHUNK].into_boxed_slice(),
            first: Bytes::new(),
            order,
            feeding: None,
        };
        let (status, headers) = output.head().await?;
        if self.hold_head {
            output.hold(&mut feeding).await?;
        }
        output.feeding = (rest == Rest::Close).then_some(feeding);
        let mut response = Response::new(Source::new(output));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// The variables of RFC 3875, section 4.1, that git-http-backend(1) reads, and nothing of the test's own environment.
    fn environment(&self, parts: &Parts, user: Option<&str>) -> Vec<(OsString, OsString)> {
        let mut environment: Vec<(OsString, OsString)> = Vec::new();
        let mut set = |name: &str, value: OsString| environment.push((name.into(), value));
        set("PATH", self.path.clone());
        set("HOME", self.home.clone().into());
        set("GIT_CONFIG_NOSYSTEM", "1".into());
        set("LC_ALL", "C".into());
        set("TZ", "UTC".into());
        set("GIT_PROJECT_ROOT", self.root.clone().into());
        set("GIT_HTTP_EXPORT_ALL", "1".into());
        set("GATEWAY_INTERFACE", "CGI/1.1".into());
        set("SERVER_PROTOCOL", format!("{:?}", parts.version).into());
        set("REMOTE_ADDR", "127.0.0.1".into());
        set("REQUEST_METHOD", parts.method.as_str().into());
        let path = percent_encoding::percent_decode_str(parts.uri.path()).collect();
        set("PATH_INFO", std::os::unix::ffi::OsStringExt::from_vec(path));
        set("QUERY_STRING", parts.uri.query().unwrap_or_default().into());
        if let Some(user) = user {
            set("REMOTE_USER", user.into());
            set("AUTH_TYPE", "Basic".into());
        }
        for (name, value) in &parts.headers {
            let Ok(value) = value.to_str() else { continue };
            match name.as_str() {
                // CGI programs must not see credentials: RFC 3875, section 4.1.18.
                "authorization" | "proxy-authorization" => {}
                "content-type" => set("CONTENT_TYPE", value.into()),
                "content-length" => set("CONTENT_LENGTH", value.into()),
                "git-protocol" => {
                    set("HTTP_GIT_PROTOCOL", value.into());
                    set("GIT_PROTOCOL", value.into());
                }
                name => set(
                    &format!("HTTP_{}", name.to_ascii_uppercase().replace('-', "_")),
                    value.into(),
                ),
            }
        }
        environment
    }
}

/// What is to become of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Run,
    /// Its output has been read to the end: let it exit.
    Finish,
    End,
}

/// Waits for a child, ends it when told to, and reaps it in any case.
async fn guard(mut child: Child, mut order: watch::Receiver<Order>, mut ending: watch::Receiver<bool>, alive: Alive) {
    let told = async {
        // Nobody left to give orders counts as the order to end.
        if order
            .wait_for(|order| *order != Order::Run)
            .await
            .map_or(Order::End, |order| *order)
            == Order::Finish
        {
            std::future::pending::<()>().await;
        }
    };
    let over = async { drop(ending.wait_for(|ending| *ending).await) };
    let running = tokio::select! {
        _ = child.wait() => false,
        () = told => true,
        () = over => true,
    };
    if running {
        end(&mut child).await;
    }
    drop(alive);
}

/// Ends a child and everything it has started, and waits until they are gone.
async fn end(child: &mut Child) {
    let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
        return;
    };
    let _ = kill_process_group(group, Signal::TERM);
    let gone = async {
        let _ = child.wait().await;
        // Its children have no parent here that could wait for them: ask for the group until nobody is in it.
        while test_kill_process_group(group).is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if tokio::time::timeout(GRACE, gone).await.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait().await;
    }
}

/// Carries the request's body into the child.
async fn feed(mut body: Incoming, stdin: ChildStdin, entry: Arc<Entry>, order: watch::Sender<Order>, rest: Rest) {
    let mut stdin = Some(stdin);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            // The client went away in the middle. An end of input would look like a complete body to the child.
            order.send_if_modified(end_unless_finished);
            return;
        };
        let Ok(data) = frame.into_data() else { continue };
        entry.received(data.len());
        if let Some(pipe) = &mut stdin
            && pipe.write_all(&data).await.is_err()
        {
            // The child reads no more, which is its right: its answer says why.
            stdin = None;
            if rest == Rest::Close {
                return;
            }
        }
    }
}

/// Keeps what the child has to say about itself.
async fn diagnose(mut stderr: ChildStderr, log: Arc<Log>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        log.diagnose(&buffer[..read]);
    }
}

/// Linux gives a pipe 64 KiB, which makes a bulk transfer a matter of context switches. Elsewhere, and where the limit
/// for pipes is used up, the pipe stays as it is.
fn widen(pipe: &impl std::os::fd::AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, CHUNK);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

/// A child's stdout: the CGI head first, the body of the answer after it.
struct Output {
    stdout: ChildStdout,
    scratch: Box<[u8]>,
    /// What was read together with the head.
    first: Bytes,
    order: watch::Sender<Order>,
    /// The feeding task, when the body is not to be read beyond the answer's end.
    feeding: Option<tokio::task::JoinHandle<()>>,
}

impl Output {
    /// Reads the CGI head: RFC 3875, section 6.2.
    async fn head(&mut self) -> io::Result<(StatusCode, HeaderMap)> {
        let mut read = BytesMut::new();
        while read.len() < HEAD_LIMIT {
            let got = self.stdout.read(&mut self.scratch).await?;
            if got == 0 {
                return Err(io::Error::other("git http-backend ended before it had written a head"));
            }
            read.extend_from_slice(&self.scratch[..got]);
            if let Some(end) = blank_line(&read) {
                let head = read.split_to(end);
                self.first = read.freeze();
                return parse_head(&head);
            }
        }
        Err(io::Error::other("git http-backend's head is too long"))
    }

    /// Waits until the request's body was read to its end, and keeps meanwhile what the child has to say.
    async fn hold(&mut self, feeding: &mut tokio::task::JoinHandle<()>) -> io::Result<()> {
        let mut held = BytesMut::from(&self.first[..]);
        let mut ended = false;
        while held.len() < HELD_LIMIT {
            tokio::select! {
                _ = &mut *feeding => break,
                got = self.stdout.read(&mut self.scratch), if !ended => {
                    let got = got?;
                    ended = got == 0;
                    held.extend_from_slice(&self.scratch[..got]);
                }
            }
        }
        self.first = held.freeze();
        Ok(())
    }
}

/// Where the head ends, the blank line included.
fn blank_line(read: &[u8]) -> Option<usize> {
    let end = |line_end: &[u8]| {
        read.windows(line_end.len())
            .position(|at| at == line_end)
            .map(|at| at + line_end.len())
    };
    match (end(b"\r\n\r\n"), end(b"\n\n")) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// `Status: 404 Not Found` sets the status (200 without it), everything else is a header field of the answer.
fn parse_head(head: &[u8]) -> io::Result<(StatusCode, HeaderMap)> {
    let mut status = StatusCode::OK;
    let mut headers = HeaderMap::new();
    for line in head
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty())
    {
        let bad = || io::Error::other(format!("a line of git http-backend's head: {}", line.escape_ascii()));
        let colon = line.iter().position(|byte| *byte == b':').ok_or_else(bad)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"status") {
            status = StatusCode::from_bytes(value.get(..3).ok_or_else(bad)?).map_err(|_| bad())?;
        } else {
            let name = HeaderName::from_bytes(name).map_err(|_| bad())?;
            headers.append(name, HeaderValue::from_bytes(value).map_err(|_| bad())?);
        }
    }
    Ok((status, headers))
}

impl Body for Output {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if !this.first.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut this.first)))));
        }
        let mut buffer = ReadBuf::new(&mut this.scratch);
        std::task::ready!(Pin::new(&mut this.stdout).poll_read(cx, &mut buffer))?;
        if buffer.filled().is_empty() {
            this.order.send_replace(Order::Finish);
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(buffer.filled())))))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.order.send_if_modified(end_unless_finished);
        if let Some(feeding) = &self.feeding {
            feeding.abort();
        }
    }
}

/// The order to end, unless the child has been read to its end: then it may exit in its own time.
fn end_unless_finished(order: &mut Order) -> bool {
    let end = *order == Order::Run;
    if end {
        *order = Order::End;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgi_head_sets_status_and_fields() {
        let (status, headers) =
            parse_head(b"Status: 403 Forbidden\r\nPragma: no-cache\r\nX: a: b\r\n\r\n").expect("a head");
        assert_eq!(status, 403);
        assert_eq!(headers["pragma"], "no-cache");
        assert_eq!(headers["x"], "a: b");
        assert_eq!(parse_head(b"Content-Type: text/plain\n\n").expect("a head").0, 200);
        assert!(parse_head(b"no colon\n\n").is_err());
        assert!(parse_head(b"Status: x\n\n").is_err());
    }

    #[test]
    fn a_head_ends_at_its_first_blank_line() {
        assert_eq!(blank_line(b"A: b\r\n\r\nbody\n\n"), Some(8));
        assert_eq!(blank_line(b"A: b\n\nbody\r\n\r\n"), Some(6));
        assert_eq!(blank_line(b"A: b\r\n\r"), None);
    }
}

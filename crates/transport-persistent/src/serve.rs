//! One client's requests, one after another.

use std::{
    io::{self, Cursor, Read, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use rgit_transport::{Answer, Body, Cancel, Early, Error, Repeatable, Wire};
use rgit_transport_h1::serve::{Head, RequestBody, Requests, write_chunks, write_head};
use rustix::net::sockopt;

use crate::{
    Profile,
    callers::Caller,
    client::has_no_body,
    control::{self, Ask, Failure},
    daemon::Shared,
    memory::{Kept, LARGEST},
};

/// How long a client may take over a request's head, once it has begun.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may refuse to take any more of its answer: one that was stopped is not to hold a connection for ever.
const UNREAD: Duration = Duration::from_secs(60 * 60);
/// Bytes of body read and written at a time on the hop: what takes fewest calls of the system without leaving the processor's cache.
pub(crate) const BUFFER: usize = 256 * 1024;
/// Bytes that the hop takes before whoever writes has to wait for who reads. Linux counts twice of it, and no more than `net.core.wmem_max`.
const AHEAD: usize = 256 * 1024;
/// Said before a request is acted on: a hop that ends without a word has done nothing.
const PROCESSING: &[u8] = b"HTTP/1.1 102 Processing\r\n\r\n";

type Taken<'s> = Requests<&'s UnixStream>;

/// Let more of what is written to one end of the hop lie there until it is read at the other: each side then wakes the other less often.
pub(crate) fn widen(stream: &UnixStream) {
    // A narrow hop carries the same.
    sockopt::set_socket_send_buffer_size(stream, AHEAD).ok();
}

/// Serve `caller` until it leaves, or the daemon does.
pub(crate) fn client(shared: &Shared, caller: &Caller) -> io::Result<()> {
    let stream = &caller.stream;
    widen(stream);
    stream.set_write_timeout(Some(UNREAD))?;
    let mut requests = Requests::new(stream);
    loop {
        if !requests.holds_input() && !shared.wait_for_request(stream)? {
            return Ok(());
        }
        stream.set_read_timeout(Some(HEAD))?;
        let Some(head) = requests.next_head()? else {
            return Ok(());
        };
        // A body may be hours of work; that the client is gone shows without a timeout.
        stream.set_read_timeout(None)?;
        let goes_on = match head.target.as_str() {
            "/status" => status(shared, stream)?,
            "/stop" => return stop(shared, stream),
            _ => pass_on(shared, caller, &mut requests, head)?,
        };
        if !goes_on {
            return Ok(());
        }
    }
}

fn status(shared: &Shared, stream: &UnixStream) -> io::Result<bool> {
    let text = format!("{:#}\n", shared.status());
    write_head(stream, StatusCode::OK, &chunked(false))?;
    write_chunks(stream, text.as_bytes(), BUFFER, |ended| control::end(&ended))?;
    Ok(false)
}

/// An answer without an end but the daemon's own.
fn stop(shared: &Shared, stream: &UnixStream) -> io::Result<()> {
    write_head(stream, StatusCode::OK, &HeaderMap::new())?;
    shared.leave(stream.try_clone()?);
    Ok(())
}

fn chunked(goes_on: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    if !goes_on {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers
}

/// Pass a request on; whether the stream can carry another.
fn pass_on(shared: &Shared, caller: &Caller, requests: &mut Taken<'_>, head: Head) -> io::Result<bool> {
    let stream = &caller.stream;
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let ask = Ask::read(&head.headers);
    let profile = control::text(&head.headers, &control::PROFILE).and_then(Profile::read);
    let (Some(profile), Ok(url)) = (profile, head.target.parse::<Uri>()) else {
        return refuse(
            stream,
            "the daemon can't make out how to connect; is it of another version?",
        );
    };
    let entry = match shared.upstreams.of(&profile) {
        Ok(entry) => entry,
        Err(err) => return refuse(stream, &err.to_string()),
    };
    let mut headers = head.headers.clone();
    control::strip(&mut headers);
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    leave_out_usual_host(&mut headers, &url);
    if ask.anew {
        shared.memory.forget(&url);
    }
    let key = ask.remember.then(|| shared.memory.key(&profile, &url, &headers));
    if let Some(kept) = key.as_ref().and_then(|key| shared.memory.recall(key)) {
        tracing::debug!("a remembered answer");
        return recalled(stream, &kept);
    }
    let named_a_user = headers.contains_key(header::AUTHORIZATION);
    (&*stream).write_all(PROCESSING)?;
    let body = requests.body(&head)?;
    let origin = entry.begin(&url);
    let cancel = Cancel::new();
    let _underway = shared.callers.begin(caller, cancel.clone());
    let sending = Sending {
        method: head.method.clone(),
        url: url.clone(),
        headers,
        ask,
        cancel,
    };
    let (outcome, in_step) = sending.send(entry.upstream.transport(), body);
    let wire = match &outcome {
        Ok(response) => response.extensions().get::<Wire>().copied(),
        Err(_) => None,
    };
    let wire = wire.unwrap_or(Wire::new(http::Version::HTTP_11));
    let answered = outcome.as_ref().ok();
    shared.memory.look(&url, named_a_user, answered);
    let sent = outcome.as_ref().map_or_else(Failure::sent, |_| wire.sent);
    shared.sent.fetch_add(sent, Ordering::Relaxed);
    let written = match outcome {
        Ok(response) => {
            let keep = |response: &Response<()>, body: &[u8]| {
                if let Some(key) = key {
                    shared.memory.keep(key, &url, response, body, &wire);
                }
            };
            answer(
                stream,
                &head.method,
                response,
                &wire,
                in_step,
                ask.remember.then_some(keep),
            )
        }
        Err(failure) => fail(stream, &failure, in_step).map(|()| 0),
    };
    entry.end(&origin, wire.reused);
    shared.was_used();
    shared.received.fetch_add(written?, Ordering::Relaxed);
    Ok(in_step)
}

/// A `host` that says what the URL does is the upstream's to write.
fn leave_out_usual_host(headers: &mut HeaderMap, url: &Uri) {
    let usual = rgit_dial::Origin::try_from(url).map(|origin| origin.host_header());
    if let Ok(usual) = usual
        && headers.get(header::HOST).is_some_and(|given| *given == *usual)
    {
        headers.remove(header::HOST);
    }
}

/// A request on its way to the server.
struct Sending {
    method: Method,
    url: Uri,
    headers: HeaderMap,
    ask: Ask,
    cancel: Cancel,
}

impl Sending {
    fn with(self, body: Body<'_>) -> Request<Body<'_>> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.url;
        *request.headers_mut() = self.headers;
        request.extensions_mut().insert(self.cancel);
        if self.ask.repeatable {
            request.extensions_mut().insert(Repeatable);
        }
        if self.ask.early {
            request.extensions_mut().insert(Early);
        }
        request
    }

    /// What came of it, and whether all of the client's body was read, so that another request can follow.
    fn send(
        self,
        upstream: &dyn rgit_transport::Transport,
        body: Option<RequestBody<'_, &UnixStream>>,
    ) -> (Result<Response<Answer>, Failure>, bool) {
        let Some(mut body) = body else {
            return (upstream.exchange(self.with(Body::Empty)).map_err(Failure::Error), true);
        };
        let asked_again = AtomicBool::new(false);
        let (length, replays) = (body.length(), self.ask.replays);
        let outcome = match (length, replays) {
            (Some(0), _) => upstream.exchange(self.with(Body::full(""))),
            (_, false) => upstream.exchange(self.with(Body::stream(length, &mut body))),
            // Its second copy is the client's to send.
            (_, true) => {
                let mut once = Some(&mut body);
                let again = &asked_again;
                upstream.exchange(self.with(Body::replay(length, move || {
                    once.take().ok_or_else(|| {
                        again.store(true, Ordering::SeqCst);
                        io::Error::other("the client has to send its body once more")
                    })
                })))
            }
        };
        let outcome = outcome.map_err(|err| match asked_again.load(Ordering::SeqCst) {
            true => Failure::Again,
            false => Failure::Error(err),
        });
        (outcome, body.is_over())
    }
}

/// Write a server's answer. Returns how many bytes of body were written.
fn answer(
    stream: &UnixStream,
    method: &Method,
    response: Response<Answer>,
    wire: &Wire,
    goes_on: bool,
    keep: Option<impl FnOnce(&Response<()>, &[u8])>,
) -> io::Result<u64> {
    let (parts, mut body) = response.into_parts();
    let status = parts.status;
    let headers = hop_headers(&parts.headers, wire, goes_on, has_no_body(method, status));
    write_head(stream, status, &headers)?;
    if has_no_body(method, status) {
        return Ok(0);
    }
    let end = |ended: io::Result<()>| control::end(&ended);
    let Some(keep) = keep else {
        return write_chunks(stream, body, BUFFER, end);
    };
    let mut start = Vec::new();
    let read = (&mut body).take(LARGEST + 1).read_to_end(&mut start);
    if read.is_ok() && start.len() as u64 <= LARGEST {
        keep(&Response::from_parts(parts, ()), &start);
    }
    let rest = match read {
        Ok(_) => body,
        Err(err) => Answer::new(Failing(Some(err))),
    };
    write_chunks(stream, Cursor::new(start).chain(rest), BUFFER, end)
}

/// A body that goes on with an error.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// The headers of a server's answer as they cross the hop.
fn hop_headers(from_server: &HeaderMap, wire: &Wire, goes_on: bool, bodiless: bool) -> HeaderMap {
    let mut headers = from_server.clone();
    control::strip(&mut headers);
    for name in [header::TRANSFER_ENCODING, header::CONNECTION] {
        headers.remove(name);
    }
    let length = headers.remove(header::CONTENT_LENGTH);
    let chunks = from_server.get(header::TRANSFER_ENCODING).cloned();
    if let Some(framing) = chunks.or(length) {
        headers.insert(control::FRAMING, framing);
    }
    headers.insert(control::WIRE, control::wire_header(wire));
    headers.extend(chunked(goes_on));
    if bodiless {
        headers.remove(header::TRANSFER_ENCODING);
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    headers
}

fn recalled(stream: &UnixStream, kept: &Kept) -> io::Result<bool> {
    write_head(
        stream,
        StatusCode::OK,
        &hop_headers(&kept.headers, &kept.wire, true, false),
    )?;
    write_chunks(stream, &*kept.body, BUFFER, |ended| control::end(&ended))?;
    Ok(true)
}

/// Tell why there is no answer.
fn fail(stream: &UnixStream, failure: &Failure, goes_on: bool) -> io::Result<()> {
    let (value, text) = failure.write();
    let mut headers = chunked(goes_on);
    headers.insert(control::FAILURE, value);
    write_head(stream, StatusCode::BAD_GATEWAY, &headers)?;
    write_chunks(stream, text.as_bytes(), BUFFER, |ended| control::end(&ended)).map(drop)
}

/// Refuse a request before its body was looked at.
fn refuse(stream: &UnixStream, reason: &str) -> io::Result<bool> {
    let error = Error::Request {
        reason: reason.to_owned(),
    };
    fail(stream, &Failure::Error(error), false)?;
    Ok(false)
}

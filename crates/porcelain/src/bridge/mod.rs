//! Any rgit transport under plain gix: a [`Session`] spoken to as `gix_transport`'s blocking [`Transport`].
//!
//! Owns the translation between gix's request writer and one POST, and nothing else: redirects, credentials and framing are the
//! session's, negotiation and pack reception are gix's. Hand it to `gix::Remote::to_connection_with_transport`; `examples/fetch.rs`
//! shows the whole of it. Or a repository on this machine ([`Local`]), behind the same face.
//!
//! gix reports transport failures wrapped in errors of its own. The session's error is therefore also left in a [`Failure`] slot,
//! where a caller finds the sentence that says what to do.

mod doubt;
mod local;
mod messages;
mod peer;
mod reply;

use std::{
    any::Any,
    borrow::Cow,
    io::{self, Read, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use bstr::{BStr, BString, ByteSlice};
use gix::protocol::transport::packetline::{PacketLineRef, blocking_io::StreamingPeekableIter};
use gix::protocol::transport::{
    Protocol, Service,
    client::{
        self, MessageKind, TransportWithoutIO, WriteMode,
        blocking_io::{RequestWriter, SetServiceResponse, Transport},
        capabilities::blocking_recv::Handshake,
    },
};
use rgit_smart_http::{Error as SessionError, Session};
use rgit_transport::{Body, Wire};

use local::Process;
use messages::{Listener, Overheard};
use reply::{Capped, Tee};

pub use local::Local;
pub use messages::RemoteMessages;
pub use peer::Peer;

/// How much of an unread answer is drained so that its connection can serve the next request. gix stops at the last flush packet;
/// what may follow is the end of the chunked framing, not content.
const DRAIN_LIMIT: u64 = 64 * 1024;

/// A list of refs, or an advertisement, longer than this is not read: 2^28 bytes hold some millions of refs.
pub(crate) const LISTING_LIMIT: u64 = 1 << 28;

/// How an `ls-refs` request begins (gitprotocol-v2, "ls-refs").
const LS_REFS: &[u8] = b"command=ls-refs";

enum Carrier {
    Http(Arc<Mutex<Session>>),
    Local(Local, Option<Box<Process>>),
}

/// A [`Session`] as a gix transport. See the module's page.
pub struct Bridge {
    carrier: Carrier,
    failure: Failure,
    url: BString,
    wanted: Protocol,
    spoken: Protocol,
    service: Option<Service>,
    prefetched: Option<Vec<u8>>,
    recording: Option<Recording>,
    listener: Listener,
    lines: Option<StreamingPeekableIter<Source>>,
    limit: u64,
    /// An answer broke off: that is the network's doing, or whose connection it was.
    broken: Arc<AtomicBool>,
}

/// The answer to an `ls-refs` request: while it is recorded, and once it is there to be given again.
#[derive(Clone)]
enum Recording {
    Running(Arc<Mutex<Vec<u8>>>),
    Done(Vec<u8>),
}

/// What a clone must know before it makes a repository.
pub(crate) struct Listing {
    /// The hash that names the remote's objects.
    pub(crate) object_hash: gix::hash::Kind,
    /// Its refs, where they were asked for.
    pub(crate) refs: Vec<gix::protocol::handshake::Ref>,
}

/// Where a [`Bridge`] leaves the session's error before it hands gix a wrapped copy of the message.
#[derive(Debug, Clone, Default)]
pub struct Failure(Arc<Mutex<Option<SessionError>>>);

impl Failure {
    /// The error of the exchange that failed, once.
    pub fn take(&self) -> Option<SessionError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, err: SessionError) -> io::Error {
        let shown = io::Error::other(ShownError(err.to_string()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(err);
        shown
    }
}

/// The message of a session's error, whose original lies in [`Failure`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ShownError(String);

impl Bridge {
    /// Speak to the repository of `peer`, a [`Session`] or [`Local`], asking for protocol version 2 (servers that don't know it
    /// answer as they can).
    pub fn new(peer: impl Into<Peer>) -> Self {
        let peer = peer.into();
        let url = peer.url().to_owned();
        Bridge {
            carrier: match peer {
                Peer::Http(session) => Carrier::Http(Arc::new(Mutex::new(*session))),
                Peer::Local(local) => Carrier::Local(local, None),
            },
            failure: Failure::default(),
            url,
            wanted: Protocol::V2,
            spoken: Protocol::V0,
            service: None,
            prefetched: None,
            recording: None,
            listener: Listener::default(),
            lines: None,
            limit: LISTING_LIMIT,
            broken: Arc::default(),
        }
    }

    /// Ask for `version` instead (`protocol.version`); a server may still answer with a lower one.
    pub fn with_protocol(mut self, version: Protocol) -> Self {
        self.wanted = version;
        self
    }

    /// Tell `messages` what the remote says on side band 2 while it prepares a pack.
    pub fn with_remote_messages(mut self, messages: RemoteMessages) -> Self {
        self.listener = Listener(Some(Arc::new(Mutex::new(messages))));
        self
    }

    /// Where the session's error is found after gix reported a failure.
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Learn the object format from the `advertisement` of a discovery already made, and the refs of branches and tags when `refs`
    /// is set. What the server said is kept and answers gix's own handshake and listing, so that no request is made twice.
    /// A repository on this machine is asked anew instead.
    pub(crate) fn listing(&mut self, advertisement: Option<Vec<u8>>, refs: bool) -> gix::error::Result<Listing> {
        use gix::protocol::{LsRefsCommand, handshake, ls_refs::RefPrefixes};
        self.prefetched.clone_from(&advertisement);
        let discard = &mut gix::progress::Discard;
        let shaken = handshake(&mut *self, Service::UploadPack, |_| Ok(None), Vec::new(), discard)?;
        self.prefetched = advertisement;
        let object_hash = object_format(&shaken.capabilities)?;
        let refs = match (refs, shaken.refs) {
            (false, _) => Vec::new(),
            (true, Some(refs)) => refs,
            (true, None) => {
                let answer = Arc::new(Mutex::new(Vec::new()));
                self.recording = Some(Recording::Running(Arc::clone(&answer)));
                let mut prefixes = RefPrefixes::new();
                prefixes.extend(["HEAD", "refs/heads/", "refs/tags/"].map(BString::from));
                let refs = LsRefsCommand::new(Some(prefixes), &shaken.capabilities, crate::ls_remote::agent())
                    .invoke_blocking(&mut *self, discard, false)?;
                let answer = std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner));
                self.recording = Some(Recording::Done(answer));
                refs
            }
        };
        Ok(Listing { object_hash, refs })
    }

    /// Make ready for another pack after one. On this machine, versions before 2 know one a conversation.
    pub(crate) fn again(&mut self, spoken: Protocol) -> gix::error::Result {
        if matches!(self.carrier, Carrier::Local(..)) && spoken != Protocol::V2 {
            let discard = &mut gix::progress::Discard;
            gix::protocol::handshake(self, Service::UploadPack, |_| Ok(None), Vec::new(), discard)?;
        }
        Ok(())
    }

    /// The pipes to the process that serves a repository on this machine: to `fresh`, or to the one that runs.
    fn converse(&mut self, fresh: Option<Process>) -> Result<&mut local::Pipes, client::Error> {
        let process = match &mut self.carrier {
            Carrier::Local(_, process) => process,
            Carrier::Http(_) => return Err(client::Error::MissingHandshake),
        };
        if fresh.is_some() {
            // One that was asked before has said all it had to say.
            *process = fresh.map(Box::new);
        }
        process
            .as_mut()
            .and_then(|process| process.connection.as_mut())
            .ok_or(client::Error::MissingHandshake)
    }

    fn drain_previous(&mut self) -> io::Result<()> {
        if let Some(lines) = &mut self.lines {
            let previous = lines.replace(Source::Spent);
            if !matches!(&previous, Source::Reading { may_be_left: true, .. }) {
                io::copy(&mut previous.take(DRAIN_LIMIT), &mut io::sink())?;
            }
        }
        Ok(())
    }

    /// The value of the `git-protocol` header for `version` (gitprotocol-v2, "Initial Client Request").
    pub(crate) fn protocol_header(version: Protocol) -> Option<&'static str> {
        match version {
            Protocol::V0 => None,
            Protocol::V1 => Some("version=1"),
            Protocol::V2 => Some("version=2"),
        }
    }
}

/// The hash that names the server's objects. One that doesn't say uses SHA-1 (gitprotocol-capabilities, "object-format").
pub(crate) fn object_format(capabilities: &client::Capabilities) -> gix::error::Result<gix::hash::Kind> {
    match capabilities
        .capability("object-format")
        .and_then(|format| format.value())
    {
        None => Ok(gix::hash::Kind::Sha1),
        Some(name) => name.to_str_lossy().parse().map_err(|_| {
            gix::error::message!(
                "the server names objects by '{}', which is not known here",
                name.as_bstr()
            )
            .into()
        }),
    }
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge")
            .field("url", &self.url)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    // A panic elsewhere leaves a session that is still able to make requests; its next answer tells.
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

fn session_service(service: Service) -> rgit_smart_http::Service {
    match service {
        Service::UploadPack => rgit_smart_http::Service::UploadPack,
        Service::ReceivePack => rgit_smart_http::Service::ReceivePack,
    }
}

impl TransportWithoutIO for Bridge {
    fn to_url(&self) -> Cow<'_, BStr> {
        Cow::Borrowed(self.url.as_bstr())
    }

    fn connection_persists_across_multiple_requests(&self) -> bool {
        // Smart HTTP is stateless: each request repeats what it needs (gitprotocol-http).
        matches!(self.carrier, Carrier::Local(..))
    }

    fn configure(&mut self, _config: &dyn Any) -> gix::error::Result {
        Ok(())
    }
}

impl Transport for Bridge {
    fn handshake<'a>(
        &mut self,
        service: Service,
        extra_parameters: &'a [(&'a str, Option<&'a str>)],
    ) -> Result<SetServiceResponse<'_>, client::Error> {
        let session = match &self.carrier {
            Carrier::Http(session) => Arc::clone(session),
            Carrier::Local(local, _) => {
                let process = local.start(self.wanted)?;
                return self.converse(Some(process))?.handshake(service, extra_parameters);
            }
        };
        let source = match self.prefetched.take() {
            Some(bytes) => Source::reading(io::Cursor::new(bytes), None),
            None => {
                let header = header_with(self.wanted, extra_parameters);
                let discovery = lock(&session)
                    .discover(session_service(service), header.as_deref())
                    .map_err(|err| client::Error::Io(self.failure.keep(err)))?;
                let wire = discovery.wire;
                Source::reading(Capped::new(discovery, self.limit), wire)
            }
        };
        self.drain_previous()?;
        self.service = Some(service);
        let lines = self
            .lines
            .insert(StreamingPeekableIter::new(source, &[PacketLineRef::Flush], false));

        // Smart HTTP may announce the service first, followed by a flush (gitprotocol-http, "Smart Server Response").
        let first = lines
            .peek_line()
            .ok_or(client::Error::ExpectedLine("capabilities, version or service"))???;
        let first = first.as_text().ok_or(client::Error::ExpectedLine("text"))?;
        if first.as_bstr().starts_with(b"# service=") {
            io::copy(&mut lines.as_read(), &mut io::sink())?;
        }
        // Version 1 is version 0 with this line in front (protocol-v1 in gitprotocol-pack); gix doesn't know it.
        let versioned = match lines.peek_line() {
            Some(line) => line??.as_text().is_some_and(|text| text.as_bstr() == "version 1"),
            None => false,
        };
        if versioned {
            lines.read_line();
        }
        let Handshake {
            capabilities,
            refs,
            protocol,
        } = Handshake::from_lines_with_version_detection(lines)?;
        self.spoken = protocol;
        Ok(SetServiceResponse {
            actual_protocol: protocol,
            capabilities,
            refs,
        })
    }

    fn request(
        &mut self,
        write_mode: WriteMode,
        on_into_read: MessageKind,
        trace: bool,
    ) -> Result<RequestWriter<'_>, client::Error> {
        let session = match &self.carrier {
            Carrier::Http(session) => Arc::clone(session),
            Carrier::Local(..) => {
                let listener = self.listener.clone();
                let connection = self.converse(None)?;
                let (writer, inner) = connection.request(write_mode, on_into_read, trace)?.into_parts();
                return Ok(RequestWriter::new_from_bufread(
                    writer,
                    Box::new(Overheard { inner, listener }),
                    write_mode,
                    on_into_read,
                    trace,
                ));
            }
        };
        let service = self.service.ok_or(client::Error::MissingHandshake)?;
        self.drain_previous()?;
        let lines = self.lines.as_mut().ok_or(client::Error::MissingHandshake)?;

        let request = Arc::new(Mutex::new(Vec::new()));
        lines.replace(Source::Unsent {
            request: Arc::clone(&request),
            session,
            failure: self.failure.clone(),
            service: session_service(service),
            protocol: (self.spoken == Protocol::V2).then_some("version=2"),
            recording: self.recording.clone(),
            limit: self.limit,
            broken: Arc::clone(&self.broken),
        });
        Ok(RequestWriter::new_from_bufread(
            RequestBuffer(request),
            Box::new(Overheard {
                inner: lines.as_read_without_sidebands(),
                listener: self.listener.clone(),
            }),
            write_mode,
            on_into_read,
            trace,
        ))
    }
}

fn header_with(version: Protocol, extra: &[(&str, Option<&str>)]) -> Option<String> {
    let mut header = Bridge::protocol_header(version).unwrap_or_default().to_owned();
    for (key, value) in extra {
        if !header.is_empty() {
            header.push(':');
        }
        header.push_str(key);
        if let Some(value) = value {
            header.push('=');
            header.push_str(value);
        }
    }
    (!header.is_empty()).then_some(header)
}

/// What gix writes before it starts to read. Fetch requests are wants and haves: small, and needed whole for a replay after a 401.
struct RequestBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for RequestBuffer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where packet lines come from. The POST is made by the first read, when the request is complete.
enum Source {
    Reading {
        reader: Box<dyn Read + Send>,
        /// Once gix has read the last packet, no need to wait for the end of the framing: HTTP/1.1 does that with the next answer, and so
        /// spares a round trip where a server sends the last chunk by itself. To leave an HTTP/2 stream would be to reset it.
        may_be_left: bool,
    },
    Unsent {
        request: Arc<Mutex<Vec<u8>>>,
        session: Arc<Mutex<Session>>,
        failure: Failure,
        service: rgit_smart_http::Service,
        protocol: Option<&'static str>,
        recording: Option<Recording>,
        limit: u64,
        broken: Arc<AtomicBool>,
    },
    Spent,
}

impl Source {
    fn reading(reader: impl Read + Send + 'static, wire: Option<Wire>) -> Source {
        Source::Reading {
            reader: Box::new(reader),
            may_be_left: wire.is_some_and(|wire| wire.is_http11()),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if let Source::Unsent { .. } = self {
            let Source::Unsent {
                request,
                session,
                failure,
                service,
                protocol,
                recording,
                limit,
                broken,
            } = std::mem::replace(self, Source::Spent)
            else {
                return Ok(0);
            };
            let body = std::mem::take(&mut *request.lock().unwrap_or_else(PoisonError::into_inner));
            if body.is_empty() {
                // Drained before anything was asked, so there is nothing to read either.
                return Ok(0);
            }
            let lists_refs = body.find(LS_REFS).is_some();
            *self = match recording {
                Some(Recording::Done(answer)) if lists_refs => Source::reading(io::Cursor::new(answer), None),
                recording => {
                    let reply = lock(&session)
                        .post(service, protocol, Body::full(body))
                        .map_err(|err| failure.keep(err))?;
                    let wire = reply.wire;
                    // gix keeps every ref it is told of; a pack is as long as it is.
                    let reply = doubt::Watched { reply, broken };
                    let reply = Capped::new(reply, if lists_refs { limit } else { u64::MAX });
                    match recording {
                        Some(Recording::Running(copy)) => Source::reading(Tee { reply, copy }, wire),
                        _ => Source::reading(reply, wire),
                    }
                }
            };
        }
        match self {
            Source::Reading { reader, .. } => reader.read(buf),
            _ => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use rgit_smart_http::{NoCredentials, Options};
    use rgit_transport::{Answer, Error};

    use super::*;

    /// Answers each request with a beginning of its kind, and then the same line for ever.
    #[derive(Debug)]
    struct Endless {
        advertisement: String,
        again: String,
    }

    /// `line` over and over.
    struct Again(String, usize);

    impl Read for Again {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            for (byte, at) in buf.iter_mut().zip(self.1..) {
                *byte = self.0.as_bytes()[at % self.0.len()];
            }
            self.1 += buf.len();
            Ok(buf.len())
        }
    }

    impl rgit_transport::Transport for Endless {
        fn exchange(&self, request: http::Request<Body<'_>>) -> Result<http::Response<Answer>, Error> {
            let again = Again(self.again.clone(), 0);
            let (kind, body) = match *request.method() {
                http::Method::GET => (
                    "advertisement",
                    Answer::new(io::Cursor::new(self.advertisement.clone()).chain(again)),
                ),
                _ => ("result", Answer::new(again)),
            };
            let kind = format!("application/x-git-upload-pack-{kind}");
            let response = http::Response::builder().header("content-type", kind);
            Ok(response.body(body).unwrap())
        }
    }

    #[test]
    fn lists_of_refs_without_end_are_given_up() {
        let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
        let reference = line(&format!("{} refs/heads/x\n", "1".repeat(40)));
        let first = line(&format!("{} HEAD\0agent=git/x\n", "1".repeat(40)));
        let two = line("version 2\n");
        let listing = [&two, &line("ls-refs\n"), "0000"].concat();
        for (advertisement, again) in [
            // In the banner, among the refs of version 0, among the capabilities of version 2, and in the listing itself.
            (line("# service=git-upload-pack\n"), &reference),
            (first, &reference),
            (two.clone(), &line("agent\n")),
            (listing, &reference),
        ] {
            let shown = advertisement.clone();
            let transport = Arc::new(Endless {
                advertisement,
                again: again.clone(),
            });
            let session = Session::new(transport, "http://h/r", Options::default(), Box::new(NoCredentials)).unwrap();
            let mut bridge = Bridge::new(session);
            bridge.limit = 100_000;
            let discard = &mut gix::progress::Discard;
            let shaken = gix::protocol::handshake(&mut bridge, Service::UploadPack, |_| Ok(None), Vec::new(), discard);
            let err = match shaken {
                Err(err) => err,
                Ok(shaken) => gix::protocol::LsRefsCommand::new(None, &shaken.capabilities, crate::ls_remote::agent())
                    .invoke_blocking(&mut bridge, discard, false)
                    .unwrap_err(),
            };
            let said = format!("{err:?}");
            assert!(said.contains("longer than 100000 bytes"), "{shown:?}: {said}");
        }
    }

    #[test]
    fn extra_parameters_join_the_version_by_colons() {
        assert_eq!(header_with(Protocol::V2, &[]).as_deref(), Some("version=2"));
        assert_eq!(
            header_with(Protocol::V2, &[("a", None), ("b", Some("c"))]).as_deref(),
            Some("version=2:a:b=c")
        );
        assert_eq!(header_with(Protocol::V0, &[]), None);
        assert_eq!(header_with(Protocol::V0, &[("a", Some("b"))]).as_deref(), Some("a=b"));
    }
}

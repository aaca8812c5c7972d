//! [`GitServer`]: a real `git http-backend` behind HTTP/1.1 and HTTP/2, plain or over TLS, with the knobs of real edges.
//!
//! Owns the listener, its runtime, the connections and the order in which a request meets the rules
//! ([`GitServer::respond`]), authentication ([`Builder::auth`]) and the backend. Git's own answers are passed on as they
//! are; nothing here knows a pkt-line.

use std::{
    env, fmt, fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use tokio::{runtime::Runtime, sync::watch};

use crate::{
    backend::Backend,
    certificate::Authority,
    listener::Listener,
    reply::{Respond, Rest, Rule, When},
    repository::{Git, ObjectFormat},
    requests::{Connection, Living, Log, Request},
    service::Service,
    tally::Frames,
};

/// Names a server's certificate is good for, unless [`Builder::names`] says otherwise.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];
/// How long dropping a server waits for its children and connections, each told to end beforehand.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directories for the server could not be made.
    #[error("could not make the server's directories; is the temporary directory writable?")]
    Files(#[source] io::Error),
    /// `git --exec-path` failed, or there is no `git-http-backend` in that directory.
    #[error("found no git-http-backend ({tried}); install git with its http-backend")]
    NoBackend {
        /// What was tried.
        tried: String,
    },
    /// The listener on loopback, or the threads behind it, could not be made.
    #[error("could not listen on 127.0.0.1")]
    Listen(#[source] io::Error),
}

/// Which protocols a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocols {
    /// HTTP/1.1 only.
    H1,
    /// HTTP/2 only: by ALPN over TLS, with prior knowledge on a plain connection.
    H2,
    /// Both: by ALPN (h2 preferred) over TLS; told apart by the client's first bytes otherwise.
    #[default]
    Both,
    /// HTTP/1.1 only, and the TLS server has never heard of ALPN.
    H1WithoutAlpn,
}

/// Which requests need the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Every request.
    All,
    /// POSTs only: a client that was let in at discovery meets 401 with a body in its hands.
    PostOnly,
    /// Everything about `git-receive-pack`, discovery included: a public repository.
    PushOnly,
}

/// Who may pass.
#[derive(Clone)]
pub(crate) struct Auth {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) scope: Scope,
    pub(crate) realm: String,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth")
            .field("user", &self.user)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// What a server does with a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeepAlive {
    /// Keeps it.
    #[default]
    On,
    /// HTTP/1.1 only: closes it after each answer, and says so (`Connection: close`).
    Off,
    /// Closes it when no exchange has been in flight for so long, without having said so. Zero is right after an answer.
    Idle(Duration),
}

/// The settings that connections and requests look at.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) protocols: Protocols,
    pub(crate) keep_alive: KeepAlive,
    pub(crate) auth: Option<Auth>,
    pub(crate) headers: Vec<(http::HeaderName, http::HeaderValue)>,
    pub(crate) rest: Rest,
    pub(crate) abrupt: bool,
    pub(crate) window: Option<u32>,
    pub(crate) connection_window: Option<u32>,
    pub(crate) frame_size: Option<u32>,
    pub(crate) streams: Option<u32>,
}

/// How a [`GitServer`] is to be: plain HTTP, both protocols, no password, unless told otherwise.
#[derive(Debug)]
#[must_use = "a server starts with `start`"]
pub struct Builder {
    settings: Settings,
    tls: Option<Arc<rustls::ServerConfig>>,
    realm: String,
    root: Option<PathBuf>,
    threads: usize,
    hold_head: bool,
    place: Ipv4Addr,
}

impl Builder {
    /// TLS with a certificate of `authority` for `127.0.0.1` and `localhost`.
    pub fn tls(self, authority: &Authority) -> Self {
        self.tls_config(authority.server_config(&NAMES, &[]))
    }

    /// TLS with this certificate: other names, an expired one, anything. Its ALPN names are replaced by those of
    /// [`Builder::protocols`].
    pub fn tls_config(mut self, config: Arc<rustls::ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Which protocols the server speaks; both without this.
    pub fn protocols(mut self, protocols: Protocols) -> Self {
        self.settings.protocols = protocols;
        self
    }

    /// Basic authentication (RFC 7617) for the requests in `scope`. The backend gets the user as `REMOTE_USER`.
    pub fn auth(mut self, user: &str, password: &str, scope: Scope) -> Self {
        self.settings.auth = Some(Auth {
            user: user.to_owned(),
            password: password.to_owned(),
            scope,
            realm: String::new(),
        });
        self
    }

    /// The realm that a 401 names; `rgit test` without this.
    pub fn realm(mut self, realm: &str) -> Self {
        self.realm = realm.to_owned();
        self
    }

    /// HTTP/2: SETTINGS_INITIAL_WINDOW_SIZE, how much of a request body a client may send ahead on each stream.
    /// Without this 65,535 bytes, the protocol's default and Apache's.
    pub fn window(mut self, bytes: u32) -> Self {
        self.settings.window = Some(bytes);
        self
    }

    /// HTTP/2: the receive window of the whole connection. The protocol allows no less than 65,535 bytes; that is the
    /// default unless [`Builder::window`] is larger, then it is the same as that.
    pub fn connection_window(mut self, bytes: u32) -> Self {
        self.settings.connection_window = Some(bytes);
        self
    }

    /// HTTP/2: SETTINGS_MAX_FRAME_SIZE, 16,384 (the default) to 16,777,215 bytes.
    pub fn frame_size(mut self, bytes: u32) -> Self {
        self.settings.frame_size = Some(bytes);
        self
    }

    /// HTTP/2: SETTINGS_MAX_CONCURRENT_STREAMS; 200 without this.
    pub fn streams(mut self, streams: u32) -> Self {
        self.settings.streams = Some(streams);
        self
    }

    /// What becomes of a connection after an answer.
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> Self {
        self.settings.keep_alive = keep_alive;
        self
    }

    /// What becomes of a request body that is not wanted when the answer is there; [`Rest::Drain`] without this.
    pub fn rest(mut self, rest: Rest) -> Self {
        self.settings.rest = rest;
        self
    }

    /// Closes connections without the lingering that saves an early answer from the reset that follows it.
    pub fn abrupt(mut self) -> Self {
        self.settings.abrupt = true;
        self
    }

    /// A header field on every answer, in place of the backend's of this name.
    ///
    /// # Panics
    /// When name or value can't stand in a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = http::HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        self.settings
            .headers
            .push((name, http::HeaderValue::from_str(value).expect("a header value")));
        self
    }

    /// Serves the repositories in this directory, which is left alone when the server goes. A temporary one without this.
    pub fn root(mut self, root: &Path) -> Self {
        self.root = Some(root.to_owned());
        self
    }

    /// Listens on this address of the machine, or of the network namespace that `start` is called in; on loopback without this.
    pub fn listen(mut self, place: Ipv4Addr) -> Self {
        self.place = place;
        self
    }

    /// Threads that move the bytes; 2 without this.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Holds an answer back until the request's body was read to its end, as common CGI set-ups do in effect. Without this
    /// it goes out as soon as `git http-backend` has written its head, which it does before it reads a pack; nginx as a proxy then
    /// sends nothing more of that pack.
    pub fn hold_head(mut self) -> Self {
        self.hold_head = true;
        self
    }

    /// Starts the server: when this returns, it accepts connections.
    ///
    /// # Errors
    /// Without git-http-backend, temporary files, or a port on loopback.
    pub fn start(self) -> Result<GitServer, Error> {
        let program = find_backend()?;
        let files = tempfile::tempdir().map_err(Error::Files)?;
        let home = files.path().join("home");
        let git = Git::at(&home).map_err(Error::Files)?;
        let root = self.root.unwrap_or_else(|| files.path().join("repositories"));
        fs::create_dir_all(&root).map_err(Error::Files)?;
        let root = root.canonicalize().map_err(Error::Files)?;

        let mut settings = self.settings;
        if let Some(auth) = &mut settings.auth {
            auth.realm = self.realm;
        }
        let listener = TcpListener::bind((self.place, 0)).map_err(Error::Listen)?;
        listener.set_nonblocking(true).map_err(Error::Listen)?;
        let address = listener.local_addr().map_err(Error::Listen)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads.max(1))
            .thread_name("git-server")
            .enable_all()
            .build()
            .map_err(Error::Listen)?;

        let ending = watch::Sender::new(false);
        let log = Arc::new(Log::default());
        let children = Arc::new(Living::default());
        let living = Arc::new(Living::default());
        let backend = Backend {
            program,
            root: root.clone(),
            home,
            path: env::var_os("PATH").unwrap_or_default(),
            hold_head: self.hold_head,
            log: log.clone(),
            children: children.clone(),
            ending: ending.subscribe(),
        };
        let secure = self.tls.is_some();
        let service = Arc::new(Service::new(settings, backend, log.clone()));
        let tls = self
            .tls
            .map(|config| Listener::acceptor(&config, service.settings.protocols));
        let listening = Listener {
            service: service.clone(),
            tls,
            living: living.clone(),
            ending: ending.subscribe(),
        };
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(Error::Listen)?
        };
        runtime.spawn(listening.run(listener));
        let runtime = Some(runtime);
        Ok(GitServer {
            address,
            secure,
            root,
            git,
            service,
            log,
            children,
            living,
            ending,
            runtime,
            _files: files,
        })
    }
}

/// A running server. Dropping it closes its port and connections, ends and reaps its children, and removes its files.
#[derive(Debug)]
pub struct GitServer {
    address: SocketAddr,
    secure: bool,
    root: PathBuf,
    git: Git,
    service: Arc<Service>,
    log: Arc<Log>,
    children: Arc<Living>,
    living: Arc<Living>,
    ending: watch::Sender<bool>,
    runtime: Option<Runtime>,
    _files: tempfile::TempDir,
}

impl GitServer {
    /// A server to be configured.
    pub fn builder() -> Builder {
        Builder {
            settings: Settings::default(),
            tls: None,
            realm: "rgit test".to_owned(),
            root: None,
            threads: 2,
            place: Ipv4Addr::LOCALHOST,
            hold_head: false,
        }
    }

    /// A plain HTTP server that lets everyone read and write.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn start() -> Result<GitServer, Error> {
        GitServer::builder().start()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT` or the same with https: no slash at the end.
    pub fn base_url(&self) -> String {
        self.base_url_at("127.0.0.1", self.address.port())
    }

    /// The base URL with another host name or port: `localhost`, or a relay's port.
    pub fn base_url_at(&self, host: &str, port: u16) -> String {
        format!("{}://{host}:{port}", if self.secure { "https" } else { "http" })
    }

    /// The URL of a repository made by [`GitServer::create`].
    pub fn url(&self, repository: &str) -> String {
        format!("{}/{repository}", self.base_url())
    }

    /// The directory whose bare repositories are served.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Git as the server's own user: for looking into the repositories it serves.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Makes a bare repository that takes pushes, with further settings (`("receive.denyDeletes", "true")`).
    ///
    /// # Panics
    /// When git fails.
    pub fn create(&self, name: &str, configuration: &[(&str, &str)]) -> PathBuf {
        self.create_as(name, ObjectFormat::Sha1, configuration)
    }

    /// As [`GitServer::create`], in this object format.
    ///
    /// # Panics
    /// When git fails.
    pub fn create_as(&self, name: &str, format: ObjectFormat, configuration: &[(&str, &str)]) -> PathBuf {
        let path = self.root.join(name);
        self.git.init_bare(&path, format);
        self.git.git(&path, ["config", "http.receivepack", "true"]);
        for (key, value) in configuration {
            self.git.git(&path, ["config", key, value]);
        }
        path
    }

    /// Answers requests that fit `when` by `respond`: a [`crate::reply::Reply`], or a closure that makes one. Of several rules that fit,
    /// the one set first speaks. Rules go before authentication.
    pub fn respond(&self, when: When, respond: impl Respond) {
        self.service.add(Rule::new(when, Arc::new(respond)));
    }

    /// Forgets all rules.
    pub fn clear_rules(&self) {
        self.service.clear();
    }

    /// Every request since the start, or since the log was cleared, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.log.requests()
    }

    /// Every accepted TCP connection since the start, or since the log was cleared.
    pub fn connections(&self) -> Vec<Connection> {
        self.log.connections()
    }

    /// DATA frames of HTTP/2 since the start, over all connections: those received, and those sent.
    pub fn data_frames(&self) -> (Frames, Frames) {
        (self.log.tally.received.frames(), self.log.tally.sent.frames())
    }

    /// Empties [`GitServer::requests`], [`GitServer::connections`] and [`GitServer::stderr`].
    pub fn clear_log(&self) {
        self.log.clear();
    }

    /// The last 64 KiB that the backend's processes wrote to stderr.
    pub fn stderr(&self) -> String {
        self.log.stderr()
    }

    /// How many backend processes are running now.
    pub fn children(&self) -> usize {
        self.children.count()
    }

    /// Blocks until no backend process is running; `false` when `patience` ran out first.
    pub fn wait_for_children(&self, patience: Duration) -> bool {
        self.children.wait(patience)
    }

    /// How many connections are open now, those included that wait for the client's close.
    pub fn open_connections(&self) -> usize {
        // The accept loop is one of the living.
        self.living.count().saturating_sub(1)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        self.living.wait(PATIENCE);
        self.children.wait(PATIENCE);
        if let Some(runtime) = self.runtime.take() {
            // Nothing is left to wait for; the blocking kind of shutdown would panic inside an async test.
            runtime.shutdown_background();
        }
    }
}

/// `git-http-backend` in git's own directory: it is not on PATH.
fn find_backend() -> Result<PathBuf, Error> {
    let output = Command::new("git")
        .arg("--exec-path")
        .output()
        .map_err(|error| Error::NoBackend {
            tried: format!("git --exec-path: {error}"),
        })?;
    let directory = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let program = Path::new(&directory).join("git-http-backend");
    if program.is_file() {
        Ok(program)
    } else {
        Err(Error::NoBackend {
            tried: program.display().to_string(),
        })
    }
}

//! What a caller may choose: the service, and the options git reads from `http.*`. Reading configuration is the caller's work.

/// Which of git's services is asked for (gitprotocol-http(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Service {
    /// Fetching.
    UploadPack,
    /// Pushing.
    ReceivePack,
}

impl Service {
    /// The name in URLs and content types: `git-upload-pack` or `git-receive-pack`.
    pub fn as_str(self) -> &'static str {
        match self {
            Service::UploadPack => "git-upload-pack",
            Service::ReceivePack => "git-receive-pack",
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `http.followRedirects`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FollowRedirects {
    /// Only those of the discovery request; they move the base of all later requests. Git's default.
    #[default]
    Initial,
    /// Those of posts too, as long as the body can be sent again.
    Always,
    /// None: a redirect is an error that names its target.
    Never,
}

/// How a session speaks to its server.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The `user-agent` header (`http.userAgent`). Must begin with `git/`: servers and proxies choose the smart protocol by it.
    pub agent: String,
    /// `http.extraHeader` lines as configured, in order: `Name: value`, `Name:` (leave this header out), `Name;` (send it empty).
    ///
    /// Sent only to the origin of the session's first URL. The list's resets (an empty value) are the configuration reader's work;
    /// empty lines are skipped. Values never show in errors or traces.
    pub extra_headers: Vec<String>,
    /// `http.postBuffer`: a body of at most so many bytes goes out with `content-length`, a larger one chunked. Default 1 MiB.
    pub post_buffer: u64,
    /// `http.followRedirects`.
    pub follow_redirects: FollowRedirects,
    /// The `accept-language` header, if any.
    pub accept_language: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            agent: concat!("git/2.47.0 rgit/", env!("CARGO_PKG_VERSION")).into(),
            extra_headers: Vec::new(),
            post_buffer: 1 << 20,
            follow_redirects: FollowRedirects::Initial,
            accept_language: None,
        }
    }
}

impl std::fmt::Debug for Options {
    /// Extra headers commonly carry tokens: only their number shows.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("agent", &self.agent)
            .field("extra_headers", &self.extra_headers.len())
            .field("post_buffer", &self.post_buffer)
            .field("follow_redirects", &self.follow_redirects)
            .field("accept_language", &self.accept_language)
            .finish()
    }
}

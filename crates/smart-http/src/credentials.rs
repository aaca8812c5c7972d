//! Who gives and keeps credentials: the trait, and the nouns it speaks of, which are those of git-credential(1).

use bstr::{BStr, BString, ByteSlice};

use crate::secret::Secret;

/// What credentials are wanted for.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CredentialRequest {
    /// `http` or `https`.
    pub protocol: String,
    /// Host, with the port where the URL has one.
    pub host: String,
    /// The repository's path, decoded. Always given: git drops it unless `credential.useHttpPath` says otherwise.
    pub path: Option<BString>,
    /// The user name, where the URL has one.
    pub username: Option<BString>,
    /// The `www-authenticate` headers of the answer that asks, in order.
    pub wwwauth: Vec<BString>,
}

impl CredentialRequest {
    /// A request for `protocol://host`.
    pub fn new(protocol: impl Into<String>, host: impl Into<String>) -> Self {
        CredentialRequest {
            protocol: protocol.into(),
            host: host.into(),
            path: None,
            username: None,
            wwwauth: Vec::new(),
        }
    }
}

impl std::fmt::Debug for CredentialRequest {
    /// Without the user name: it is the place where tokens are put.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialRequest")
            .field("protocol", &self.protocol)
            .field("host", &self.host)
            .field("path", &self.path)
            .field("username", &self.username.as_ref().map(|_| "<redacted>"))
            .field("wwwauth", &self.wwwauth)
            .finish()
    }
}

/// A user name and password, and what else the helper wants to hear again. Shows nothing; zeroed on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    username: Secret,
    password: Secret,
    extra: Vec<Secret>,
}

impl Identity {
    /// Credentials for Basic authentication.
    pub fn new(username: impl Into<Vec<u8>>, password: impl Into<Vec<u8>>) -> Self {
        Identity {
            username: Secret::new(username),
            password: Secret::new(password),
            extra: Vec::new(),
        }
    }

    /// Add a raw `key=value` line that a helper gave beside these, to be echoed in `approve` and `reject`.
    #[must_use]
    pub fn with_line(mut self, line: impl Into<Vec<u8>>) -> Self {
        self.extra.push(Secret::new(line));
        self
    }

    /// The user name. Often a token: treat it as a secret too.
    pub fn username(&self) -> &BStr {
        self.username.expose().as_bstr()
    }

    /// The password.
    pub fn password(&self) -> &BStr {
        self.password.expose().as_bstr()
    }

    /// The helper's other lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = &BStr> {
        self.extra.iter().map(|line| line.expose().as_bstr())
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity { .. }")
    }
}

/// Gives credentials, and learns what became of them.
pub trait Credentials: Send {
    /// Credentials for `request`, or `None` when there are none to be had (the user declined, a helper said quit).
    ///
    /// # Errors
    /// When nobody could be asked.
    fn fill(&mut self, request: &CredentialRequest) -> Result<Option<Identity>, CredentialsError>;

    /// The server took `identity`: it may be stored.
    fn approve(&mut self, request: &CredentialRequest, identity: &Identity);

    /// The server refused `identity`: it must be forgotten.
    fn reject(&mut self, request: &CredentialRequest, identity: &Identity);
}

/// Has none, and keeps none: only what stands in the URL is used.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl Credentials for NoCredentials {
    fn fill(&mut self, _request: &CredentialRequest) -> Result<Option<Identity>, CredentialsError> {
        Ok(None)
    }

    fn approve(&mut self, _request: &CredentialRequest, _identity: &Identity) {}

    fn reject(&mut self, _request: &CredentialRequest, _identity: &Identity) {}
}

/// Why credentials could not be asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// `git credential` can't be run.
    #[error("'{program}' could not be run to ask git's credential helpers; is git installed and on PATH?")]
    Spawn {
        /// What was to be run.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Talking with `git credential` broke off.
    #[error("the dialogue with 'git credential' broke off")]
    Dialogue(#[from] std::io::Error),
    /// A value can't be put into git's line protocol without becoming another line.
    #[error(
        "the {key} holds a line break or NUL, which git's credential protocol can't carry; refusing to ask for credentials"
    )]
    UnsafeValue {
        /// Which value.
        key: &'static str,
    },
    /// `git credential` answered something else than credentials.
    #[error("'git credential' gave an answer that can't be used: {reason}")]
    Answer {
        /// What is wrong with it; holds no part of it.
        reason: &'static str,
    },
}

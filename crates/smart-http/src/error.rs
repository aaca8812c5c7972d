//! Why a session could not do what was asked. URLs here never hold a user or password; remote text is masked and bounded.

use crate::{CredentialsError, Service};

/// Errors of a [`Session`](crate::Session).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL can't be parsed, or can't be sent as it is.
    #[error("'{url}' is no URL that can be asked: {reason}")]
    InvalidUrl {
        /// The URL, without user and password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL belongs to another transport of git's.
    #[error(
        "'{url}' needs git's {scheme} transport: only http:// and https:// URLs are carried here; use git itself for this one, \
         or the repository's https:// URL"
    )]
    UnsupportedScheme {
        /// `ssh`, `git`, `file` (for paths) or whatever the URL says.
        scheme: String,
        /// The URL, without user and password.
        url: String,
    },
    /// A header from the options can't be sent.
    #[error("the header '{name}' can't be sent: {reason}")]
    InvalidHeader {
        /// Its name; never its value.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No answer arrived.
    #[error(transparent)]
    Transport(#[from] rgit_transport::Error),
    /// The answer's body broke off while its beginning was read.
    #[error("the answer of '{url}' broke off")]
    Answer {
        /// What was asked.
        url: String,
        /// What was seen.
        source: std::io::Error,
    },
    /// The request's own body could not be read.
    #[error("the body to be sent to '{url}' could not be read")]
    Body {
        /// Where it was to be sent.
        url: String,
        /// What its reader said.
        source: std::io::Error,
    },
    /// The server refused.
    #[error(
        "unable to access '{url}': the server answered {} to {method}{}{}",
        status(*code),
        text.as_ref().map(|text| format!(": {text}")).unwrap_or_default(),
        hint(*code, method)
    )]
    Status {
        /// The HTTP status.
        code: u16,
        /// `GET` (discovery) or `POST`.
        method: &'static str,
        /// What was asked.
        url: String,
        /// What the server said, if it said it in `text/plain`: lines joined by newlines, control characters masked, bounded.
        text: Option<String>,
    },
    /// Something answered that does not speak smart HTTP.
    #[error("'{url}' did not answer as a Git server does: {reason}")]
    NotGit {
        /// What was asked.
        url: String,
        /// The service asked for.
        service: Service,
        /// The content type that came, masked.
        content_type: Option<String>,
        /// What was expected, what came, and what to check.
        reason: String,
    },
    /// The server wants to know who asks, and could not be satisfied.
    #[error("Authentication failed for '{url}': {reason}")]
    Authentication {
        /// What was asked.
        url: String,
        /// Why.
        reason: Unauthenticated,
    },
    /// A redirect that can't or may not be followed.
    #[error("'{from}' redirects{}: {reason}", to.as_ref().map(|to| format!(" to '{to}'")).unwrap_or_default())]
    Redirect {
        /// What was asked.
        from: String,
        /// Where the server points, masked, without user and password.
        to: Option<String>,
        /// Why it wasn't followed.
        reason: String,
    },
    /// The credential helper could not be asked.
    #[error("no credentials for '{url}'")]
    Credentials {
        /// What was asked.
        url: String,
        /// What went wrong.
        source: CredentialsError,
    },
}

/// Why the server's 401 could not be answered, or was not satisfied by the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// The credentials sent were refused; the helper was told to forget them.
    #[error("the server refused the user name and password")]
    Refused,
    /// Neither the URL nor a helper nor the user gave any.
    #[error(
        "the server asks for a user name and password, and none were given; configure a credential helper, or run on a terminal"
    )]
    NoCredentials,
    /// The server takes none of the schemes that can be spoken.
    #[error("only Basic authentication can be given, and the server {}", match offered.as_slice() {
        [] => "names no scheme at all".to_owned(),
        offered => format!("offers {}", offered.join(", ")),
    })]
    NoBasic {
        /// What it offers, masked.
        offered: Vec<String>,
    },
    /// Credentials are at hand, but the body was read once already.
    #[error(
        "the server asked for credentials after it had taken part of a body that can't be sent twice; try again with credentials in place"
    )]
    BodySpent,
}

impl Error {
    /// Whether the server answered, but not as one does that offers what was asked for: it refused for another reason than who asks and how
    /// often, or spoke of something else.
    pub fn is_contradiction(&self) -> bool {
        match self {
            Error::Status { code, .. } => matches!(code, 400..=499 | 501) && ![401, 403, 407, 408, 429].contains(code),
            Error::NotGit { .. } => true,
            _ => false,
        }
    }
}

fn status(code: u16) -> String {
    match http::StatusCode::from_u16(code)
        .ok()
        .and_then(|status| status.canonical_reason())
    {
        Some(reason) => format!("{code} {reason}"),
        None => code.to_string(),
    }
}

fn hint(code: u16, method: &str) -> &'static str {
    match code {
        403 => " (known to the server, and not allowed: check the account's rights)",
        404 | 410 => " (no such repository here: check the URL; some servers hide private repositories this way)",
        407 => " (the proxy on the way wants credentials)",
        411 if method == "POST" => {
            " (the server does not take chunked bodies: raise http.postBuffer above the size of the push)"
        }
        413 => {
            " (the body is larger than the server or a proxy before it allows: its limit must be raised there, \
                client_max_body_size in nginx)"
        }
        429 => " (too many requests: try again later)",
        500..=599 => " (a failure on the server's side: try again later, or look into its log)",
        _ => "",
    }
}

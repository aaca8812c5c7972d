use std::path::PathBuf;

use bstr::BString;

/// Why a push did not come to an outcome. Nothing was changed locally.
///
/// Texts follow git's, so that a caller prints them behind `fatal: ` (or `error: ` for [`Error::is_refusal`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options that exclude each other.
    #[error("{0}")]
    Usage(String),
    /// A refspec that can't be one.
    #[error("invalid refspec '{0}'")]
    InvalidRefspec(BString),
    /// Refspecs that fit nothing, or too much; each is told in a [`Complaint`].
    #[error("{}", .0.iter().map(|complaint| complaint.text.as_str()).collect::<Vec<_>>().join("\n"))]
    Unmatched(Vec<Complaint>),
    /// A source that is no ref was given without saying where it goes.
    #[error("{0} cannot be resolved to branch")]
    NoBranch(BString),
    /// `push.default` or what it needs is missing or contradictory; the text says what to do.
    #[error("{0}")]
    NoDefault(String),
    /// The object that `--force-with-lease` expects can't be told from its name.
    #[error("cannot parse expected object name '{0}'")]
    BadExpectation(BString),
    /// The hook said no. Its own output went to the terminal.
    #[error("the pre-push hook at {} declined the push ({status})", path.display())]
    HookDeclined {
        /// Where it is.
        path: PathBuf,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// The hook could not be run.
    #[error("cannot run the pre-push hook at {}", path.display())]
    Hook {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The local repository could not be read or written.
    #[error("{doing} failed in the local repository")]
    Repository {
        /// What was tried.
        doing: &'static str,
        /// What went wrong.
        source: gix::Error,
    },
    /// Speaking with the server failed.
    #[error(transparent)]
    Session(#[from] rgit_smart_http::Error),
    /// The server's words make no sense, or it lacks what was asked for.
    #[error(transparent)]
    Protocol(#[from] rgit_proto::Error),
    /// The objects to send could not be collected or packed.
    #[error(transparent)]
    Pack(#[from] rgit_pack::Error),
    /// The advertisement could not be read to its end.
    #[error("the list of refs at {url} broke off")]
    Advertisement {
        /// Where it came from, without secrets.
        url: String,
        /// What was seen.
        source: std::io::Error,
    },
    /// The answer could not be read to its end, after commands and pack were sent.
    #[error("the answer of {url} broke off: whether its refs moved is not known, ask with ls-remote")]
    Answer {
        /// Where it came from, without secrets.
        url: String,
        /// What was seen.
        source: std::io::Error,
    },
    /// The caller asked to stop.
    #[error("the push was interrupted")]
    Interrupted,
}

impl Error {
    /// Whether git treats this as a refused push (exit 1, behind `error: `) and not as a fatal failure (128).
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::Unmatched(_) | Error::HookDeclined { .. })
    }

    pub(super) fn repository(doing: &'static str) -> impl FnOnce(gix::Error) -> Error {
        move |source| Error::Repository { doing, source }
    }
}

/// What is wrong with one refspec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Git's words, to stand behind `error: `.
    pub text: String,
    /// What to try, to stand behind `hint: `.
    pub hint: Option<String>,
}

impl Complaint {
    pub(super) fn new(text: String) -> Self {
        Complaint { text, hint: None }
    }
}

use std::path::PathBuf;

use bstr::BString;

/// Why fetch, clone or ls-remote failed. Push has its own cases in [`push`](crate::push).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server couldn't be reached, refused, or isn't a Git server.
    #[error(transparent)]
    Session(#[from] rgit_smart_http::Error),
    /// A repository operation failed.
    #[error("failed while {doing}")]
    Git {
        /// What was being done.
        doing: &'static str,
        /// What gix said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A named ref isn't on the remote.
    #[error("couldn't find remote ref {name}")]
    MissingRemoteRef {
        /// As it was asked for.
        name: BString,
    },
    /// The branch or tag to check out isn't on the remote.
    #[error("Remote branch {name} not found in upstream {origin}")]
    MissingRemoteBranch {
        /// As it was asked for.
        name: BString,
        /// The remote's name.
        origin: BString,
    },
    /// A clone needs a directory of its own.
    #[error("destination path '{}' already exists and is not an empty directory", path.display())]
    DestinationInUse {
        /// The directory.
        path: PathBuf,
    },
    /// The two repositories name objects by different hashes.
    #[error(
        "the remote repository uses {remote} for object names and this one {local}; no objects can move between them"
    )]
    ObjectFormat {
        /// Here.
        local: gix::hash::Kind,
        /// There.
        remote: gix::hash::Kind,
    },
    /// The server's pack lacks something that its refs lead to.
    #[error("the server did not send all necessary objects: {missing} is missing; no ref was moved")]
    Incomplete {
        /// The first object found missing.
        missing: String,
    },
    /// A branch that a working tree is on can't be moved under it.
    #[error("refusing to fetch into branch '{name}' checked out at '{}'", path.display())]
    CheckedOut {
        /// The branch.
        name: BString,
        /// The working tree.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("interrupted; no ref was moved")]
    Interrupted,
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    pub(crate) fn git(doing: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Error::Git {
            doing,
            source: source.into(),
        }
    }
}

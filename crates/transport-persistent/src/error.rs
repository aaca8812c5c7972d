use std::{io, path::PathBuf};

/// Why there is no daemon to talk to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens on the socket.
    #[error("no daemon answers on {}", .socket.display())]
    NotRunning {
        /// Where it was looked for.
        socket: PathBuf,
    },
    /// The directory that holds the socket can't be trusted.
    #[error("{} can't hold the daemon's socket: {reason}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A system call on one of the daemon's files failed.
    #[error("can't use {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else's process listens there.
    #[error("whoever listens on {} runs as another user", .socket.display())]
    Stranger {
        /// The socket.
        socket: PathBuf,
    },
    /// What listens there is no daemon of this version.
    #[error("what listens on {} is no daemon of this version: stop it with `rgit daemon stop` of the version that started it", .socket.display())]
    Version {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon was started and ended at once, or could not be started at all.
    #[error("could not start the daemon as {}", .program.display())]
    Start {
        /// What was started.
        program: PathBuf,
        /// What came of it.
        source: io::Error,
    },
    /// The daemon was asked for something and gave no answer that can be read.
    #[error("the daemon did not answer as it should")]
    Answer {
        /// What came instead.
        source: io::Error,
    },
}

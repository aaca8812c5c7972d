//! Where the daemon's socket lies, and who may be at either end of it.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use crate::Error;

/// What a daemon says to a client before anything else. Its number changes with the protocol of the hop.
pub(crate) const GREETING: &[u8] = b"rgit-hop 1\n";
/// How long a daemon may take for that. It is one write of a thread that does nothing else: one that needs longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory with the daemon's socket, lock and log. Nobody but its owner can look into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath {
    directory: PathBuf,
}

impl SocketPath {
    /// `$XDG_RUNTIME_DIR/rgit`, else `rgit-<user id>` where temporary files go.
    pub fn of_user(variable: impl Fn(&str) -> Option<OsString>) -> SocketPath {
        let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
        let directory = match runtime.filter(|path| path.is_absolute()) {
            Some(runtime) => runtime.join("rgit"),
            None => {
                let temporary = variable("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
                let temporary = temporary.unwrap_or_else(|| "/tmp".into());
                temporary.join(format!("rgit-{}", own_uid()))
            }
        };
        SocketPath { directory }
    }

    /// This directory.
    pub fn within(directory: impl Into<PathBuf>) -> SocketPath {
        SocketPath {
            directory: directory.into(),
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("daemon.sock")
    }

    /// Where the daemon writes what it has to say.
    pub fn log(&self) -> PathBuf {
        self.directory.join("daemon.log")
    }

    /// The log, to be added to; it is its owner's alone.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn open_log(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).open(self.log())
    }

    /// Make the directory where it isn't there, and check that it is ours alone.
    ///
    /// # Errors
    /// When it isn't.
    pub fn prepare(&self) -> Result<(), Error> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => Err(self.error(&self.directory, err)),
            _ => self.check(),
        }
    }

    /// Check that the directory is ours alone: one that others can write to could hold their socket.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let found = fs::symlink_metadata(&self.directory).map_err(|err| match err.kind() {
            io::ErrorKind::NotFound => self.not_running(),
            _ => self.error(&self.directory, err),
        })?;
        let refuse = |reason: String| {
            Err(Error::Directory {
                path: self.directory.clone(),
                reason,
            })
        };
        if !found.is_dir() {
            return refuse("it is no directory; remove it".into());
        }
        if found.uid() != own_uid() {
            return refuse("it belongs to another user; set XDG_RUNTIME_DIR to a directory of your own".into());
        }
        match found.mode() & 0o077 {
            0 => Ok(()),
            _ => refuse(format!(
                "others may look into it (its mode is {:o}); change that to 700, or remove it",
                found.mode() & 0o7777
            )),
        }
    }

    /// Held while a daemon is started or goes: one at a time does either.
    pub(crate) fn lock(&self) -> Result<File, Error> {
        let path = self.directory.join("lock");
        let open = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let file = open.map_err(|err| self.error(&path, err))?;
        file.lock().map_err(|err| self.error(&path, err))?;
        Ok(file)
    }

    /// A connection to a daemon that has said that it will serve. [`Error::NotRunning`] also when one is about to go.
    pub(crate) fn connect(&self) -> Result<UnixStream, Error> {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
        self.check()?;
        let socket = self.socket();
        let gone = |err: io::Error| match err.kind() {
            NotFound | ConnectionRefused | ConnectionReset | ConnectionAborted | UnexpectedEof => self.not_running(),
            _ => self.error(&socket, err),
        };
        let mut stream = UnixStream::connect(&socket).map_err(gone)?;
        if !is_own(&stream).map_err(gone)? {
            return Err(Error::Stranger { socket });
        }
        let mut said = [0; GREETING.len()];
        stream.set_read_timeout(Some(PATIENCE)).map_err(gone)?;
        stream.read_exact(&mut said).map_err(gone)?;
        stream.set_read_timeout(None).map_err(gone)?;
        match said == *GREETING {
            true => Ok(stream),
            false => Err(Error::Version { socket }),
        }
    }

    pub(crate) fn not_running(&self) -> Error {
        Error::NotRunning { socket: self.socket() }
    }

    pub(crate) fn error(&self, path: &Path, source: io::Error) -> Error {
        Error::File {
            path: path.to_owned(),
            source,
        }
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether the process at the other end runs as this user.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn is_own(stream: &UnixStream) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(peer.uid.as_raw() == own_uid())
}

/// Other systems have other calls for this, none of them without `unsafe` here; the directory's mode keeps strangers out.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn is_own(_: &UnixStream) -> io::Result<bool> {
    Ok(true)
}

/// What tells one file from another that came to the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl Stamp {
    /// `None` where there is no file.
    pub(crate) fn of(path: &Path) -> Option<Stamp> {
        let found = fs::metadata(path).ok()?;
        Some(Stamp {
            device: found.dev(),
            inode: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            size: found.size(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_users_own_runtime_directory_is_preferred() {
        let set = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| "/run/user/1".into());
        assert_eq!(
            SocketPath::of_user(set).socket(),
            Path::new("/run/user/1/rgit/daemon.sock")
        );
        let relative = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| "run".into());
        let expected = format!("/tmp/rgit-{}", own_uid());
        for place in [SocketPath::of_user(relative), SocketPath::of_user(|_| None)] {
            assert_eq!(place.directory(), Path::new(&expected));
        }
    }

    #[test]
    fn only_a_directory_of_ones_own_will_do() {
        let world = tempfile::tempdir().unwrap();
        let place = SocketPath::within(world.path().join("rgit"));
        assert!(matches!(place.check(), Err(Error::NotRunning { .. })));
        place.prepare().unwrap();
        place.prepare().unwrap();
        let mode = fs::metadata(place.directory()).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o700);
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(place.directory(), fs::Permissions::from_mode(mode)).unwrap();
            let err = place.prepare().unwrap_err().to_string();
            assert!(err.contains("700") && err.contains(&format!("{mode:o}")), "{err}");
        }
        let link = SocketPath::within(world.path().join("link"));
        symlink(place.directory(), link.directory()).unwrap();
        assert!(matches!(link.prepare(), Err(Error::Directory { .. })));
    }

    #[test]
    fn a_file_of_the_same_name_is_another_file() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("f");
        assert_eq!(Stamp::of(&path), None);
        fs::write(&path, "a").unwrap();
        let first = Stamp::of(&path);
        assert!(first.is_some() && first == Stamp::of(&path));
        fs::write(world.path().join("g"), "b").unwrap();
        fs::rename(world.path().join("g"), &path).unwrap();
        assert_ne!(Stamp::of(&path), first);
    }
}

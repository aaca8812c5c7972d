//! How a daemon comes to its socket, and leaves whoever started it.

use std::{
    fs, io,
    os::{
        fd::AsFd,
        unix::{net::UnixListener, process::CommandExt},
    },
    process::Command,
};

use rustix::io::Errno;

use crate::{Daemon, Error, Settings, SocketPath, upstreams::Factory};

impl Daemon {
    /// Take the socket that whoever started this process handed over as standard input, which is empty from then on. Standard error is
    /// read by them until this is done; what comes after it, a panic's message for one, goes into the log.
    ///
    /// # Errors
    /// When standard input is no socket that listens, or the log can't be written.
    pub fn from_standard_input(place: SocketPath, factory: Box<Factory>, settings: Settings) -> io::Result<Daemon> {
        let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
        listener.local_addr()?;
        rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
        rustix::stdio::dup2_stderr(place.open_log()?)?;
        Daemon::new(listener, place, factory, settings)
    }

    /// Make the socket at `place` and hold it, for a daemon that nobody's client started.
    ///
    /// # Errors
    /// When one runs already, or the place can't be used.
    pub fn bind(place: &SocketPath) -> Result<UnixListener, Error> {
        place.prepare()?;
        let _lock = place.lock()?;
        let socket = place.socket();
        match place.connect() {
            Err(Error::NotRunning { .. }) => {}
            Ok(_) => {
                let said = "a daemon runs already; `rgit daemon stop` ends it";
                return Err(place.error(&socket, io::Error::new(io::ErrorKind::AddrInUse, said)));
            }
            Err(err) => return Err(err),
        }
        match fs::remove_file(&socket) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => Err(place.error(&socket, err)),
            _ => UnixListener::bind(&socket).map_err(|err| place.error(&socket, err)),
        }
    }

    /// The socket that a service manager handed over by `LISTEN_FDS` (sd_listen_fds(3)), if one did: the first of them.
    ///
    /// # Errors
    /// When what was handed over is no socket that listens.
    #[cfg(target_os = "linux")]
    pub fn activated() -> io::Result<Option<UnixListener>> {
        use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u32>().ok());
        if number("LISTEN_PID") != Some(std::process::id()) || number("LISTEN_FDS").is_none_or(|count| count == 0) {
            return Ok(None);
        }
        // A descriptor known by its number only: the kernel makes a copy that can be owned.
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let listener = UnixListener::from(pidfd_getfd(process, 3, PidfdGetfdFlags::empty())?);
        listener.local_addr()?;
        Ok(Some(listener))
    }

    /// Elsewhere there is no way to such a descriptor without `unsafe`.
    #[cfg(not(target_os = "linux"))]
    pub fn activated() -> io::Result<Option<UnixListener>> {
        Ok(None)
    }

    /// Leave the session and the process group of whoever started this process, so that no signal meant for those ends it, and let go of
    /// the descriptors that came from there: whoever reads a pipe among them would wait for as long as the daemon lives. For that this
    /// program takes the place of itself, by the same arguments, and comes here once more.
    ///
    /// # Errors
    /// When it can't.
    pub fn detach() -> io::Result<()> {
        match rustix::process::setsid() {
            // It leads a group already: it has been here before. To ask for its session instead would be no use, for that has no number
            // here when its leader lives in another PID namespace, as it does for what is run inside a container from outside.
            Err(Errno::PERM) => return Ok(()),
            other => other?,
        };
        close_fds::set_fds_cloexec(3, &[]);
        let arguments = std::env::args_os().skip(1);
        Err(Command::new(std::env::current_exe()?).args(arguments).exec())
    }
}

use std::{ffi::OsString, fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use rgit_dial::{Dialer, Verify};
use rgit_transport::Transport;
use rgit_transport_h1::H1;
use rgit_transport_h2::H2;

use crate::Auto;

/// A transport by name, as in `--transport=` and `rgit.transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Name {
    /// Whichever fits.
    #[default]
    Auto,
    /// HTTP/1.1 over a pool of connections.
    H1,
    /// HTTP/2, on as few connections as the server allows.
    H2,
    /// The daemon that keeps connections warm between invocations.
    Persistent,
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Name::Auto),
            "h1" => Ok(Name::H1),
            "h2" => Ok(Name::H2),
            "persistent" => Ok(Name::Persistent),
            _ => Err(Error::UnknownName { name: text.to_owned() }),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Name::Auto => "auto",
            Name::H1 => "h1",
            Name::H2 => "h2",
            Name::Persistent => "persistent",
        })
    }
}

/// What flags and configuration said.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Choice {
    /// Which transport.
    pub name: Name,
    /// Trust these certificate authorities instead of the system's (`http.sslCAInfo`): a file in PEM form.
    pub ca_file: Option<PathBuf>,
    /// Don't check the server's certificate (`http.sslVerify=false`).
    pub insecure: bool,
    /// Give up when no byte moved for so long; `None` is the transport's default.
    pub idle_timeout: Option<Duration>,
    /// Send what may be ([`Early`](rgit_transport::Early)) as TLS 1.3 early data, over HTTP/1.1. For programs that keep a transport longer
    /// than its servers keep connections; others never have a ticket to do so. Off by default.
    pub early_data: bool,
    /// How HTTP/2 is spoken, where it is.
    pub h2: H2Choice,
    /// The daemon that keeps connections warm, where one may be ridden. Without, [`Name::Auto`] goes its own way.
    pub daemon: Option<DaemonChoice>,
    /// Told why a daemon that was asked for can't be had, before the direct way is taken.
    pub notice: Option<fn(&str)>,
}

/// Where the daemon is, and how it is started.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DaemonChoice {
    /// The directory that holds its socket.
    pub directory: PathBuf,
    /// The program that runs it, with arguments; only [`Name::Persistent`] starts it.
    pub program: Option<(PathBuf, Vec<OsString>)>,
    /// What it speaks to servers (`rgit.persistent.upstream`).
    pub upstream: Name,
    /// Whether it may send as early data what may be (`rgit.persistent.earlyData`). Off by default.
    pub early_data: bool,
}

/// What configuration said of HTTP/2. `None` is the transport's default; what the protocol doesn't allow becomes the nearest that it does.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct H2Choice {
    /// Bytes of one answer that the server may send before they are read (`rgit.h2.streamWindow`).
    pub stream_window: Option<u32>,
    /// The same for all answers on a connection together (`rgit.h2.connectionWindow`).
    pub connection_window: Option<u32>,
    /// The largest frame that the server may send (`rgit.h2.maxFrameSize`).
    pub max_frame_size: Option<u32>,
}

impl Choice {
    /// What connects by it. Connects to nothing yet.
    pub(crate) fn dialer(&self) -> Result<Arc<Dialer>, rgit_dial::Error> {
        let mut dial = rgit_dial::Settings::default();
        dial.ca_file = self.ca_file.clone();
        dial.verify = if self.insecure { Verify::Off } else { Verify::Full };
        dial.early_data = self.early_data;
        Dialer::new(dial).map(Arc::new)
    }

    pub(crate) fn h1(&self) -> rgit_transport_h1::Settings {
        let mut settings = rgit_transport_h1::Settings::default();
        if let Some(idle_timeout) = self.idle_timeout {
            settings.idle_timeout = idle_timeout;
        }
        settings
    }

    pub(crate) fn h2(&self) -> Result<H2, Error> {
        let tuning = self.h2.tuning(self.idle_timeout);
        H2::new(self.dialer()?, tuning).map_err(Error::Descriptors)
    }

    pub(crate) fn auto(&self) -> Result<Auto, Error> {
        let tuning = self.h2.tuning(self.idle_timeout);
        Ok(Auto::new(self.dialer()?, self.h1(), tuning))
    }
}

impl H2Choice {
    pub(crate) fn tuning(&self, idle_timeout: Option<Duration>) -> rgit_transport_h2::Tuning {
        let mut tuning = rgit_transport_h2::Tuning::default();
        if let Some(bytes) = self.stream_window {
            tuning = tuning.stream_window(bytes);
        }
        if let Some(bytes) = self.connection_window {
            tuning = tuning.connection_window(bytes);
        }
        if let Some(bytes) = self.max_frame_size {
            tuning = tuning.max_frame_size(bytes);
        }
        if let Some(timeout) = idle_timeout {
            tuning = tuning.idle_timeout(timeout);
        }
        tuning
    }
}

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No transport has this name.
    #[error("there is no transport '{name}': use auto, h1, h2 or persistent")]
    UnknownName {
        /// As given.
        name: String,
    },
    /// The transport isn't there on this system.
    #[error("the transport '{name}' isn't there on this system: use auto, h1 or h2")]
    NotBuilt {
        /// As asked for.
        name: Name,
    },
    /// Nothing was said of a daemon.
    #[error("the transport 'persistent' needs a daemon, and this program has none to start")]
    NoDaemon,
    /// The system gave no descriptors for a transport to work with.
    #[error("can't set up the transport; are too many files open?")]
    Descriptors(#[source] std::io::Error),
    /// TLS could not be set up.
    #[error(transparent)]
    Dial(#[from] rgit_dial::Error),
}

/// The transport that `choice` asks for. Connects to nothing yet.
///
/// # Errors
/// When the transport isn't there on this system, or its TLS settings can't be used.
pub fn choose(choice: &Choice) -> Result<Arc<dyn Transport>, Error> {
    #[cfg(unix)]
    if let (Name::Auto | Name::Persistent, Some(daemon)) = (choice.name, &choice.daemon) {
        return crate::daemon::ride(choice, daemon);
    }
    match choice.name {
        Name::Auto => Ok(Arc::new(choice.auto()?)),
        Name::H1 => Ok(Arc::new(H1::new(choice.dialer()?, choice.h1()))),
        Name::H2 => Ok(Arc::new(choice.h2()?)),
        Name::Persistent if cfg!(unix) => Err(Error::NoDaemon),
        name @ Name::Persistent => Err(Error::NotBuilt { name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_are_written() {
        for name in [Name::Auto, Name::H1, Name::H2, Name::Persistent] {
            assert_eq!(name.to_string().parse::<Name>().unwrap(), name);
        }
        let err = "http3".parse::<Name>().unwrap_err();
        assert!(
            err.to_string().contains("http3") && err.to_string().contains("h1"),
            "{err}"
        );
    }

    #[test]
    fn a_name_yields_its_transport() {
        let choice = |name| Choice {
            name,
            ..Choice::default()
        };
        let err = choose(&choice(Name::Persistent)).unwrap_err().to_string();
        assert!(err.contains("persistent"), "{err}");
        assert!(format!("{:?}", choose(&choice(Name::Auto)).unwrap()).contains("Auto"));
        assert!(format!("{:?}", choose(&choice(Name::H2)).unwrap()).contains("H2"));
    }

    #[test]
    fn configuration_reaches_the_tuning() {
        let h2 = H2Choice {
            stream_window: Some(1 << 20),
            connection_window: Some(1 << 21),
            max_frame_size: Some(1),
        };
        let tuning = h2.tuning(Some(Duration::from_secs(1)));
        assert_eq!((tuning.stream_window, tuning.connection_window), (1 << 20, 1 << 21));
        assert_eq!(
            (tuning.max_frame_size, tuning.idle_timeout),
            (16_384, Duration::from_secs(1))
        );
    }
}

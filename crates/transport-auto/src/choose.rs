use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use rgit_dial::{Dialer, Verify};
use rgit_transport::Transport;
use rgit_transport_h1::H1;

/// A transport by name, as in `--transport=` and `rgit.transport`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Name {
    /// Whichever fits.
    #[default]
    Auto,
    /// HTTP/1.1 over a pool of connections.
    H1,
    /// One HTTP/2 connection.
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
    /// The transport isn't part of this build.
    #[error("the transport '{name}' isn't part of this build: use auto or h1")]
    NotBuilt {
        /// As asked for.
        name: Name,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Dial(#[from] rgit_dial::Error),
}

/// The transport that `choice` asks for. Connects to nothing yet.
///
/// # Errors
/// When the transport isn't part of this build, or its TLS settings can't be used.
pub fn choose(choice: &Choice) -> Result<Arc<dyn Transport>, Error> {
    match choice.name {
        Name::Auto | Name::H1 => {
            let mut dial = rgit_dial::Settings::default();
            dial.ca_file = choice.ca_file.clone();
            dial.verify = if choice.insecure { Verify::Off } else { Verify::Full };
            let mut settings = rgit_transport_h1::Settings::default();
            if let Some(idle_timeout) = choice.idle_timeout {
                settings.idle_timeout = idle_timeout;
            }
            Ok(Arc::new(H1::new(Arc::new(Dialer::new(dial)?), settings)))
        }
        name @ (Name::H2 | Name::Persistent) => Err(Error::NotBuilt { name }),
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
    fn what_is_not_built_says_so_and_what_to_use() {
        let choice = |name| Choice {
            name,
            ..Choice::default()
        };
        let err = choose(&choice(Name::Persistent)).unwrap_err().to_string();
        assert!(err.contains("persistent") && err.contains("h1"), "{err}");
        assert!(format!("{:?}", choose(&choice(Name::Auto)).unwrap()).contains("H1"));
    }
}

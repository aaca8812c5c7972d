//! How the daemon is to connect: what makes two clients share a connection, and keeps others apart.

use std::{
    ffi::OsStr,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    time::Duration,
};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::fields::{self, Fields};

/// Which protocol is spoken behind the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Road {
    /// Whichever fits.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Road {
    const NAMES: [(&'static str, Road); 3] = [("auto", Road::Auto), ("h1", Road::Http1), ("h2", Road::Http2)];

    /// Its name, as `rgit.persistent.upstream` has it.
    pub fn as_str(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, road)| *road == self)
            .map_or("auto", |(name, _)| name)
    }

    /// The road of that name.
    pub fn named(name: &str) -> Option<Road> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, road)| *road)
    }
}

/// A connection profile. Connections are shared among clients of the same profile and no others.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct Profile {
    /// Which protocol is spoken with the server.
    pub road: Road,
    /// The only authorities to trust, where not the system's: an absolute path.
    pub ca_file: Option<PathBuf>,
    /// Don't check certificates.
    pub insecure: bool,
    /// Give up when no byte moved for so long; `None` is the upstream's default. Kept in milliseconds.
    pub idle_timeout: Option<Duration>,
    /// HTTP/2: bytes of one answer that the server may send ahead.
    pub stream_window: Option<u32>,
    /// HTTP/2: the same for a connection.
    pub connection_window: Option<u32>,
    /// HTTP/2: the largest frame.
    pub max_frame_size: Option<u32>,
}

impl Profile {
    /// As the control header has it.
    pub(crate) fn header(&self) -> http::HeaderValue {
        let ca_file = self.ca_file.as_ref().map(|path| path.as_os_str().as_bytes());
        Fields::default()
            .value("road", Some(self.road.as_str()))
            .value("ca", ca_file.map(|path| percent_encode(path, NON_ALPHANUMERIC)))
            .flag("insecure", self.insecure)
            .value("idle", self.idle_timeout.map(|timeout| timeout.as_millis()))
            .value("stream", self.stream_window)
            .value("connection", self.connection_window)
            .value("frame", self.max_frame_size)
            .header()
    }

    /// Read what [`header`](Self::header) wrote; what is unknown is wrong, since to leave it out could mean to trust more.
    pub(crate) fn read(text: &str) -> Option<Profile> {
        let mut profile = Profile::default();
        for (key, value) in fields::read(text) {
            match (key, value) {
                ("road", Some(name)) => profile.road = Road::named(name)?,
                ("ca", Some(path)) => {
                    let bytes: Vec<u8> = percent_decode_str(path).collect();
                    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
                    profile.ca_file = Some(path).filter(|path| path.is_absolute());
                    profile.ca_file.as_ref()?;
                }
                ("insecure", None) => profile.insecure = true,
                ("idle", Some(number)) => profile.idle_timeout = Some(Duration::from_millis(number.parse().ok()?)),
                ("stream", Some(number)) => profile.stream_window = Some(number.parse().ok()?),
                ("connection", Some(number)) => profile.connection_window = Some(number.parse().ok()?),
                ("frame", Some(number)) => profile.max_frame_size = Some(number.parse().ok()?),
                _ => return None,
            }
        }
        Some(profile)
    }

    /// Take up what the environment says of trust where the configuration says nothing: the daemon has another environment.
    ///
    /// # Errors
    /// Why that can't be told to the daemon.
    pub fn environment(
        mut self,
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Profile, &'static str> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let (None, false) = (&self.ca_file, self.insecure) {
            if set("SSL_CERT_DIR").is_some() {
                return Err("SSL_CERT_DIR is set, and the daemon takes only files of trusted certificates");
            }
            self.ca_file = set("SSL_CERT_FILE").map(PathBuf::from);
        }
        self.ca_file = match self.ca_file {
            Some(path) => Some(std::path::absolute(path).map_err(|_| "there is no current directory")?),
            None => None,
        };
        self.idle_timeout = self
            .idle_timeout
            .map(|timeout| Duration::from_millis(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)));
        Ok(self)
    }
}

/// A path as text for people.
pub(crate) fn shown(path: &OsStr) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Profile {
        Profile {
            road: Road::Http2,
            ca_file: Some("/a b;c=d/\u{fc}.pem".into()),
            insecure: true,
            idle_timeout: Some(Duration::from_millis(1500)),
            stream_window: Some(1),
            connection_window: Some(2),
            max_frame_size: Some(3),
        }
    }

    #[test]
    fn a_profile_reads_as_it_was_written() {
        for profile in [full(), Profile::default()] {
            assert_eq!(Profile::read(profile.header().to_str().unwrap()), Some(profile));
        }
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for text in [
            "road=h3",
            "verify=off",
            "insecure=no",
            "ca=relative",
            "stream=x",
            "idle",
        ] {
            assert_eq!(Profile::read(text), None, "{text}");
        }
    }

    #[test]
    fn the_environment_says_whom_to_trust_where_nothing_else_does() {
        let file = |name: &str| (name == "SSL_CERT_FILE").then(|| "/x.pem".into());
        assert_eq!(
            Profile::default().environment(file).unwrap().ca_file,
            Some("/x.pem".into())
        );
        let own = full().ca_file;
        assert_eq!(full().environment(file).unwrap().ca_file, own);
        let directory = |name: &str| (name == "SSL_CERT_DIR").then(|| "/x".into());
        assert!(Profile::default().environment(directory).is_err());
        assert!(full().environment(directory).is_ok());
    }
}

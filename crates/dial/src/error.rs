use std::{error::Error as StdError, io, net::SocketAddr, path::PathBuf, time::Duration};

use crate::Origin;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URI names nothing to connect to.
    #[error("can't connect by this URI: {reason}")]
    Uri {
        /// What is wrong with it; never the URI, which may hold a password.
        reason: String,
    },
    /// The name has no address.
    #[error("could not resolve host {host:?}; check the name and the network")]
    Resolve {
        /// The name.
        host: String,
        /// What the system's resolver said.
        source: io::Error,
    },
    /// None of the origin's addresses took the connection.
    #[error("could not connect to {origin} (tried {})", list(.tried))]
    Connect {
        /// Whom.
        origin: Origin,
        /// Every address tried.
        tried: Vec<SocketAddr>,
        /// What the most preferred address said.
        source: io::Error,
    },
    /// The connect timeout passed.
    #[error("{origin} did not {} within {after:?}", if *.tls { "finish the TLS handshake" } else { "accept a connection" })]
    Timeout {
        /// Whom.
        origin: Origin,
        /// Whether TCP was through and the TLS handshake under way.
        tls: bool,
        /// The timeout that passed.
        after: Duration,
    },
    /// The TLS handshake failed.
    #[error("no TLS with {origin}{}", hint(.advice))]
    Tls {
        /// Whom.
        origin: Origin,
        /// What to do about it, where that is known.
        advice: Option<&'static str>,
        /// What rustls or the socket said.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A file of trusted certificates can't be used.
    #[error("can't take trusted certificates from {}", .path.display())]
    CaFile {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system has no trusted certificates to offer.
    #[error(
        "the system's trusted certificates were not found; name a CA file in http.sslCAInfo, GIT_SSL_CAINFO or SSL_CERT_FILE"
    )]
    Roots {
        /// What was tried.
        source: io::Error,
    },
}

impl Error {
    /// Whether TCP was through, and it is TLS or trust that failed.
    pub fn is_tls(&self) -> bool {
        match self {
            Error::Uri { .. } | Error::Resolve { .. } | Error::Connect { .. } => false,
            Error::Timeout { tls, .. } => *tls,
            Error::Tls { .. } | Error::CaFile { .. } | Error::Roots { .. } => true,
        }
    }

    /// Whether the peer speaks none of the protocols that were offered by ALPN (RFC 7301, section 3.2).
    pub fn is_alpn_refused(&self) -> bool {
        use rustls::AlertDescription::NoApplicationProtocol;
        let Error::Tls { source, .. } = self else { return false };
        let source = source.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let said = source.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        matches!(said, Some(rustls::Error::AlertReceived(NoApplicationProtocol)))
    }

    /// A handshake with `origin` that ended in `source`.
    pub(crate) fn tls(origin: &Origin, source: io::Error) -> Error {
        let advice = source
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            .and_then(what_to_do);
        Error::Tls {
            origin: origin.clone(),
            advice,
            source: source.into(),
        }
    }
}

fn what_to_do(error: &rustls::Error) -> Option<&'static str> {
    use rustls::{CertificateError as Certificate, Error as Tls};
    match error {
        // A bad signature: another authority of the same name as a trusted one.
        Tls::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature) => Some(
            "its certificate comes from an authority that is not trusted here; if you trust it, \
             name its CA file in http.sslCAInfo or GIT_SSL_CAINFO",
        ),
        Tls::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. }) => {
            Some("its certificate is for another name; check the URL's host")
        }
        Tls::InvalidCertificate(
            Certificate::Expired
            | Certificate::ExpiredContext { .. }
            | Certificate::NotValidYet
            | Certificate::NotValidYetContext { .. },
        ) => {
            Some("its certificate is not valid at this time; check this machine's clock, then tell the server's owner")
        }
        Tls::InvalidMessage(_) => Some("it does not speak TLS on this port; check the URL's scheme and port"),
        _ => None,
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    let shown: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    shown.join(", ")
}

fn hint(advice: &Option<&'static str>) -> String {
    advice.map_or_else(String::new, |text| format!(": {text}"))
}

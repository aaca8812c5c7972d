//! Where trusted roots come from, read once and only when TLS is spoken.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::{Error, Settings};

/// The roots `settings` ask for: its own file's, or else the system's.
pub(crate) fn load(settings: &Settings) -> Result<RootCertStore, Error> {
    let begun = std::time::Instant::now();
    let roots = match &settings.ca_file {
        Some(path) => store(certificates_in(path)?, || path.clone()),
        None => system(),
    }?;
    tracing::debug!(roots = roots.len(), took = ?begun.elapsed(), "loaded trusted certificates");
    Ok(roots)
}

#[cfg(all(unix, not(target_vendor = "apple")))]
fn system() -> Result<RootCertStore, Error> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let named_file = variable(openssl_probe::ENV_CERT_FILE).map(PathBuf::from);
    let named_directories: Vec<PathBuf> = variable(openssl_probe::ENV_CERT_DIR)
        .map(|list| {
            env::split_paths(&list)
                .filter(|path| !path.as_os_str().is_empty())
                .collect()
        })
        .unwrap_or_default();
    let file = match named_directories.is_empty() {
        // Nothing named: the bundle in its usual place.
        true => named_file.or_else(|| openssl_probe::probe().cert_file),
        false => named_file,
    };
    let Some(file) = file else {
        let found = match named_directories.is_empty() {
            true => rustls_native_certs::load_native_certs(),
            false => directories(&named_directories),
        };
        return from_store(found);
    };
    let mut certificates = certificates_in(&file)?;
    // The directory that holds the bundle is the bundle once more, in pieces: opening those hundreds of links would cost more than
    // everything else in a handshake.
    let others: Vec<_> = named_directories
        .into_iter()
        .filter(|path| file.parent() != Some(path))
        .collect();
    if !others.is_empty() {
        certificates.extend(directories(&others).certs);
    }
    store(certificates, || file.clone())
}

#[cfg(not(all(unix, not(target_vendor = "apple"))))]
fn system() -> Result<RootCertStore, Error> {
    from_store(rustls_native_certs::load_native_certs())
}

#[cfg(all(unix, not(target_vendor = "apple")))]
fn directories(paths: &[PathBuf]) -> rustls_native_certs::CertificateResult {
    let mut all = rustls_native_certs::CertificateResult::default();
    for path in paths {
        let found = rustls_native_certs::load_certs_from_paths(None, Some(path));
        all.certs.extend(found.certs);
        all.errors.extend(found.errors);
    }
    all
}

/// What the system's store yielded. Single bad certificates in it are the system's affair; none at all is an error.
fn from_store(found: rustls_native_certs::CertificateResult) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let said: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let source = io::Error::new(io::ErrorKind::NotFound, said.join("; "));
        return Err(Error::Roots { source });
    }
    Ok(roots)
}

fn certificates_in(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let refuse = |source| Error::CaFile {
        path: path.into(),
        source,
    };
    let pem = fs::read(path).map_err(refuse)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    certificates.map_err(|err| {
        refuse(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it is no PEM: {err}"),
        ))
    })
}

fn store(certificates: Vec<CertificateDer<'static>>, path: impl Fn() -> PathBuf) -> Result<RootCertStore, Error> {
    let found = certificates.len();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let reason = match found {
            0 => "it holds no PEM certificate".to_owned(),
            found => format!("none of its {found} certificates can be used"),
        };
        return Err(Error::CaFile {
            path: path(),
            source: io::Error::new(io::ErrorKind::InvalidData, reason),
        });
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    fn load_file(content: Option<&str>) -> (PathBuf, Result<RootCertStore, Error>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let loaded = load(&Settings::default().ca_file(&path));
        (path, loaded)
    }

    #[test]
    fn an_own_file_replaces_the_systems_roots() {
        let (_, loaded) = load_file(Some(&rgit_testkit::certificate::Authority::new().ca_pem()));
        assert_eq!(loaded.unwrap().len(), 1);
    }

    #[test]
    fn files_that_give_nothing_are_named_with_the_reason() {
        for (content, reason) in [
            (None, "No such file"),
            (Some(""), "no PEM certificate"),
            (Some("some text\n"), "no PEM certificate"),
            (
                Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
                "none of its 1 certificates",
            ),
            (
                Some("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"),
                "no PEM",
            ),
        ] {
            let (path, loaded) = load_file(content);
            let err = loaded.unwrap_err();
            assert!(err.is_tls());
            assert!(err.to_string().contains(path.to_str().unwrap()), "{err}");
            let source = err.source().unwrap().to_string();
            assert!(source.contains(reason), "{source} / {reason}");
        }
    }
}

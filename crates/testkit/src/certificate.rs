//! A certificate authority that lives as long as a test.
//!
//! Owns the CA's key and signs leaf certificates for servers. Refuses to be anything else: nothing is read from or put
//! into a trust store; the code under test is told about [`Authority::ca_pem`] through its own configuration.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
pub use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A CA with a P-256 key, made anew by each [`Authority::new`].
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

impl Authority {
    /// A new CA. Two authorities never trust each other's certificates.
    ///
    /// # Panics
    /// When the system has no randomness.
    pub fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a P-256 key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "rgit throw-away CA");
        let certificate = params.self_signed(&key).expect("a self-signed CA");
        Authority {
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The CA's certificate as PEM: what `http.sslCAInfo` and `GIT_SSL_CAINFO` want in a file.
    pub fn ca_pem(&self) -> String {
        self.pem.clone()
    }

    /// Writes [`Authority::ca_pem`] into `dir` and returns the file's path.
    ///
    /// # Panics
    /// When the file can't be written.
    pub fn write_ca(&self, dir: &Path) -> PathBuf {
        let path = dir.join("ca.pem");
        fs::write(&path, &self.pem).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        path
    }

    /// A TLS server for `names` (DNS names or IP addresses) that offers `alpn` in this order of preference.
    ///
    /// The provider is ring whatever the process default is.
    ///
    /// # Panics
    /// When a name is neither a DNS name nor an address.
    pub fn server_config(&self, names: &[&str], alpn: &[&[u8]]) -> Arc<ServerConfig> {
        self.sign(names, alpn, |_| {})
    }

    /// As [`Authority::server_config`], with a certificate that ran out in 2001.
    ///
    /// # Panics
    /// When a name is neither a DNS name nor an address.
    pub fn expired_server_config(&self, names: &[&str], alpn: &[&[u8]]) -> Arc<ServerConfig> {
        self.sign(names, alpn, |params| {
            params.not_before = rcgen::date_time_ymd(2000, 1, 1);
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        })
    }

    /// A certificate for `names` with its chain, and its key, both as PEM: for servers that read files.
    ///
    /// # Panics
    /// When a name is neither a DNS name nor an address.
    pub fn server_pem(&self, names: &[&str]) -> (String, String) {
        let (leaf, key) = self.issue(names, |_| {});
        (leaf.pem() + &self.pem, key.serialize_pem())
    }

    fn issue(&self, names: &[&str], adjust: impl FnOnce(&mut CertificateParams)) -> (rcgen::Certificate, KeyPair) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names for a certificate");
        params.distinguished_name.push(DnType::CommonName, "rgit test server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        adjust(&mut params);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a P-256 key");
        let leaf = params.signed_by(&key, &self.issuer).expect("a signed certificate");
        (leaf, key)
    }

    fn sign(&self, names: &[&str], alpn: &[&[u8]], adjust: impl FnOnce(&mut CertificateParams)) -> Arc<ServerConfig> {
        let (leaf, key) = self.issue(names, adjust);
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a PKCS#8 key");
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions of the ring provider")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate that fits its key");
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, pki_types::pem::PemObject};

    fn handshake(trusted: &Authority, server: Arc<ServerConfig>, name: &'static str) -> Result<Vec<u8>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(trusted.ca_pem().as_bytes()).expect("PEM"))
            .expect("a root");
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let mut client = ClientConnection::new(Arc::new(config), name.try_into().expect("a name"))?;
        let mut server = ServerConnection::new(server)?;
        while client.is_handshaking() || server.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).expect("memory");
            server.read_tls(&mut wire.as_slice()).expect("memory");
            server.process_new_packets()?;
            let mut wire = Vec::new();
            server.write_tls(&mut wire).expect("memory");
            client.read_tls(&mut wire.as_slice()).expect("memory");
            client.process_new_packets()?;
        }
        Ok(client.alpn_protocol().unwrap_or_default().to_vec())
    }

    #[test]
    fn leaves_are_trusted_by_their_own_ca_only_and_for_their_names_only() {
        let authority = Authority::new();
        let config = || authority.server_config(&["127.0.0.1", "localhost"], &[b"h2", b"http/1.1"]);
        assert_eq!(handshake(&authority, config(), "localhost").expect("trusted"), b"h2");
        assert_eq!(handshake(&authority, config(), "127.0.0.1").expect("trusted"), b"h2");
        assert!(handshake(&authority, config(), "example.org").is_err());
        assert!(handshake(&Authority::new(), config(), "localhost").is_err());
        let expired = authority.expired_server_config(&["localhost"], &[b"h2"]);
        assert!(handshake(&authority, expired, "localhost").is_err());
    }
}

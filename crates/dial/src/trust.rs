//! The rustls configuration: provider, verifier, protocols.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::{Error, Settings, Verify, roots};

/// The provider the cargo features chose.
fn provider() -> CryptoProvider {
    #[cfg(feature = "ring")]
    return rustls::crypto::ring::default_provider();
    #[cfg(all(feature = "graviola", not(feature = "ring")))]
    return rustls_graviola::default_provider();
}

/// A configuration without ALPN. Reads the trusted roots, unless nothing is to be verified.
pub(crate) fn client_config(settings: &Settings) -> Result<ClientConfig, Error> {
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|err| Error::Roots {
            source: io::Error::other(err),
        })?;
    let builder = match settings.verify {
        Verify::Full => builder.with_root_certificates(roots::load(settings)?),
        Verify::Off => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
    };
    Ok(builder.with_no_client_auth())
}

/// Takes any certificate, but still checks that the peer signed the handshake with its key: otherwise not even the certificate
/// shown would mean anything.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! TLS settings from the file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::config::{ClientAuth, MinVersion, TlsSettings};

/// Creates the TLS settings of each connection.
///
/// # Errors
/// If a file cannot be read, lacks the expected content, or does not match the others.
pub(super) fn server(settings: &TlsSettings) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match settings.min_version {
        MinVersion::Tls12 => &[&version::TLS12, &version::TLS13],
        MinVersion::Tls13 => &[&version::TLS13],
    };
    let own = certificates(&settings.cert_file)?;
    let shown = settings.key_file.display();
    let context = || format!("cannot read a private key (PEM) from `{shown}`");
    let text = laggard_files::read_regular(&settings.key_file).with_context(context)?;
    let key = PrivateKeyDer::from_pem_slice(&text).with_context(context)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .context("cannot select TLS versions")?;
    let builder = match verifier(settings, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_single_cert(own, key).with_context(|| {
        format!(
            "cannot use the key `{shown}` with the certificate `{}`",
            settings.cert_file.display()
        )
    })?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A client connects once per response, so sessions are not stored.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(Arc::new(server))
}

/// Returns the verifier of client certificates; `None` if none are requested.
fn verifier(
    settings: &TlsSettings,
    provider: Arc<CryptoProvider>,
) -> anyhow::Result<Option<Arc<dyn ClientCertVerifier>>> {
    let Some(file) = &settings.client_ca_file else {
        return Ok(None);
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .with_context(|| format!("cannot trust the certificates of `{}`", file.display()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match settings.client_auth_type {
        ClientAuth::RequireAndVerifyClientCert => builder,
        ClientAuth::NoClientCert | ClientAuth::VerifyClientCertIfGiven => {
            builder.allow_unauthenticated()
        }
    };
    let verifier = builder
        .build()
        .with_context(|| format!("cannot trust the certificates of `{}`", file.display()))?;
    Ok(Some(verifier))
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let context = || format!("cannot read certificates (PEM) from `{}`", file.display());
    let text = laggard_files::read_regular(file).with_context(context)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.with_context(context)?;
    ensure!(
        !certificates.is_empty(),
        "`{}` does not contain a certificate (PEM)",
        file.display()
    );
    Ok(certificates)
}

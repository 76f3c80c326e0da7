//! TLS, as the file says.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use super::config::{ClientAuth, LeastVersion, TlsSettings};

/// What each connection needs to speak TLS.
///
/// # Errors
/// When a file cannot be read, has nothing of what it should, or does not fit the others.
pub(super) fn server(settings: &TlsSettings) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(ring::default_provider());
    let versions: &[&SupportedProtocolVersion] = match settings.min_version {
        LeastVersion::Tls12 => &[&version::TLS12, &version::TLS13],
        LeastVersion::Tls13 => &[&version::TLS13],
    };
    let own = certificates(&settings.cert_file)?;
    let shown = settings.key_file.display();
    let context = || format!("read a private key (PEM) from `{shown}`");
    let text = laggard_files::read_regular(&settings.key_file).with_context(context)?;
    let key = PrivateKeyDer::from_pem_slice(&text).with_context(context)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .context("choose versions of TLS")?;
    let builder = match verifier(settings, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_single_cert(own, key).with_context(|| {
        format!(
            "use the key `{shown}` with the certificate `{}`",
            settings.cert_file.display()
        )
    })?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A client comes once for each answer, and nothing is kept of it.
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    Ok(Arc::new(server))
}

/// Who tells whose certificates are taken; `None`: nobody is asked for one.
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
            .with_context(|| format!("trust the certificates of `{}`", file.display()))?;
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
        .with_context(|| format!("trust the certificates of `{}`", file.display()))?;
    Ok(Some(verifier))
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let context = || format!("read certificates (PEM) from `{}`", file.display());
    let text = laggard_files::read_regular(file).with_context(context)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.with_context(context)?;
    ensure!(
        !found.is_empty(),
        "`{}` has no certificate (PEM)",
        file.display()
    );
    Ok(found)
}

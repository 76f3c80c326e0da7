//! Configuration file of the server: `web.yml`, as in Prometheus' exporters.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// Maximum size of the file, bytes.
const MAX_FILE_SIZE: u64 = 256 << 10;
/// Maximum bcrypt cost. Each step doubles the time: 14 takes about a second.
const MAX_COST: u32 = 14;

/// Content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WebFile {
    pub(crate) tls_server_config: Option<TlsSettings>,
    /// Hash by `htpasswd -B`, per user.
    pub(crate) basic_auth_users: BTreeMap<String, String>,
}

/// TLS settings for clients.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSettings {
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
    #[serde(default)]
    pub(crate) client_auth_type: ClientAuth,
    pub(crate) client_ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) min_version: MinVersion,
}

/// Policy for client certificates. Unverified certificates do not prove anything, so three of the
/// five values of the convention are supported.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub(crate) enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

/// Oldest accepted TLS version.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub(crate) enum MinVersion {
    #[default]
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

impl WebFile {
    /// Reads the file. Relative paths start at its directory.
    ///
    /// # Errors
    /// If it cannot be read, or has unknown or unsupported content.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut text = String::new();
        let file =
            laggard_files::open_regular(path).with_context(|| format!("cannot read `{shown}`"))?;
        let read = file.take(MAX_FILE_SIZE + 1).read_to_string(&mut text);
        read.with_context(|| format!("cannot read `{shown}`"))?;
        ensure!(
            text.len() as u64 <= MAX_FILE_SIZE,
            "`{shown}` is larger than {} KiB and is not a web.yml",
            MAX_FILE_SIZE >> 10
        );
        let mut read = Self::parse(&text).with_context(|| format!("cannot parse `{shown}`"))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if let Some(tls) = &mut read.tls_server_config {
            for file in tls.files_mut() {
                *file = folder.join(&file);
            }
        }
        Ok(read)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let read: Option<Self> = serde_saphyr::from_str(text)
            .map_err(|err| anyhow::anyhow!("{}", err.without_snippet()))?;
        let read = read.unwrap_or_default();
        for (name, hash) in &read.basic_auth_users {
            let parts: bcrypt::HashParts = hash.parse().with_context(|| {
                format!(
                    "the password of user `{name}` is not a bcrypt hash; create one with `htpasswd -nBC 10 {name}`"
                )
            })?;
            ensure!(
                (4..=MAX_COST).contains(&parts.get_cost()),
                "user `{name}` has a hash of cost {}, which takes too long to try; make one of 4 to {MAX_COST}",
                parts.get_cost()
            );
            ensure!(
                !name.contains(':'),
                "user `{name}` has a colon, which no client can send"
            );
        }
        if let Some(tls) = &read.tls_server_config {
            let verifies = tls.client_auth_type != ClientAuth::NoClientCert;
            match (verifies, &tls.client_ca_file) {
                (true, None) => {
                    bail!("client_auth_type requires a client_ca_file with the trusted authorities")
                }
                (false, Some(_)) => {
                    bail!("client_ca_file requires client_auth_type: RequireAndVerifyClientCert")
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
        Ok(read)
    }

    /// Returns true if clients without a password or an accepted certificate are rejected, and the
    /// connection is encrypted.
    pub(crate) fn is_closed(&self) -> bool {
        self.tls_server_config.as_ref().is_some_and(|tls| {
            !self.basic_auth_users.is_empty()
                || tls.client_auth_type == ClientAuth::RequireAndVerifyClientCert
        })
    }
}

impl TlsSettings {
    fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.cert_file, &mut self.key_file]
            .into_iter()
            .chain(&mut self.client_ca_file)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.cert_file, &self.key_file]
            .into_iter()
            .chain(&self.client_ca_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let dir = tempfile::TempDir::new().unwrap();
        let pipe = dir.path().join("web.yml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());

        for path in [pipe.as_path(), Path::new("/dev/zero")] {
            let error = format!("{:#}", WebFile::read(path).unwrap_err());
            assert!(error.contains("not a regular file"), "{error}");
        }
    }

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuuSbRk0m0JtQWMGN9dYkF7n8gJc4vXYhG";

    fn refused(text: &str) -> String {
        format!("{:#}", WebFile::parse(text).unwrap_err())
    }

    #[test]
    fn empty_file_requires_no_credentials() {
        for text in ["", "# nothing\n", "{}"] {
            let read = WebFile::parse(text).unwrap();

            assert!(read.tls_server_config.is_none() && read.basic_auth_users.is_empty());
            assert!(!read.is_closed());
        }
    }

    #[test]
    fn unknown_key_is_refused_by_name() {
        for (text, name) in [
            ("tls_config: {}\n", "tls_config"),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  cipher_suites: []\n",
                "cipher_suites",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}\n",
                "TLS10",
            ),
            (
                "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAnyClientCert}\n",
                "RequireAnyClientCert",
            ),
            ("tls_server_config: {cert_file: a}\n", "key_file"),
        ] {
            let error = refused(text);

            assert!(error.contains(name), "for {text}: {error}");
        }
    }

    #[test]
    fn password_without_a_hash_or_with_a_high_cost_is_refused() {
        let user = |hash: &str| format!("basic_auth_users:\n  prometheus: {hash}\n");

        assert!(WebFile::parse(&user(HASH)).is_ok());
        assert!(refused(&user("secret")).contains("htpasswd"));
        let slow = HASH.replace("$04$", "$15$");
        assert!(refused(&user(&slow)).contains("cost 15"));
    }

    #[test]
    fn access_is_closed_only_with_credentials_and_tls() {
        let tls = "tls_server_config:\n  cert_file: a\n  key_file: b\n";
        let users = format!("basic_auth_users:\n  prometheus: {HASH}\n");
        let is_closed = |text: &str| WebFile::parse(text).unwrap().is_closed();

        assert!(!is_closed(tls));
        assert!(!is_closed(&users));
        assert!(is_closed(&format!("{tls}{users}")));
        let verified = "  client_ca_file: c\n  client_auth_type: RequireAndVerifyClientCert\n";
        assert!(is_closed(&format!("{tls}{verified}")));
        let given = "  client_ca_file: c\n  client_auth_type: VerifyClientCertIfGiven\n";
        assert!(!is_closed(&format!("{tls}{given}")));
        assert!(refused(&format!("{tls}  client_ca_file: c\n")).contains("client_auth_type"));
        assert!(
            refused(&format!(
                "{tls}  client_auth_type: RequireAndVerifyClientCert\n"
            ))
            .contains("client_ca_file")
        );
    }
}

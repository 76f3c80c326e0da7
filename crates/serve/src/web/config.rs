//! The file that says how clients are answered: `web.yml`, as of Prometheus' exporters.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// Larger is no such file, bytes.
const LONGEST: u64 = 256 << 10;
/// A password takes twice as long with each: 14 are about a second.
const MOST_COST: u32 = 14;

/// What the file says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WebFile {
    pub(crate) tls_server_config: Option<TlsSettings>,
    /// By name, what `htpasswd -B` makes of a password.
    pub(crate) basic_auth_users: BTreeMap<String, String>,
}

/// How clients are answered by TLS.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSettings {
    pub(crate) cert_file: PathBuf,
    pub(crate) key_file: PathBuf,
    #[serde(default)]
    pub(crate) client_auth_type: ClientAuth,
    pub(crate) client_ca_file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) min_version: LeastVersion,
}

/// Whether clients show certificates. Those that nobody verifies prove nothing, so of
/// the five words of the convention three are taken.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub(crate) enum ClientAuth {
    #[default]
    NoClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub(crate) enum LeastVersion {
    #[default]
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

impl WebFile {
    /// Reads the file, with its paths as seen from its folder.
    ///
    /// # Errors
    /// When it cannot be read, or says what we do not know or cannot do.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut text = String::new();
        let file = laggard_files::open_regular(path).with_context(|| format!("read `{shown}`"))?;
        let read = file.take(LONGEST + 1).read_to_string(&mut text);
        read.with_context(|| format!("read `{shown}`"))?;
        ensure!(
            text.len() as u64 <= LONGEST,
            "`{shown}` is larger than {} KiB; it is no web.yml",
            LONGEST >> 10
        );
        let mut read = Self::parse(&text).with_context(|| format!("understand `{shown}`"))?;
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
                    "user `{name}` has no hash of bcrypt; make one by `htpasswd -nBC 10 {name}`"
                )
            })?;
            ensure!(
                (4..=MOST_COST).contains(&parts.get_cost()),
                "user `{name}` has a hash of cost {}, which takes too long to try; make one of 4 to {MOST_COST}",
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
                    bail!("client_auth_type takes a client_ca_file, which says whom to trust")
                }
                (false, Some(_)) => bail!(
                    "client_ca_file is of no use without client_auth_type: RequireAndVerifyClientCert"
                ),
                (true, Some(_)) | (false, None) => {}
            }
        }
        Ok(read)
    }

    /// Whether who has no password and no certificate of ours is turned away, and nobody
    /// on the way reads along.
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
    fn an_empty_file_asks_for_nothing_and_closes_nothing() {
        for text in ["", "# nothing\n", "{}"] {
            let read = WebFile::parse(text).unwrap();

            assert!(read.tls_server_config.is_none() && read.basic_auth_users.is_empty());
            assert!(!read.is_closed());
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
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
            let said = refused(text);

            assert!(said.contains(name), "for {text}: {said}");
        }
    }

    #[test]
    fn a_password_that_is_no_hash_or_takes_too_long_is_refused() {
        let user = |hash: &str| format!("basic_auth_users:\n  prometheus: {hash}\n");

        assert!(WebFile::parse(&user(HASH)).is_ok());
        assert!(refused(&user("secret")).contains("htpasswd"));
        let slow = HASH.replace("$04$", "$15$");
        assert!(refused(&user(&slow)).contains("cost 15"));
    }

    #[test]
    fn only_passwords_or_certificates_behind_tls_close_it() {
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

//! Place in an object store.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{ObjectStore, RetryConfig};
use tokio::runtime::{Builder, Runtime};

/// Maximum time of the retries of a request, with growing pauses.
const MAX_RETRY_TIME: Duration = Duration::from_secs(60);
/// Maximum number of retries.
const RETRIES: usize = 8;

/// Objects below a prefix of a bucket.
#[derive(Debug)]
pub struct Bucket {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Key,
    pub(crate) runtime: Runtime,
    name: String,
}

impl Bucket {
    /// Returns the place in an object store that a path of the command line names, if it names one.
    pub fn named(path: &Path) -> Option<&str> {
        path.to_str().filter(|text| text.starts_with("s3:"))
    }

    /// Opens `s3://BUCKET/PREFIX`, without a request. Credentials, region and endpoint come from
    /// the environment (`AWS_*`), as for the tools of AWS.
    ///
    /// # Errors
    /// If it is not the URL of a bucket, or if the environment is contradictory.
    pub fn open(url: &str) -> anyhow::Result<Self> {
        let (bucket, prefix) = parts(url)?;
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: MAX_RETRY_TIME,
            ..RetryConfig::default()
        };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_retry(retry);
        // An endpoint without TLS in the environment is an explicit request for it.
        let endpoints = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
        let named = endpoints
            .iter()
            .find_map(|key| builder.get_config_value(key));
        if named.is_some_and(|endpoint| endpoint.starts_with("http://")) {
            builder = builder.with_allow_http(true);
        }
        let store = builder
            .build()
            .with_context(|| format!("cannot open `{url}`; see AWS_* in the environment"))?;
        Self::new(Arc::new(store), prefix, format!("s3://{bucket}"))
    }

    /// Opens the objects below `prefix` in any store. `root` is its name in messages.
    ///
    /// # Errors
    /// If the prefix is invalid, or if a thread cannot be created.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, root: String) -> anyhow::Result<Self> {
        let prefix =
            Key::parse(prefix).with_context(|| format!("cannot use the prefix `{prefix}`"))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start threads for requests")?;
        Ok(Self {
            store,
            prefix,
            runtime,
            name: root,
        })
    }

    /// Returns the URL of a key.
    pub(crate) fn url(&self, key: &Key) -> String {
        format!("{}/{key}", self.name)
    }
}

/// Splits `s3://BUCKET/PREFIX` into bucket and prefix.
fn parts(url: &str) -> anyhow::Result<(&str, &str)> {
    let named = url.strip_prefix("s3://").map(|rest| {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        (bucket, prefix.trim_matches('/'))
    });
    let is_bucket = |name: &str| {
        let mut letters = name.bytes();
        !name.is_empty() && letters.all(|c| c.is_ascii_alphanumeric() || b"-._".contains(&c))
    };
    named
        .filter(|(bucket, _)| is_bucket(bucket))
        .with_context(|| {
            format!("`{url}` is not a place in an object store; write s3://BUCKET/PREFIX")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_split_into_bucket_and_prefix() {
        for (url, expected) in [
            ("s3://latency", ("latency", "")),
            ("s3://latency/", ("latency", "")),
            ("s3://latency/fleet/eu", ("latency", "fleet/eu")),
            ("s3://latency/fleet/", ("latency", "fleet")),
        ] {
            assert_eq!(parts(url).unwrap(), expected, "for {url}");
        }
    }

    #[test]
    fn invalid_bucket_is_refused_with_a_hint() {
        for url in [
            "latency",
            "http://latency/a",
            "s3://",
            "s3:///a",
            "s3://a b/c",
            "s3://u@h/c",
        ] {
            let error = parts(url).unwrap_err().to_string();

            assert_eq!(
                error,
                format!("`{url}` is not a place in an object store; write s3://BUCKET/PREFIX")
            );
        }
    }
}

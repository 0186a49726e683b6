//! [`Objects`]: writes, reads and deletes objects by their keys.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};

use crate::address::Address;
use crate::client::{Connector, REQUEST_TIME};
use crate::error::Error;

/// Repetitions of a request: a person waits for most of them.
const RETRIES: usize = 2;

/// An object store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: String,
}

impl Objects {
    /// The store at this address. Nothing is asked of it yet.
    ///
    /// # Errors
    /// What is wrong with the address, or why the store cannot be set up: a setting is missing, or the folder is not there.
    pub fn open(address: &str) -> Result<Self, String> {
        let set_up = |error: object_store::Error| format!("the object store cannot be set up: {error}");
        match Address::parse(address)? {
            Address::Folder(path) => {
                let store = LocalFileSystem::new_with_prefix(path).map_err(set_up)?;
                Ok(Self { store: Arc::new(store), prefix: String::new() })
            }
            Address::S3 { bucket, prefix } => {
                // Its client takes the one of the process, which the first one to need it sets; it is the same for all.
                drop(rustls::crypto::ring::default_provider().install_default());
                let options = ClientOptions::new()
                    .with_allow_http(std::env::var_os("AWS_ALLOW_HTTP").is_some_and(|allow| allow == "true"));
                let retries = RetryConfig {
                    max_retries: RETRIES,
                    retry_timeout: REQUEST_TIME,
                    ..RetryConfig::default()
                };
                let builder =
                    AmazonS3Builder::from_env().with_bucket_name(bucket).with_http_connector(Connector);
                let store = builder.with_client_options(options).with_retry(retries).build();
                Ok(Self { store: Arc::new(store.map_err(set_up)?), prefix })
            }
        }
    }

    /// Writes an object, all of it or nothing.
    pub async fn put(&self, key: &str, pieces: Vec<Bytes>) -> Result<(), Error> {
        let payload: PutPayload = pieces.into_iter().collect();
        self.store.put(&self.path(key), payload).await.map_err(|error| Error::of(&error, key))?;
        Ok(())
    }

    /// Reads a part of an object; less, if the object ends before.
    ///
    /// # Errors
    /// [`Error::NotThere`], [`Error::Unavailable`].
    pub async fn part(&self, key: &str, bytes: Range<u64>) -> Result<Bytes, Error> {
        self.store.get_range(&self.path(key), bytes).await.map_err(|error| Error::of(&error, key))
    }

    /// Deletes an object, if it is there.
    pub async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.store.delete(&self.path(key)).await.map_err(|error| Error::of(&error, key)) {
            Ok(()) | Err(Error::NotThere(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes, reads and deletes an object, to find out whether that is possible.
    pub async fn check(&self) -> Result<(), Error> {
        const KEY: &str = "houston-check";
        self.put(KEY, vec![Bytes::from_static(b"ok")]).await?;
        self.part(KEY, 0..2).await?;
        self.delete(KEY).await
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }
}

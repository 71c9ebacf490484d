//! A store whose listings take time: entry by entry, each as it stands then.
//!
//! The worst that a listing may do: an object that stands all along is listed, one that comes or goes meanwhile may
//! be or not. Downwards a checkpoint is missed that is completed at a place already passed, and an older one that is
//! deleted before its place is reached, too; upwards a claim is missed, and what its leader then writes is seen.

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::*;

#[derive(Debug)]
pub struct TornListing {
    pub inner: Arc<dyn ObjectStore>,
    /// A digest of all entries that listings have given.
    pub listed: Arc<AtomicU64>,
    pub order: Order,
}

/// In which order a listing goes through the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Upwards,
    Downwards,
}

impl fmt::Display for TornListing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TornListing({})", self.inner)
    }
}

async fn a_step() {
    let mut first = true;
    std::future::poll_fn(|_| {
        if std::mem::take(&mut first) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
}

#[async_trait]
impl ObjectStore for TornListing {
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let start = (self.inner.clone(), prefix.cloned(), None::<Path>);
        let (listed, order) = (self.listed.clone(), self.order);
        stream::try_unfold(
            (start, listed),
            move |((store, prefix, last), listed)| async move {
                let all: Vec<_> = store.list(prefix.as_ref()).try_collect().await?;
                let ahead = |meta: &ObjectMeta| match (&last, order) {
                    (None, _) => true,
                    (Some(last), Order::Upwards) => meta.location > *last,
                    (Some(last), Order::Downwards) => meta.location < *last,
                };
                let ahead = all.into_iter().filter(ahead);
                let next = match order {
                    Order::Upwards => ahead.min_by(|a, b| a.location.cmp(&b.location)),
                    Order::Downwards => ahead.max_by(|a, b| a.location.cmp(&b.location)),
                };
                let seen = (
                    listed.load(Relaxed),
                    next.as_ref().map(|meta| meta.location.to_string()),
                );
                let mut hasher = DefaultHasher::new();
                seen.hash(&mut hasher);
                listed.store(hasher.finish(), Relaxed);
                let Some(next) = next else { return Ok(None) };
                a_step().await;
                let location = next.location.clone();
                Ok(Some((next, ((store, prefix, Some(location)), listed))))
            },
        )
        .boxed()
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        l: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(l, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

//! Copying objects between directories, inside one store or from one to another.

use object_store::{CopyMode, CopyOptions, ObjectStoreExt};

use super::StoreDir;
use crate::error::{Problem, StorageError};

/// Bytes copied at a time between two stores.
const COPY_PART_BYTES: u64 = 16 << 20;

impl StoreDir {
    /// Copies an object of `from` here under a name that must not exist yet: a hard link or the store's own copy
    /// inside one store, through this process otherwise. The sizes are compared afterwards.
    pub(crate) async fn copy_from(
        &self,
        operation: &'static str,
        from: &Self,
        source: &str,
        target: &str,
    ) -> Result<u64, StorageError> {
        let source_object = from.object(operation, source)?;
        let target_object = self.object(operation, target)?;
        let size = from
            .store
            .head(&source_object)
            .await
            .map_err(|e| from.error(operation, source, e))?
            .size;
        let linked = if self.same_store(from) {
            let options = CopyOptions::new().with_mode(CopyMode::Create);
            // Not every store and file system can (another mount, a size limit): then the bytes travel.
            self.store
                .copy_opts(&source_object, &target_object, options)
                .await
                .is_ok()
        } else {
            false
        };
        if !linked {
            self.copy_bytes(operation, from, source, target, size).await?;
        }
        let copied = self
            .store
            .head(&target_object)
            .await
            .map_err(|e| self.error(operation, target, e))?
            .size;
        if copied == size {
            return Ok(size);
        }
        let detail = format!("{copied} bytes of {size} arrived");
        Err(StorageError::new(
            operation,
            self.describe(target),
            Problem::Corrupt { detail },
        ))
    }

    async fn copy_bytes(
        &self,
        operation: &'static str,
        from: &Self,
        source: &str,
        target: &str,
        size: u64,
    ) -> Result<(), StorageError> {
        let mut upload = self.upload(operation, target).await?;
        let mut at = 0;
        while at < size {
            let end = size.min(at + COPY_PART_BYTES);
            let (bytes, _) = from.read_range(operation, source, at..end).await?;
            if bytes.is_empty() {
                break; // Truncated meanwhile; the size check says so.
            }
            at += bytes.len() as u64;
            upload
                .put_part(bytes.into())
                .await
                .map_err(|error| self.error(operation, target, error))?;
        }
        upload
            .complete()
            .await
            .map_err(|error| self.error(operation, target, error))?;
        Ok(())
    }
}

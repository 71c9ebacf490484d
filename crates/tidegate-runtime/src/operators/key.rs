//! Key selectors without their closure type: asked for a run of records at a time.

use tidegate_types::codec::Key;
use tidegate_types::hash::{HashError, key_hash};

/// Takes keys out of records. One virtual call serves a run of records; the user's closure is inlined into it.
pub trait KeySelector<T, K>: Send + Sync {
    /// The keys of `records`, appended.
    fn select(&self, records: &[T], keys: &mut Vec<K>);

    /// The key hashes of `records`, appended.
    ///
    /// # Errors
    /// When a key can't be hashed.
    fn hash(&self, records: &[T], hashes: &mut Vec<u64>) -> Result<(), HashError>;
}

impl<T, K: Key, F: Fn(&T) -> K + Send + Sync> KeySelector<T, K> for F {
    fn select(&self, records: &[T], keys: &mut Vec<K>) {
        keys.extend(records.iter().map(self));
    }

    fn hash(&self, records: &[T], hashes: &mut Vec<u64>) -> Result<(), HashError> {
        hashes.reserve(records.len());
        for record in records {
            hashes.push(key_hash(&self(record))?);
        }
        Ok(())
    }
}

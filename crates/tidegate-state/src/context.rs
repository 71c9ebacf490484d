//! The key that an operator works on, as every access to keyed state names it.

use std::fmt;

/// One key with its hash and the time of the access: what every access to keyed state starts from.
///
/// The runtime makes one per record from the batch's hash column; it is three words and copied freely. `hash`
/// must be [`tidegate_types::hash::key_hash`] of `key`; a wrong one makes the entry unfindable, never unsound.
pub struct KeyContext<'a, K> {
    /// The key.
    pub key: &'a K,
    /// Its hash.
    pub hash: u64,
    /// Processing time in milliseconds since the Unix epoch: the clock of time-to-live.
    pub now_ms: i64,
}

impl<'a, K> KeyContext<'a, K> {
    /// The context of `key`.
    pub fn new(key: &'a K, hash: u64, now_ms: i64) -> Self {
        Self { key, hash, now_ms }
    }
}

impl<K> Clone for KeyContext<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for KeyContext<'_, K> {}

impl<K: fmt::Debug> fmt::Debug for KeyContext<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyContext")
            .field("key", self.key)
            .field("hash", &format_args!("{:#018x}", self.hash))
            .field("now_ms", &self.now_ms)
            .finish()
    }
}

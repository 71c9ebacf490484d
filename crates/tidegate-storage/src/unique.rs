//! Writing under a name that nobody else uses: what state files, intents and savepoints have in common.
//!
//! Create-only all the same: a second writer of one name would be a fault of ours that must not destroy anything.
//! A store's own retries may answer "exists" to the write that succeeded before, so that and every unclear error
//! are settled by comparing bytes. Decisions are different, since others compete for their names
//! ([`crate::decision`]).

use object_store::PutPayload;

use crate::dir::{Create, StoreDir};
use crate::error::{ErrorKind, Problem, StorageError};

/// How often one call writes and reads back before it reports that the outcome is unclear. A store that fails this
/// often in a row needs the caller's back-off, not a tighter loop.
pub const WRITE_TRIES: u32 = 3;

/// Writes an object under a name that nobody else uses. "Exists" and an unclear error are answered by comparing.
pub(crate) async fn put_unique(
    dir: &StoreDir,
    operation: &'static str,
    path: &str,
    payload: PutPayload,
) -> Result<(), StorageError> {
    let size = payload.content_length() as u64;
    let mut tries_left = WRITE_TRIES;
    loop {
        tries_left -= 1;
        let wrote = match dir.put_new(operation, path, payload.clone()).await {
            Ok(Create::Created) => return Ok(()),
            Ok(Create::Exists) => Ok(()),
            Err(error) => Err(error),
        };
        match (dir.read(operation, path, size).await, wrote) {
            (Ok(Some(found)), _) if same_bytes(&found, &payload) => {
                if let Some((parent, _)) = path.rsplit_once('/') {
                    dir.sync_local(operation, parent)?;
                }
                dir.sync_local(operation, "")?;
                return Ok(());
            }
            (Ok(Some(_)), _) => {
                return Err(StorageError::bug(
                    operation,
                    dir.describe(path),
                    "a unique name was used twice",
                ));
            }
            (_, Err(error)) if tries_left == 0 || error.kind() != ErrorKind::Retry => return Err(error),
            (Err(error), Ok(())) if tries_left == 0 => return Err(error),
            (Ok(None), Ok(())) if tries_left == 0 => {
                let detail = "it is said to exist and isn't there".to_owned();
                return Err(StorageError::new(
                    operation,
                    dir.describe(path),
                    Problem::Undetermined { detail },
                ));
            }
            _ => {}
        }
    }
}

fn same_bytes(found: &[u8], payload: &PutPayload) -> bool {
    let mut rest = found;
    payload
        .iter()
        .all(|piece| match rest.split_at_checked(piece.len()) {
            Some((head, tail)) => {
                rest = tail;
                head == &piece[..]
            }
            None => false,
        })
        && rest.is_empty()
}

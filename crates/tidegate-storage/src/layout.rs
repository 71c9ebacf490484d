//! Where everything stands: the one place that builds a path and takes one apart.
//!
//! ```text
//! <dir>/<job>/                                   job id, percent-encoded
//!     leader.lock                                local stores: who runs the job
//!     chk-<n>/_metadata                          the decision on checkpoint n
//!     chk-<n>/n<n>-v<v>-<s>-a<a>-e<e>-<nonce>.state      what subtask s of vertex v wrote
//!     chk-<n>/n<n>-coordinator-a<a>-e<e>-<nonce>.state   what the coordinator wrote
//!     chk-<n>/savepoint-e<e>-<nonce>.intent      where a savepoint is being copied to
//!     shared/n<n>-v<v>-….state                   files that several checkpoints may name
//! <target>/savepoint-<job prefix>-<nonce>/       a savepoint: _metadata and its own copy of every file
//! ```
//!
//! A file's name says who wrote it under which leader, so that a file of an older leader can be told from one
//! that a newer leader is writing without asking anybody ([`crate::retention`] depends on it). Relative paths
//! use `/` on every platform. Does not own: what the files hold.

use std::fmt;

use tidegate_types::{AttemptNumber, CheckpointId, JobId, LeaderEpoch, SubtaskId, SubtaskIndex, VertexId};

use crate::error::{Problem, StorageError};
use crate::nonce::Nonce;

/// The decision object's name, in a checkpoint's and in a savepoint's directory.
pub const METADATA: &str = "_metadata";
/// The directory of files that several checkpoints may name.
pub const SHARED: &str = "shared";
/// The lock file of local stores.
pub const LOCK: &str = "leader.lock";

const CHECKPOINT_PREFIX: &str = "chk-";
const SAVEPOINT_PREFIX: &str = "savepoint-";
const STATE_SUFFIX: &str = ".state";
const INTENT_SUFFIX: &str = ".intent";

/// The longest encoded job id, in bytes. File systems allow 255 for a name.
pub const MAX_JOB_NAME_BYTES: usize = 200;

/// Characters of a job id that a savepoint's directory shows, as in Flink.
const SAVEPOINT_JOB_PREFIX_CHARS: usize = 6;

/// The name of a job's directory: its id with everything but ASCII letters, digits, `-`, `_` and inner dots
/// percent-encoded.
///
/// # Errors
/// [`Problem::BadJobId`] if the id is empty or encodes to more than [`MAX_JOB_NAME_BYTES`].
pub fn job_dir_name(job: &JobId) -> Result<String, StorageError> {
    let refuse = |reason: String| {
        Err(StorageError::new(
            "name the directory of",
            job.as_str(),
            Problem::BadJobId {
                job: job.clone(),
                reason,
            },
        ))
    };
    if job.as_str().is_empty() {
        return refuse("it is empty".to_owned());
    }
    let name = encode(job.as_str());
    if name.len() > MAX_JOB_NAME_BYTES {
        return refuse(format!(
            "its encoded form takes {} bytes, {MAX_JOB_NAME_BYTES} are allowed",
            name.len()
        ));
    }
    Ok(name)
}

/// The job whose directory has this name; `None` if [`job_dir_name`] never makes it.
pub fn job_of_dir_name(name: &str) -> Option<JobId> {
    let job = JobId::new(decode(name)?);
    (job_dir_name(&job).ok()? == name).then_some(job)
}

fn encode(text: &str) -> String {
    let last = text.len().saturating_sub(1);
    let mut out = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        // A leading dot hides a file (and `.` and `..` are taken); a trailing one is lost on Windows.
        let inner_dot = byte == b'.' && at != 0 && at != last;
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' || inner_dot {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

/// `chk-<n>`.
pub fn checkpoint_dir(id: CheckpointId) -> String {
    format!("{CHECKPOINT_PREFIX}{id}")
}

/// The checkpoint that a directory called `name` belongs to.
pub fn checkpoint_of_dir(name: &str) -> Option<CheckpointId> {
    number(name.strip_prefix(CHECKPOINT_PREFIX)?).map(CheckpointId)
}

/// `chk-<n>/_metadata`.
pub fn metadata(id: CheckpointId) -> String {
    format!("{CHECKPOINT_PREFIX}{id}/{METADATA}")
}

/// `savepoint-<job prefix>-<nonce>`: the name of a savepoint's directory.
pub fn savepoint_dir(job: &JobId, nonce: Nonce) -> String {
    let prefix: String = job
        .as_str()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(SAVEPOINT_JOB_PREFIX_CHARS)
        .collect();
    let prefix = if prefix.is_empty() {
        "job".to_owned()
    } else {
        prefix
    };
    format!("{SAVEPOINT_PREFIX}{prefix}-{nonce}")
}

/// Whether a directory of this name may be a savepoint.
pub fn is_savepoint_dir(name: &str) -> bool {
    let Some((prefix, nonce)) = name
        .strip_prefix(SAVEPOINT_PREFIX)
        .and_then(|rest| rest.rsplit_once('-'))
    else {
        return false;
    };
    !prefix.is_empty() && Nonce::parse(nonce).is_some()
}

/// Who writes a state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Writer {
    /// A subtask: its own state.
    Subtask(SubtaskId),
    /// The coordinator: inline state that didn't fit into `_metadata`.
    Coordinator,
}

/// The unique name of a state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateFileName {
    /// The checkpoint it is written for.
    pub checkpoint: CheckpointId,
    /// Who writes it.
    pub writer: Writer,
    /// The writer's attempt.
    pub attempt: AttemptNumber,
    /// The leader under which it is written.
    pub epoch: LeaderEpoch,
    /// Tells two tries of one attempt apart.
    pub nonce: Nonce,
}

impl StateFileName {
    /// Its path in its checkpoint's own directory.
    pub fn in_checkpoint(&self) -> String {
        format!("{}/{self}", checkpoint_dir(self.checkpoint))
    }

    /// Its path among the files that several checkpoints may name.
    pub fn in_shared(&self) -> String {
        format!("{SHARED}/{self}")
    }

    /// Takes a name apart; `None` if `Display` never makes it.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(STATE_SUFFIX)?.split('-');
        let checkpoint = CheckpointId(number(parts.next()?.strip_prefix('n')?)?);
        let writer = match parts.next()? {
            "coordinator" => Writer::Coordinator,
            vertex => {
                let vertex = VertexId(small(vertex.strip_prefix('v')?)?);
                Writer::Subtask(SubtaskId::new(vertex, SubtaskIndex(small(parts.next()?)?)))
            }
        };
        let attempt = AttemptNumber(small(parts.next()?.strip_prefix('a')?)?);
        let epoch = LeaderEpoch(number(parts.next()?.strip_prefix('e')?)?);
        let nonce = Nonce::parse(parts.next()?)?;
        parts.next().is_none().then_some(Self {
            checkpoint,
            writer,
            attempt,
            epoch,
            nonce,
        })
    }
}

impl fmt::Display for StateFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}-", self.checkpoint)?;
        match self.writer {
            Writer::Subtask(subtask) => write!(f, "v{}-{}", subtask.vertex, subtask.index)?,
            Writer::Coordinator => f.write_str("coordinator")?,
        }
        write!(
            f,
            "-a{}-e{}-{}{STATE_SUFFIX}",
            self.attempt, self.epoch, self.nonce
        )
    }
}

/// Says where a savepoint is being copied to; written before its first byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentName {
    /// The checkpoint that decides the savepoint.
    pub checkpoint: CheckpointId,
    /// The leader that copies.
    pub epoch: LeaderEpoch,
    /// The nonce in the savepoint's directory name.
    pub nonce: Nonce,
}

impl IntentName {
    /// Its path.
    pub fn path(&self) -> String {
        let dir = checkpoint_dir(self.checkpoint);
        format!(
            "{dir}/{SAVEPOINT_PREFIX}e{}-{}{INTENT_SUFFIX}",
            self.epoch, self.nonce
        )
    }

    fn parse(checkpoint: CheckpointId, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(SAVEPOINT_PREFIX)?.strip_suffix(INTENT_SUFFIX)?;
        let (epoch, nonce) = rest.strip_prefix('e')?.split_once('-')?;
        Some(Self {
            checkpoint,
            epoch: LeaderEpoch(number(epoch)?),
            nonce: Nonce::parse(nonce)?,
        })
    }
}

/// What stands at a path below a job's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// The decision on a checkpoint.
    Metadata(CheckpointId),
    /// A state file in the directory of `dir`.
    State {
        /// The directory's checkpoint.
        dir: CheckpointId,
        /// The file.
        name: StateFileName,
    },
    /// A file that several checkpoints may name.
    Shared(StateFileName),
    /// Where a savepoint is being copied to.
    Intent(IntentName),
    /// The lock file.
    Lock,
    /// Nothing this layout makes: never touched.
    Unknown,
}

/// What stands at `path`, relative to the job's directory.
pub fn parse(path: &str) -> Entry {
    if path == LOCK {
        return Entry::Lock;
    }
    let Some((dir, name)) = path.split_once('/') else {
        return Entry::Unknown;
    };
    if dir == SHARED {
        return StateFileName::parse(name).map_or(Entry::Unknown, Entry::Shared);
    }
    let Some(id) = checkpoint_of_dir(dir) else {
        return Entry::Unknown;
    };
    if name == METADATA {
        Entry::Metadata(id)
    } else if let Some(intent) = IntentName::parse(id, name) {
        Entry::Intent(intent)
    } else {
        StateFileName::parse(name).map_or(Entry::Unknown, |name| Entry::State { dir: id, name })
    }
}

/// The object that a local store's staging file `path` was to become: `object_store` writes `name#<digits>` and
/// links or renames it when it is complete, and hides such names from its listings.
pub fn staged_for(path: &str) -> Option<&str> {
    let (base, suffix) = path.rsplit_once('#')?;
    let digits = !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit());
    (digits && !base.is_empty()).then_some(base)
}

/// A decimal number exactly as `Display` writes it, so that no two names mean the same.
fn number(text: &str) -> Option<u64> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

fn small(text: &str) -> Option<u32> {
    number(text).and_then(|n| u32::try_from(n).ok())
}

#[cfg(test)]
mod tests;

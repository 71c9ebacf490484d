//! Checking that what stands there is what was written: every checksum, every size, and what nothing names.
//!
//! Reads everything, changes nothing. What is wrong goes into the report, all of it, not only the first; an error is
//! returned only if there is nothing to check. On a local disk the directory is walked, because the store's own listing
//! hides staging files. Beside a running job, files of a checkpoint in progress look like orphans and say so, and a
//! checkpoint that is retired meanwhile is passed over.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tidegate_types::snapshot::{Location, Section};
use tidegate_types::{CheckpointId, JobId, OperatorUid};

use crate::dir::StoreDir;
use crate::discover::{Snapshot, snapshot_at, strip_metadata};
use crate::error::{ErrorKind, Problem, StorageError};
use crate::layout::{self, Entry, METADATA};
use crate::metadata::{DecisionObject, MAX_BYTES};
use crate::state_file::HEADER_BYTES;
use crate::state_reader::MAX_REQUEST_BYTES;

const VERIFY: &str = "verify";

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// What was verified.
    pub location: String,
    /// Whether nothing is wrong. Orphans are not wrong, only useless.
    pub ok: bool,
    /// Each complete checkpoint that was read.
    pub checkpoints: Vec<VerifiedCheckpoint>,
    /// Everything that is wrong.
    pub problems: Vec<VerifyProblem>,
    /// Files that no complete checkpoint names.
    pub orphans: Vec<Orphan>,
}

/// A complete checkpoint that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifiedCheckpoint {
    /// Where it stands.
    pub location: String,
    /// The job that took it.
    pub job: JobId,
    /// Which.
    pub id: CheckpointId,
    /// Whether it is a savepoint.
    pub savepoint: bool,
    /// State files that it names.
    pub files: u64,
    /// Sections that were compared with their checksums.
    pub sections: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerifyProblem {
    /// The file.
    pub path: String,
    /// The operator whose state it is.
    pub uid: Option<OperatorUid>,
    /// Kind and name of the state.
    pub state: Option<String>,
    /// Where in the file.
    pub offset: Option<u64>,
    /// What is wrong, in words.
    pub text: String,
}

/// A file that no complete checkpoint names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Orphan {
    /// Relative to what was verified.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// A local store's unfinished write.
    pub staging: bool,
    /// It may belong to a checkpoint that a running job is taking.
    pub may_be_in_progress: bool,
}

impl From<&StorageError> for VerifyProblem {
    fn from(error: &StorageError) -> Self {
        let (uid, state, offset) = match error.problem() {
            Problem::CorruptSection {
                uid, state, offset, ..
            } => (Some(uid), Some(state), Some(*offset)),
            Problem::MissingSection { uid, state } => (Some(uid), Some(state), None),
            _ => (None, None, None),
        };
        let (uid, state) = (uid.cloned(), state.cloned());
        Self {
            path: error.path().to_owned(),
            uid,
            state,
            offset,
            text: error.problem().to_string(),
        }
    }
}

/// Verifies a checkpoint, a savepoint, or every checkpoint of a job's directory.
///
/// # Errors
/// What keeps it from being opened at all; the store's on listing. Damage is in the report.
pub async fn verify(location: &str) -> Result<VerifyReport, StorageError> {
    verify_at(StoreDir::open(strip_metadata(location))?).await
}

/// The same for a directory that is open already.
///
/// # Errors
/// As [`verify`].
pub async fn verify_at(dir: StoreDir) -> Result<VerifyReport, StorageError> {
    let mut report = VerifyReport {
        location: dir.url().to_owned(),
        ..VerifyReport::default()
    };
    let files = all_files(&dir).await?;
    let decided: BTreeSet<_> = files.keys().filter_map(|path| decision_of(path)).collect();
    if files.contains_key(METADATA) || decided.is_empty() {
        verify_one(&dir, &files, &mut report).await?;
    } else {
        verify_job(&dir, &files, &decided, &mut report).await?;
    }
    report.orphans.sort();
    report.ok = report.problems.is_empty();
    Ok(report)
}

fn decision_of(path: &str) -> Option<CheckpointId> {
    match layout::parse(path) {
        Entry::Metadata(id) => Some(id),
        _ => None,
    }
}

/// Objects, and on a local disk staging files, with their sizes.
async fn all_files(dir: &StoreDir) -> Result<BTreeMap<String, u64>, StorageError> {
    let mut files: BTreeMap<String, u64> = dir
        .list(VERIFY)
        .await?
        .into_iter()
        .map(|object| (object.path, object.size_bytes))
        .collect();
    files.extend(dir.walk_local(VERIFY)?.files);
    Ok(files)
}

/// A checkpoint's or savepoint's own directory.
async fn verify_one(
    dir: &StoreDir,
    files: &BTreeMap<String, u64>,
    report: &mut VerifyReport,
) -> Result<(), StorageError> {
    let snapshot = match snapshot_at(dir.clone()).await {
        Err(error) if error.kind() == ErrorKind::Corrupted => {
            report.problems.push((&error).into());
            return Ok(());
        }
        other => other?,
    };
    // Paths in a checkpoint are relative to the job's directory, in a savepoint to its own.
    let prefix = dir
        .below(snapshot.base())
        .or_else(|| below_local(dir, snapshot.base()));
    let below = |path: &str| {
        prefix
            .as_ref()
            .map_or(path.to_owned(), |prefix| format!("{prefix}/{path}"))
    };
    let sizes: BTreeMap<String, u64> = files.iter().map(|(path, size)| (below(path), *size)).collect();
    let named = verify_snapshot(&snapshot, &sizes, report).await;
    if !report.problems.is_empty() && dir.read(VERIFY, METADATA, MAX_BYTES).await?.is_none() {
        return Err(StorageError::new(VERIFY, dir.url(), Problem::NotThere));
    }
    for (path, size) in files
        .iter()
        .filter(|(path, _)| *path != METADATA && !named.contains(&below(path)))
    {
        report.orphans.push(orphan(path, *size, false));
    }
    Ok(())
}

/// Two openings of a local disk share no store; their paths tell.
fn below_local(dir: &StoreDir, base: &StoreDir) -> Option<String> {
    let below = dir.local_path()?.strip_prefix(base.local_path()?).ok()?;
    let text = below.to_str().filter(|text| !text.is_empty())?;
    Some(text.to_owned())
}

/// A job's directory: every decision, every complete checkpoint, every file.
async fn verify_job(
    dir: &StoreDir,
    files: &BTreeMap<String, u64>,
    decided: &BTreeSet<CheckpointId>,
    report: &mut VerifyReport,
) -> Result<(), StorageError> {
    let mut named = BTreeSet::new();
    let mut retired = BTreeSet::new();
    for id in decided {
        let mut of_one = VerifyReport::default();
        let names = verify_decision(dir, files, *id, &mut of_one).await?;
        // What retires a checkpoint deletes its decision before its files: gone together they are no damage.
        let stands = match of_one.problems.is_empty() {
            true => names.is_some(),
            false => dir
                .read(VERIFY, &layout::metadata(*id), MAX_BYTES)
                .await?
                .is_some(),
        };
        if stands {
            named.extend(names.unwrap_or_default());
            report.checkpoints.append(&mut of_one.checkpoints);
            report.problems.append(&mut of_one.problems);
        } else {
            retired.insert(*id);
        }
    }
    let newest = decided.last().copied().unwrap_or_default();
    for (path, size) in files {
        let checkpoint = match layout::parse(layout::staged_for(path).unwrap_or(path)) {
            Entry::Metadata(id) if layout::staged_for(path).is_some() => id,
            Entry::Metadata(_) | Entry::Lock => continue,
            Entry::State { name, .. } | Entry::Shared(name) => name.checkpoint,
            Entry::Intent(intent) => intent.checkpoint,
            Entry::Unknown => CheckpointId::default(),
        };
        if !named.contains(path) && !retired.contains(&checkpoint) {
            report.orphans.push(orphan(path, *size, checkpoint > newest));
        }
    }
    Ok(())
}

/// One decision of a job, and all of the checkpoint if it is complete; the files that it names, `None` if there is no
/// decision any more.
async fn verify_decision(
    dir: &StoreDir,
    files: &BTreeMap<String, u64>,
    id: CheckpointId,
    report: &mut VerifyReport,
) -> Result<Option<BTreeSet<String>>, StorageError> {
    let path = layout::metadata(id);
    let Some(bytes) = dir.read(VERIFY, &path, MAX_BYTES).await? else {
        return Ok(None);
    };
    match DecisionObject::decode(&bytes) {
        Err(problem) => {
            let error = StorageError::new(VERIFY, dir.describe(&path), problem);
            report.problems.push((&error).into());
        }
        Ok(object) if object.complete().is_some() => {
            match snapshot_at(dir.child(&layout::checkpoint_dir(id))).await {
                Ok(snapshot) => return Ok(Some(verify_snapshot(&snapshot, files, report).await)),
                Err(error) => report.problems.push((&error).into()),
            }
        }
        Ok(_) => {}
    }
    Ok(Some(BTreeSet::new()))
}

fn orphan(path: &str, size_bytes: u64, may_be_in_progress: bool) -> Orphan {
    let staging = layout::staged_for(path).is_some();
    Orphan {
        path: path.to_owned(),
        size_bytes,
        staging,
        may_be_in_progress,
    }
}

/// Reads all of one checkpoint; the files that it names. `sizes` are by path relative to the snapshot's base.
async fn verify_snapshot(
    snapshot: &Snapshot,
    sizes: &BTreeMap<String, u64>,
    report: &mut VerifyReport,
) -> BTreeSet<String> {
    let metadata = snapshot.metadata();
    let mut by_file: BTreeMap<&str, Vec<&Section>> = BTreeMap::new();
    for section in metadata.sections() {
        match &section.location {
            Location::File { path, .. } => by_file.entry(path).or_default().push(section),
            Location::Inline(_) => by_file.entry("").or_default().push(section),
        }
    }
    let (mut sections, mut bytes) = (0, 0);
    for (file, mut of_file) in by_file.clone() {
        of_file.sort_by_key(|section| offset(section));
        for batch in batches(&of_file) {
            let (good, good_bytes) = verify_batch(snapshot, batch, report).await;
            sections += good;
            bytes += good_bytes;
        }
        if let Some(size) = sizes.get(file) {
            check_size(snapshot, file, *size, &of_file, report);
        }
    }
    let files: BTreeSet<String> = by_file
        .keys()
        .filter(|file| !file.is_empty())
        .map(|file| (*file).to_owned())
        .collect();
    report.checkpoints.push(VerifiedCheckpoint {
        location: snapshot.location().to_owned(),
        job: snapshot.job().clone(),
        id: snapshot.id(),
        savepoint: metadata.kind.is_savepoint(),
        files: files.len() as u64,
        sections,
        bytes,
    });
    files
}

fn offset(section: &Section) -> u64 {
    match &section.location {
        Location::File { offset, .. } => *offset,
        Location::Inline(_) => 0,
    }
}

/// Sections in groups that are held in memory at once.
fn batches<'a>(sections: &'a [&'a Section]) -> impl Iterator<Item = &'a [&'a Section]> {
    let mut rest = sections;
    std::iter::from_fn(move || {
        let mut held = 0u64;
        let fits = |section: &&Section| {
            held = held.saturating_add(section.location.size_bytes());
            held <= MAX_REQUEST_BYTES
        };
        let count = rest
            .iter()
            .copied()
            .take_while(fits)
            .count()
            .max(1)
            .min(rest.len());
        let (batch, tail) = rest.split_at(count);
        rest = tail;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Reads some sections at once, and one by one if that fails, so that each failure is told.
async fn verify_batch(snapshot: &Snapshot, batch: &[&Section], report: &mut VerifyReport) -> (u64, u64) {
    let reader = snapshot.reader();
    if let Ok(read) = reader.read_sections(batch).await {
        return (
            read.len() as u64,
            read.iter().map(|bytes| bytes.len() as u64).sum(),
        );
    }
    let (mut good, mut good_bytes) = (0, 0);
    for section in batch {
        match reader.read_section(section).await {
            Ok(bytes) => {
                good += 1;
                good_bytes += bytes.len() as u64;
            }
            Err(error) => report.problems.push((&error).into()),
        }
    }
    (good, good_bytes)
}

/// A file that was written for this checkpoint alone holds what it names and nothing else.
fn check_size(snapshot: &Snapshot, file: &str, size: u64, sections: &[&Section], report: &mut VerifyReport) {
    let own = match layout::parse(file) {
        Entry::State { dir, name } => dir == snapshot.id() && name.checkpoint == snapshot.id(),
        _ => false,
    };
    let end = |section: &&Section| offset(section).saturating_add(section.location.size_bytes());
    let expected = sections.iter().map(end).max().unwrap_or(HEADER_BYTES);
    if own && size > expected {
        let text = format!("{size} bytes, its sections end at {expected}");
        report.problems.push(VerifyProblem {
            path: snapshot.base().describe(file),
            uid: None,
            state: None,
            offset: Some(expected),
            text,
        });
    }
}

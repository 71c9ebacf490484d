//! Deleting garbage: after a claim, after each completed or aborted checkpoint, and after closing.
//!
//! One function for all of them, because the rules are the same ([`crate::retention`]). Order: list, read the
//! decisions that aren't known, stop if one of them shows another leader ([`crate::claim`] needs this to come
//! before any deletion), plan, check the plan against what kept checkpoints name, and only then delete: unfinished
//! savepoints, then decisions, then files. On a local disk each step's directories are synced before the next
//! step, because unsynced deletes may come undone in any order.
//!
//! A file that can't be deleted is a warning: the next sweep finds it again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tidegate_types::CheckpointId;

use crate::error::{ErrorKind, StorageError};
use crate::layout::{self, Entry};
use crate::leadership::{DeletePermit, Kept, View};
use crate::local;
use crate::metadata::{AbortCause, Decision, DecisionObject};
use crate::retention::{Facts, Plan, Standing, plan};
use crate::store::JobStore;

const SWEEP: &str = "clean up";

/// Decisions read at the same time. Bounds memory (a decision may hold 16 MB of inline state) and hides the
/// latency of a remote store.
const READ_CONCURRENCY: usize = 8;

/// What a sweep did.
#[derive(Debug, Default, Serialize)]
pub struct SweepReport {
    /// Checkpoints whose decision was deleted.
    pub checkpoints: Vec<CheckpointId>,
    /// State files deleted.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Staging files of a local store that were left by crashed writers and are deleted now.
    pub staging: u64,
    /// Unfinished savepoints deleted, by location.
    pub savepoints: Vec<String>,
    /// What stands in the directory and is none of ours; left alone.
    pub unknown: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// Something that isn't as it should be and stops nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Warning {
    /// A checkpoint that the newest one names as retained is gone.
    RetainedMissing {
        /// Which.
        id: CheckpointId,
    },
    /// A decision can't be read. It and what it may name stay.
    Unreadable {
        /// Which.
        id: CheckpointId,
        /// What is wrong.
        error: String,
    },
    /// A complete checkpoint stands above the newest complete one; a person must have put it there. Nothing was
    /// deleted.
    Stray {
        /// Which.
        id: CheckpointId,
    },
    /// Something could not be deleted; the next sweep tries again.
    NotDeleted {
        /// Where.
        path: String,
        /// What is wrong.
        error: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RetainedMissing { id } => write!(
                f,
                "checkpoint {id} should still be retained and is gone; if nobody deleted it, check the disk"
            ),
            Self::Unreadable { id, error } => {
                write!(f, "left in place what can't be read of checkpoint {id}: {error}")
            }
            Self::Stray { id } => write!(f, "checkpoint {id} stands where none should; left alone"),
            Self::NotDeleted { path, error } => write!(f, "could not delete {path}: {error}"),
        }
    }
}

/// What stands in the job's directory.
struct Found {
    /// Paths (staging files too) and sizes.
    sizes: BTreeMap<String, u64>,
    decided: BTreeSet<CheckpointId>,
    empty_dirs: Vec<String>,
}

impl JobStore {
    /// Deletes what is garbage by `view`, which should be [`Leadership::view`](crate::Leadership::view) as of now.
    /// Never deletes what a kept checkpoint names, a savepoint, a claim, or a file of a newer leader.
    ///
    /// # Errors
    /// The store's on listing and reading; [`ErrorKind::Fenced`] if another leader was met, with nothing deleted by
    /// this call; [`ErrorKind::Bug`] if the plan would have deleted a named file, likewise.
    pub async fn sweep(&self, permit: &mut DeletePermit, view: &View) -> Result<SweepReport, StorageError> {
        permit.fence.check(SWEEP, self.dir.url())?;
        if permit.job != self.job {
            return Err(StorageError::bug(
                SWEEP,
                self.dir.url(),
                "the permit is of another job",
            ));
        }
        let mut report = SweepReport::default();
        let found = self.find().await?;
        let mut facts = Facts {
            epoch: permit.epoch,
            next: view.next,
            ..Facts::default()
        };
        self.read_decisions(permit, view, &found, &mut facts, &mut report)
            .await?;
        if view.newest_unreadable {
            return Ok(report);
        }
        collect_kept(permit, view, &mut facts, &mut report);
        // A closing object gives up everything complete below it.
        facts.floor = view
            .newest
            .max(view.closed)
            .max(closed_below(view, &facts))
            .unwrap_or_default();
        let strays: Vec<_> = strays(&facts).map(|id| Warning::Stray { id }).collect();
        if !strays.is_empty() {
            // What stands there doesn't fit together; deleting would bet on one reading of it.
            report.warnings.extend(strays);
            return Ok(report);
        }
        let plan = plan(&facts, found.sizes.keys().map(String::as_str));
        self.check_plan(&facts, &plan)?;
        self.carry_out(permit, view, &facts, &plan, &found, &mut report)
            .await;
        report.unknown = plan.unknown;
        Ok(report)
    }

    async fn find(&self) -> Result<Found, StorageError> {
        let mut sizes: BTreeMap<String, u64> = self
            .dir
            .list(SWEEP)
            .await?
            .into_iter()
            .map(|object| (object.path, object.size_bytes))
            .collect();
        let decided = sizes
            .keys()
            .filter_map(|path| match layout::parse(path) {
                Entry::Metadata(id) => Some(id),
                _ => None,
            })
            .collect();
        let walk = self.dir.walk_local(SWEEP)?;
        sizes.extend(
            walk.files
                .into_iter()
                .filter(|(path, _)| layout::staged_for(path).is_some()),
        );
        Ok(Found {
            sizes,
            decided,
            empty_dirs: walk.empty_dirs,
        })
    }

    /// Learns what every decision is; stops at one of another leader above this one's claim.
    async fn read_decisions(
        &self,
        permit: &mut DeletePermit,
        view: &View,
        found: &Found,
        facts: &mut Facts,
        report: &mut SweepReport,
    ) -> Result<(), StorageError> {
        for id in &found.decided {
            // What is pinned may come from another directory, where its id means something else.
            let known = view.known.get(id).filter(|_| !view.is_only_pinned(*id));
            if let Some(kept) = known.or_else(|| permit.kept.get(id)) {
                facts.decisions.insert(
                    *id,
                    Standing::Complete {
                        savepoint: kept.savepoint.clone(),
                    },
                );
            } else if let Some(standing) = permit.known.get(id) {
                facts.decisions.insert(*id, standing.clone());
            }
        }
        let unread: Vec<_> = found
            .decided
            .iter()
            .filter(|id| !facts.decisions.contains_key(id))
            .copied()
            .collect();
        let mut reads = stream::iter(unread)
            .map(|id| async move { (id, self.read_decision(id).await) })
            .buffered(READ_CONCURRENCY);
        while let Some((id, read)) = reads.next().await {
            let standing = match read {
                Ok(None) => continue,
                Ok(Some(object)) => {
                    if id > permit.claim && !object.same_leader(permit.epoch, permit.nonce) {
                        permit.fence.raise(&object);
                        return Err(self.fenced_by(SWEEP, &object));
                    }
                    remember(permit, view, id, object)
                }
                Err(error) if error.kind() == ErrorKind::Corrupted => {
                    report.warnings.push(Warning::Unreadable {
                        id,
                        error: error.to_string(),
                    });
                    Standing::Unreadable
                }
                Err(error) => return Err(error),
            };
            facts.decisions.insert(id, standing);
        }
        Ok(())
    }

    /// The same property as the plan's rules, checked on another path: nothing named is deleted.
    fn check_plan(&self, facts: &Facts, plan: &Plan) -> Result<(), StorageError> {
        let named = plan.files.iter().find(|path| facts.named.contains(*path));
        let kept = plan
            .metadata
            .iter()
            .find(|id| facts.kept.contains(id))
            .map(|id| layout::metadata(*id));
        match named.cloned().or(kept) {
            None => Ok(()),
            Some(path) => {
                let rule = "a kept checkpoint's file was about to be deleted";
                Err(StorageError::bug(SWEEP, self.dir.describe(&path), rule))
            }
        }
    }

    async fn carry_out(
        &self,
        permit: &mut DeletePermit,
        view: &View,
        facts: &Facts,
        plan: &Plan,
        found: &Found,
        report: &mut SweepReport,
    ) {
        let mut gone = Vec::new();
        for intent in &plan.intents {
            match self.settle_intent(intent, facts).await {
                Ok(deleted) => {
                    report.savepoints.extend(deleted);
                    gone.push(intent.path());
                }
                Err(error) => report
                    .warnings
                    .push(not_deleted(self.dir.describe(&intent.path()), &error)),
            }
        }
        self.delete_all(gone, report).await;
        let metadata: Vec<_> = plan.metadata.iter().map(|id| layout::metadata(*id)).collect();
        let deleted = self.delete_all(metadata, report).await;
        for path in &deleted {
            if let Entry::Metadata(id) = layout::parse(path) {
                permit.known.remove(&id);
                permit.kept.remove(&id);
                report.checkpoints.push(id);
            }
        }
        let files = files_without_decision(plan, &deleted);
        for path in self.delete_all(files, report).await {
            report.files += 1;
            report.bytes += found.sizes.get(&path).copied().unwrap_or(0);
        }
        self.tidy_local(view, plan, found, report);
    }

    /// Deletes objects; those that are gone. Their directories are durable without them when this returns.
    async fn delete_all(&self, paths: Vec<String>, report: &mut SweepReport) -> Vec<String> {
        let mut gone = Vec::with_capacity(paths.len());
        for (path, result) in self.dir.delete_many(SWEEP, paths).await {
            match result {
                Ok(()) => gone.push(path),
                Err(error) => report
                    .warnings
                    .push(not_deleted(self.dir.describe(&path), &error)),
            }
        }
        let dirs: BTreeSet<_> = gone
            .iter()
            .filter_map(|path| path.rsplit_once('/').map(|(dir, _)| dir))
            .collect();
        for dir in dirs {
            if let Err(error) = self.dir.sync_local(SWEEP, dir) {
                report.warnings.push(not_deleted(self.dir.describe(dir), &error));
            }
        }
        gone
    }

    /// Staging files and empty directories, which only a local disk has.
    fn tidy_local(&self, view: &View, plan: &Plan, found: &Found, report: &mut SweepReport) {
        if self.dir.local_path().is_none() {
            return;
        }
        for path in &plan.staging {
            match self.dir.local_file(path).map(|file| local::remove_file(&file)) {
                Some(Err(error)) => {
                    let path = self.dir.describe(path);
                    report.warnings.push(Warning::NotDeleted {
                        path,
                        error: error.to_string(),
                    });
                }
                _ => report.staging += 1,
            }
        }
        let touched = plan
            .files
            .iter()
            .chain(&plan.staging)
            .filter_map(|path| path.split_once('/'));
        let touched = touched.map(|(dir, _)| dir.to_owned());
        let emptied = plan.metadata.iter().map(|id| layout::checkpoint_dir(*id));
        let dirs: BTreeSet<String> = found
            .empty_dirs
            .iter()
            .cloned()
            .chain(touched)
            .chain(emptied)
            .collect();
        let decided = |dir: &String| layout::checkpoint_of_dir(dir).is_some_and(|id| id < view.next);
        for dir in dirs.iter().filter(|dir| decided(dir)) {
            if let Some(Err(error)) = self
                .dir
                .local_file(dir)
                .map(|dir| local::remove_dir_if_empty(&dir))
            {
                report.warnings.push(Warning::NotDeleted {
                    path: self.dir.describe(dir),
                    error: error.to_string(),
                });
            }
        }
        if let Err(error) = self.dir.sync_local(SWEEP, "") {
            report
                .warnings
                .push(not_deleted(self.dir.url().to_owned(), &error));
        }
    }
}

/// Collects what kept checkpoints name.
fn collect_kept(permit: &mut DeletePermit, view: &View, facts: &mut Facts, report: &mut SweepReport) {
    facts.kept = view.kept();
    permit.kept.retain(|id, _| facts.kept.contains(id));
    for id in &facts.kept {
        let kept = view.known.get(id).or_else(|| permit.kept.get(id));
        // Of one whose decision is gone the files stay even so: they may still be read.
        facts
            .named
            .extend(kept.iter().flat_map(|kept| kept.named.iter()).map(str::to_owned));
        // A pinned one may be a savepoint's, restored from elsewhere.
        if !facts.decisions.contains_key(id) && !view.is_only_pinned(*id) {
            report.warnings.push(Warning::RetainedMissing { id: *id });
        }
    }
}

/// Complete checkpoints above the newest one among what this leader had decided. What stands from `next` on was decided
/// while the directory was listed.
fn strays(facts: &Facts) -> impl Iterator<Item = CheckpointId> {
    let complete = |standing: &Standing| matches!(standing, Standing::Complete { .. });
    facts
        .decisions
        .iter()
        .filter(move |(id, s)| complete(s) && **id > facts.floor && **id < facts.next)
        .map(|(id, _)| *id)
}

/// The closing object of an earlier leader, if nothing is complete since: what is complete below it is garbage that
/// its sweep didn't get to.
fn closed_below(view: &View, facts: &Facts) -> Option<CheckpointId> {
    let closed = |standing: &Standing| matches!(standing, Standing::Permanent { closed: true });
    let newest = facts
        .decisions
        .iter()
        .filter(|(_, standing)| closed(standing))
        .map(|(id, _)| *id)
        .next_back();
    newest.filter(|_| view.newest.is_none())
}

/// Keeps of a decision what later sweeps need, so that they don't read it again.
fn remember(permit: &mut DeletePermit, view: &View, id: CheckpointId, object: DecisionObject) -> Standing {
    match &object.decision {
        Decision::Complete(metadata) => {
            let kept = Kept::of(metadata);
            let savepoint = kept.savepoint.clone();
            if view.kept().contains(&id) {
                permit.kept.insert(id, kept);
            }
            Standing::Complete { savepoint }
        }
        Decision::Aborted(cause) => {
            let standing = if cause.is_permanent() {
                Standing::Permanent {
                    closed: matches!(cause, AbortCause::Closed),
                }
            } else {
                Standing::Aborted
            };
            permit.known.insert(id, standing.clone());
            standing
        }
    }
}

/// The files that go: what a decision names that could not be deleted stays with it, so that nothing complete lacks
/// a file.
fn files_without_decision(plan: &Plan, deleted: &[String]) -> Vec<String> {
    let stays: BTreeSet<_> = plan
        .metadata
        .iter()
        .filter(|id| !deleted.contains(&layout::metadata(**id)))
        .collect();
    let goes = |path: &&String| match layout::parse(path) {
        Entry::State { dir, .. } => !stays.contains(&dir),
        _ => stays.is_empty(),
    };
    plan.files.iter().filter(goes).cloned().collect()
}

fn not_deleted(path: String, error: &StorageError) -> Warning {
    Warning::NotDeleted {
        path,
        error: error.to_string(),
    }
}

//! Verification: all damage is told, nothing whole is blamed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use tidegate_storage::verify::verify_at;
use tidegate_storage::*;
use tidegate_types::snapshot::SubtaskSnapshot;
use tidegate_types::*;

use crate::common::*;

/// Checkpoint 2 with one file of two sections, one inline section and one shared file.
fn job_at(store: &CheckpointStore) -> (JobStore, Claim) {
    let job = store.job(&job_id()).unwrap();
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let epoch = claim.leadership.epoch();
    let sections = [piece("source", "offsets", "aaaa"), piece("sum", "counts", "bbbb")];
    let filed =
        block_on(job.write_state_file(&file_name(2, 0, epoch, 1), Place::Checkpoint, 0, sections)).unwrap();
    let inline = block_on(job.write_state_file(
        &file_name(2, 1, epoch, 1),
        Place::Checkpoint,
        100,
        [piece("sum", "counts", "cccc")],
    ));
    let shared = block_on(write_one(&job, &file_name(2, 2, epoch, 1), Place::Shared, "dddd"));
    let snapshot = |n, sections| SubtaskSnapshot {
        subtask: subtask(n),
        sections,
        finished: false,
    };
    let subtasks = vec![
        snapshot(0, filed.sections),
        snapshot(1, inline.unwrap().sections),
        shared,
    ];
    block_on(job.decide(
        &mut claim.leadership,
        CheckpointId(2),
        complete(checkpoint(subtasks, &[])),
    ))
    .unwrap();
    (job, claim)
}

fn verified(dir: &StoreDir) -> VerifyReport {
    block_on(verify_at(dir.clone())).unwrap()
}

#[test]
fn what_is_whole_is_found_whole_in_every_store_and_from_every_end() {
    let root = tempfile::tempdir().unwrap();
    for store in [
        CheckpointStore::open(root.path().to_str().unwrap()).unwrap(),
        CheckpointStore::over(memory(), "memory:///"),
    ] {
        let (job, mut claim) = job_at(&store);
        for dir in [job.dir().clone(), job.dir().child("chk-2")] {
            let report = verified(&dir);
            assert!(report.ok && report.orphans.is_empty(), "{report:?}");
            let [checkpoint] = &report.checkpoints[..] else {
                panic!("{report:?}")
            };
            assert_eq!(
                (checkpoint.files, checkpoint.sections, checkpoint.bytes),
                (2, 4, 16)
            );
            assert!(serde_json::to_string(&report).unwrap().contains("\"ok\":true"));
        }
        let object = block_on(job.read_decision(CheckpointId(2))).unwrap().unwrap();
        let mut metadata = savepoint(object.complete().unwrap().subtasks.clone(), &[]);
        let write = job.write_savepoint(
            &claim.leadership,
            CheckpointId(3),
            store.root(),
            Nonce(3),
            &mut metadata,
        );
        block_on(write).unwrap();
        block_on(job.decide(&mut claim.leadership, CheckpointId(3), complete(metadata))).unwrap();
        let report = verified(&store.root().child(&layout::savepoint_dir(&job_id(), Nonce(3))));
        assert!(
            report.ok && report.orphans.is_empty() && report.checkpoints[0].savepoint,
            "{report:?}"
        );
        assert_eq!(report.checkpoints[0].bytes, 16);
    }
}

#[test]
fn every_damaged_section_is_told_and_the_good_ones_counted() {
    let store = memory();
    let (job, claim) = job_at(&CheckpointStore::over(store.clone(), "memory:///"));
    let epoch = claim.leadership.epoch();
    let path = file_name(2, 0, epoch, 1).in_checkpoint();
    let mut bytes = read_raw(&store, &path);
    bytes[17] ^= 4;
    bytes.extend_from_slice(b"more");
    write_raw(&store, &path, bytes);
    delete_raw(&store, &file_name(2, 2, epoch, 1).in_shared());
    let report = verified(job.dir());
    assert!(!report.ok);
    assert_eq!(report.checkpoints[0].sections, 2, "counts and the inline one");
    let of = |words: &str| {
        report
            .problems
            .iter()
            .find(|problem| problem.text.contains(words))
            .unwrap()
    };
    let checksum = of("checksum");
    assert_eq!(
        (checksum.offset, checksum.uid.as_ref().unwrap().as_str()),
        (Some(16), "source")
    );
    assert_eq!(checksum.state.as_deref(), Some("keyed state \"offsets\""));
    assert!(of("missing").path.contains("shared/"));
    assert!(of("its sections end at 24").path.contains("chk-2/"));
    assert_eq!(report.problems.len(), 3);
}

#[test]
fn a_damaged_metadata_is_a_finding_and_not_an_error() {
    let store = memory();
    let (job, _) = job_at(&CheckpointStore::over(store.clone(), "memory:///"));
    write_raw(&store, "chk-2/_metadata", b"zzz".to_vec());
    for dir in [job.dir().clone(), job.dir().child("chk-2")] {
        let report = verified(&dir);
        assert!(!report.ok && report.checkpoints.is_empty());
        assert!(report.problems[0].path.ends_with("chk-2/_metadata"), "{report:?}");
    }
    let error = block_on(verify_at(job.dir().child("chk-7"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FixConfiguration, "{error}");
}

#[test]
fn orphans_are_walked_for_and_staging_files_are_seen() {
    let root = tempfile::tempdir().unwrap();
    let (job, claim) = job_at(&CheckpointStore::open(root.path().to_str().unwrap()).unwrap());
    let dir = job.dir().local_path().unwrap();
    let epoch = claim.leadership.epoch();
    let late = file_name(2, 9, epoch, 1).in_checkpoint();
    let running = file_name(3, 9, epoch, 1).in_checkpoint();
    for (path, text) in [
        (late.as_str(), "12345"),
        (&running, "1"),
        ("chk-2/_metadata#1", "torn"),
        ("x.txt", ""),
    ] {
        let file = dir.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let report = verified(job.dir());
    assert!(report.ok, "useless, not wrong: {report:?}");
    let orphans: Vec<_> = report
        .orphans
        .iter()
        .map(|o| (o.path.as_str(), o.size_bytes, o.staging, o.may_be_in_progress))
        .collect();
    let expected = [
        ("chk-2/_metadata#1", 4, true, false),
        (late.as_str(), 5, false, false),
        (running.as_str(), 1, false, true),
        ("x.txt", 0, false, false),
    ];
    assert_eq!(orphans, expected);
    let report = verified(&job.dir().child("chk-2"));
    let names: Vec<_> = report.orphans.iter().map(|orphan| orphan.path.as_str()).collect();
    assert_eq!(names, ["_metadata#1", late.strip_prefix("chk-2/").unwrap()]);
}

/// A store in which a running job retires a checkpoint just before one of the reads: its decision first, then as many
/// of its files as it gets to.
#[derive(Debug)]
struct Retiring {
    inner: Arc<dyn ObjectStore>,
    /// In the order in which they go.
    paths: Vec<String>,
    reads_before: AtomicU64,
}

impl fmt::Display for Retiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Retiring({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Retiring {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        if self.reads_before.fetch_sub(1, Relaxed) == 0 {
            self.paths.iter().for_each(|path| delete_raw(&self.inner, path));
        }
        self.inner.get_opts(location, options).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[test]
fn a_checkpoint_that_is_retired_meanwhile_is_passed_over() {
    let mut passed_over = 0;
    for reads_before in 0.. {
        let mut was_last = false;
        // The decision alone; a file with it; all files with it.
        for many in 1..=3 {
            let store = memory();
            let (_, claim) = job_at(&CheckpointStore::over(store.clone(), "memory:///"));
            let epoch = claim.leadership.epoch();
            let files = [
                "chk-2/_metadata".to_owned(),
                file_name(2, 0, epoch, 1).in_checkpoint(),
                file_name(2, 2, epoch, 1).in_shared(),
            ];
            let retiring = Arc::new(Retiring {
                inner: store,
                paths: files[..many].to_vec(),
                reads_before: AtomicU64::new(reads_before),
            });
            let job = job_over(retiring.clone());
            let report = verified(job.dir());
            assert!(report.ok, "before read {reads_before}, {many} gone: {report:?}");
            assert!(
                report.orphans.is_empty(),
                "before read {reads_before}: {report:?}"
            );
            passed_over += usize::from(report.checkpoints.is_empty());
            // It came after the last read: nothing was retired.
            was_last = retiring.reads_before.load(Relaxed) < u64::MAX / 2;
        }
        if was_last {
            assert!(reads_before > 2, "decision, decision again, files");
            break;
        }
    }
    assert!(passed_over >= 3 * 2, "{passed_over}");
}

#[test]
fn a_checkpoint_that_is_retired_while_it_alone_is_read_is_gone_and_not_damaged() {
    let mut gone = 0;
    for reads_before in 0..6 {
        let store = memory();
        let (_, claim) = job_at(&CheckpointStore::over(store.clone(), "memory:///"));
        let epoch = claim.leadership.epoch();
        let job = job_over(Arc::new(Retiring {
            inner: store,
            paths: vec![
                "chk-2/_metadata".to_owned(),
                file_name(2, 0, epoch, 1).in_checkpoint(),
                file_name(2, 2, epoch, 1).in_shared(),
            ],
            reads_before: AtomicU64::new(reads_before),
        }));
        match block_on(verify_at(job.dir().child("chk-2"))) {
            Ok(report) => assert!(report.ok, "before read {reads_before}: {report:?}"),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Corrupted, "{error}");
                gone += 1;
            }
        }
    }
    assert!((2..6).contains(&gone), "{gone}");
}

#[test]
fn a_missing_file_of_a_checkpoint_that_stands_is_damage() {
    let store = memory();
    let (job, claim) = job_at(&CheckpointStore::over(store.clone(), "memory:///"));
    delete_raw(
        &store,
        &file_name(2, 0, claim.leadership.epoch(), 1).in_checkpoint(),
    );
    let report = verified(job.dir());
    assert!(!report.ok && report.checkpoints.len() == 1, "{report:?}");
}

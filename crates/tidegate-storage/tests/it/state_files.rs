//! State files: inline or not, streamed, read back, and every way in which they can be wrong.

use bytes::Bytes;
use tidegate_storage::fault::{Failure, Fault, FaultStore, OpKind, Script};
use tidegate_storage::layout;
use tidegate_storage::state_file::HEADER_BYTES;
use tidegate_storage::*;
use tidegate_types::snapshot::*;
use tidegate_types::*;

use crate::common::*;

const EPOCH: LeaderEpoch = LeaderEpoch(1);

/// Completes checkpoint 2 (after the claim of 1) with the sections given, and opens it as a restore would.
fn snapshot_of(job: &JobStore, sections: Vec<Section>) -> Snapshot {
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    let subtasks = vec![SubtaskSnapshot {
        subtask: subtask(0),
        sections,
        finished: false,
    }];
    let metadata = checkpoint(subtasks, &[]);
    block_on(job.decide(&mut claim.leadership, CheckpointId(2), complete(metadata))).unwrap();
    job.snapshot(block_on(job.read_decision(CheckpointId(2))).unwrap().unwrap())
        .unwrap()
}

#[test]
fn little_state_stays_inline_and_one_byte_more_makes_a_file() {
    let store = memory();
    let job = job_over(store.clone());
    let sections = || {
        [
            piece("a", "x", "12345"),
            piece("a", "y", ""),
            piece("b", "z", "67890"),
        ]
    };
    let name = file_name(2, 0, EPOCH, 7);
    let inline = block_on(job.write_state_file(&name, Place::Checkpoint, 10, sections())).unwrap();
    assert_eq!(inline.path(), None);
    assert!(
        inline
            .sections
            .iter()
            .all(|s| matches!(s.location, Location::Inline(_)))
    );
    assert_eq!(objects(&store), [""; 0]);

    let filed = block_on(job.write_state_file(&name, Place::Checkpoint, 9, sections())).unwrap();
    assert_eq!(filed.path(), Some(name.in_checkpoint().as_str()));
    assert_eq!(objects(&store), [name.in_checkpoint()]);
    let offsets: Vec<_> = filed
        .sections
        .iter()
        .map(|s| match &s.location {
            Location::File { offset, len, .. } => (*offset, *len),
            Location::Inline(_) => panic!("not inline"),
        })
        .collect();
    assert_eq!(
        offsets,
        [(HEADER_BYTES, 5), (HEADER_BYTES + 5, 0), (HEADER_BYTES + 5, 5)]
    );

    let all: Vec<Section> = inline.sections.into_iter().chain(filed.sections).collect();
    let snapshot = snapshot_of(&job, all);
    let read = read_all(&snapshot).unwrap();
    assert_eq!(read, ["12345", "", "67890", "12345", "", "67890"]);
}

#[test]
fn nothing_stored_is_nothing_written() {
    let store = memory();
    let job = job_over(store.clone());
    let written =
        block_on(job.write_state_file(&file_name(2, 0, EPOCH, 7), Place::Checkpoint, 0, [])).unwrap();
    assert!(written.sections.is_empty() && written.path().is_none());
    assert_eq!(objects(&store), [""; 0]);
}

#[test]
fn a_large_file_is_streamed_in_parts_and_reads_back_the_same() {
    let store = memory();
    let faults = FaultStore::new(store.clone(), |_| Fault::None);
    let job = job_over(std::sync::Arc::new(faults.clone()));
    // Sections that end before, on and far beyond the borders of parts.
    let sizes = [1usize, 10 << 20, (6 << 20) - 17, 40 << 20, 3];
    let sections: Vec<_> = sizes
        .iter()
        .enumerate()
        .map(|(n, size)| piece("big", &n.to_string(), Bytes::from(vec![n as u8 + 1; *size])))
        .collect();
    let name = file_name(2, 0, EPOCH, 1);
    let mut parts = 0;
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = counted.clone();
    faults.set_plan(move |op| {
        if op.kind == OpKind::PutPart {
            parts += 1;
            assert!(op.bytes <= 16 << 20, "part {parts} has {} bytes", op.bytes);
            counter.store(parts, std::sync::atomic::Ordering::Relaxed);
        }
        Fault::None
    });
    let written =
        block_on(job.write_state_file(&name, Place::Checkpoint, 256 << 10, sections.clone())).unwrap();
    assert_eq!(
        counted.load(std::sync::atomic::Ordering::Relaxed),
        4,
        "three full parts and the rest"
    );
    faults.set_plan(|_| Fault::None);
    let snapshot = snapshot_of(&job, written.sections);
    let read = read_all(&snapshot).unwrap();
    assert!(
        read.iter()
            .zip(&sections)
            .all(|(read, section)| *read == section.bytes)
    );
}

#[test]
fn a_failed_write_leaves_nothing_and_a_full_disk_says_so() {
    for (kind, bytes) in [
        (OpKind::Put, 100),
        (OpKind::PutPart, 40 << 20),
        (OpKind::CompleteUpload, 40 << 20),
    ] {
        for fault in [Fault::Before(Failure::DiskFull), Fault::After(Failure::DiskFull)] {
            let store = memory();
            let faults = FaultStore::new(
                store.clone(),
                Script::new().on(kind, "chk-2", 0, fault.clone()).plan(),
            );
            let job = job_over(std::sync::Arc::new(faults));
            let sections = [piece("a", "x", vec![1u8; bytes])];
            let result =
                block_on(job.write_state_file(&file_name(2, 0, EPOCH, 7), Place::Checkpoint, 0, sections));
            if let (OpKind::Put, Fault::After(_)) = (kind, &fault) {
                // Read back, it is there.
                assert!(result.is_ok());
                continue;
            }
            let error = result.unwrap_err();
            assert!(
                matches!(error.problem(), Problem::DiskFull { .. }),
                "{kind:?} {fault:?}: {error}"
            );
            assert!(error.to_string().contains("chk-2/n2-v1-0"), "{error}");
            assert_eq!(objects(&store), [""; 0], "{kind:?} {fault:?}");
        }
    }
}

#[test]
fn a_passing_fault_is_written_again() {
    for fault in [
        Fault::Before(Failure::Unavailable),
        Fault::After(Failure::Unavailable),
    ] {
        let script = Script::new().on(OpKind::Put, "chk-2", 0, fault).on(
            OpKind::Get,
            "chk-2",
            0,
            Fault::Before(Failure::Unavailable),
        );
        let faults = FaultStore::new(memory(), script.plan());
        let job = job_over(std::sync::Arc::new(faults));
        let sections = [piece("a", "x", "state")];
        let written =
            block_on(job.write_state_file(&file_name(2, 0, EPOCH, 7), Place::Checkpoint, 0, sections));
        assert!(written.is_ok());
    }
}

#[test]
fn an_unacknowledged_file_is_discarded_by_its_writer() {
    let store = memory();
    let job = job_over(store.clone());
    let name = file_name(2, 0, EPOCH, 7);
    let written = block_on(job.write_state_file(&name, Place::Shared, 0, [piece("a", "x", "s")])).unwrap();
    assert_eq!(objects(&store), [name.in_shared()]);
    block_on(written.discard(&job)).unwrap();
    assert_eq!(objects(&store), [""; 0]);
    block_on(job.delete_unacknowledged(&name.in_shared())).unwrap();
    block_on(job.claim(Nonce(1))).unwrap();
    for path in ["chk-1/_metadata", "leader.lock", "../other/chk-1/_metadata"] {
        assert_eq!(
            block_on(job.delete_unacknowledged(path)).unwrap_err().kind(),
            ErrorKind::Bug
        );
    }
    assert_eq!(objects(&store), ["chk-1/_metadata"]);
}

#[test]
fn a_damaged_missing_or_short_file_is_named_with_offset_operator_and_state() {
    let store = memory();
    let job = job_over(store.clone());
    let name = file_name(2, 0, EPOCH, 7);
    let sections = [piece("source", "a", "aaaa"), piece("sum", "counts", "bbbb")];
    let written = block_on(job.write_state_file(&name, Place::Checkpoint, 0, sections)).unwrap();
    let snapshot = snapshot_of(&job, written.sections);
    let path = name.in_checkpoint();
    let good = read_raw(&store, &path);
    let check = |bytes: Option<Vec<u8>>, kind: ErrorKind, words: &[&str]| {
        match bytes {
            Some(bytes) => write_raw(&store, &path, bytes),
            None => delete_raw(&store, &path),
        }
        let error = read_all(&snapshot).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(
            words
                .iter()
                .chain(&[path.as_str()])
                .all(|word| text.contains(word)),
            "{text}"
        );
    };
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    check(
        Some(flipped),
        ErrorKind::Corrupted,
        &["byte 20", "\"sum\"", "keyed state \"counts\"", "checksum"],
    );
    check(
        Some(good[..good.len() - 1].to_vec()),
        ErrorKind::Corrupted,
        &["\"sum\"", "the file ends at 23"],
    );
    check(
        Some(good[..16].to_vec()),
        ErrorKind::Corrupted,
        &["\"source\"", "the file ends at 16"],
    );
    check(
        Some(Vec::new()),
        ErrorKind::Corrupted,
        &["shorter than its header"],
    );
    check(
        Some([b"NOTSTATE", &good[8..]].concat()),
        ErrorKind::Corrupted,
        &["TIDESTAT"],
    );
    check(
        Some([&good[..8], &[2, 0], &good[10..]].concat()),
        ErrorKind::FixConfiguration,
        &["version 2"],
    );
    check(None, ErrorKind::RestoreAnother, &["missing", "\"source\""]);
    write_raw(&store, &path, good);
    assert_eq!(read_all(&snapshot).unwrap(), ["aaaa", "bbbb"]);
}

#[test]
fn inline_state_beyond_the_cap_is_spilled_largest_first() {
    let store = memory();
    let job = job_over(store.clone());
    let subtasks: Vec<_> = [10usize, 40, 20]
        .into_iter()
        .enumerate()
        .map(|(n, size)| {
            let sections = [piece("a", "x", vec![n as u8; size]), piece("a", "y", "tail")];
            let name = file_name(2, n as u32, EPOCH, 7);
            let written = block_on(job.write_state_file(&name, Place::Checkpoint, 1000, sections)).unwrap();
            SubtaskSnapshot {
                subtask: subtask(n as u32),
                sections: written.sections,
                finished: false,
            }
        })
        .collect();
    let mut metadata = checkpoint(subtasks, &[]);
    let before = metadata.clone();
    let name = StateFileName {
        writer: Writer::Coordinator,
        ..file_name(2, 0, EPOCH, 9)
    };
    assert_eq!(block_on(job.spill_inline(&name, 82, &mut metadata)).unwrap(), 0);
    assert_eq!(metadata, before);
    assert_eq!(block_on(job.spill_inline(&name, 40, &mut metadata)).unwrap(), 44);
    assert_eq!(metadata.inline_bytes(), 38);
    assert_eq!(metadata.state_bytes(), before.state_bytes());
    assert_eq!(objects(&store), [name.in_checkpoint()]);

    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    block_on(job.decide(&mut claim.leadership, CheckpointId(2), complete(metadata))).unwrap();
    let snapshot = job
        .snapshot(block_on(job.read_decision(CheckpointId(2))).unwrap().unwrap())
        .unwrap();
    let expected: Vec<_> = before
        .sections()
        .map(|section| match &section.location {
            Location::Inline(bytes) => bytes.clone(),
            Location::File { .. } => panic!("all were inline"),
        })
        .collect();
    assert_eq!(read_all(&snapshot).unwrap(), expected);
}

#[test]
fn many_sections_of_a_file_come_in_one_request() {
    let faults = FaultStore::new(memory(), |_| Fault::None);
    let job = job_over(std::sync::Arc::new(faults.clone()));
    let sections: Vec<_> = (0..500)
        .map(|n| piece("a", &n.to_string(), n.to_string()))
        .collect();
    let written =
        block_on(job.write_state_file(&file_name(2, 0, EPOCH, 7), Place::Checkpoint, 0, sections)).unwrap();
    let snapshot = snapshot_of(&job, written.sections);
    let before = faults.ops();
    let read = read_all(&snapshot).unwrap();
    assert_eq!(faults.ops() - before, 1);
    assert!(
        read.iter()
            .enumerate()
            .all(|(n, bytes)| bytes == n.to_string().as_bytes())
    );
}

#[test]
fn a_path_in_metadata_cannot_lead_out_of_the_directory() {
    let store = memory();
    let job = job_over(store.clone());
    let mut claim = block_on(job.claim(Nonce(1))).unwrap();
    for path in ["../other/secret", "chk-2/../../x", "chk-2/x", layout::LOCK] {
        let location = Location::File {
            path: path.to_owned(),
            offset: 16,
            len: 1,
        };
        let sections = vec![Section {
            head: head("a", "x"),
            crc: 0,
            location,
        }];
        let subtasks = vec![SubtaskSnapshot {
            subtask: subtask(0),
            sections,
            finished: false,
        }];
        let metadata = checkpoint(subtasks, &[]);
        let error =
            block_on(job.decide(&mut claim.leadership, CheckpointId(2), complete(metadata))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug, "{error}");
    }
}

#[test]
fn damaged_inline_state_names_its_checkpoint() {
    let job = job_over(memory());
    let location = Location::Inline("abc".into());
    let snapshot = snapshot_of(
        &job,
        vec![Section {
            head: head("sum", "counts"),
            crc: 1,
            location,
        }],
    );
    let error = read_all(&snapshot).unwrap_err();
    assert_eq!(
        (error.kind(), error.path()),
        (ErrorKind::Corrupted, "memory:///word%20count/chk-2/_metadata")
    );
    assert!(
        error
            .to_string()
            .contains("keyed state \"counts\" of operator \"sum\""),
        "{error}"
    );
}

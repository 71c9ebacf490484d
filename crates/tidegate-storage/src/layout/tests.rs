use object_store::path::Path;
use proptest::prelude::*;

use super::*;

fn state_names() -> impl Strategy<Value = StateFileName> {
    let writer = prop_oneof![
        Just(Writer::Coordinator),
        (any::<u32>(), any::<u32>())
            .prop_map(|(v, s)| Writer::Subtask(SubtaskId::new(VertexId(v), SubtaskIndex(s)))),
    ];
    (any::<u64>(), writer, any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(n, writer, a, e, nonce)| {
        StateFileName {
            checkpoint: CheckpointId(n),
            writer,
            attempt: AttemptNumber(a),
            epoch: LeaderEpoch(e),
            nonce: Nonce(nonce),
        }
    })
}

proptest! {
    #[test]
    fn a_job_id_survives_its_directory_name(id in "\\PC{1,40}|[-._%/a-zA-Z0-9 #]{1,40}") {
        let job = JobId::new(id);
        match job_dir_name(&job) {
            Ok(name) => {
                prop_assert_eq!(job_of_dir_name(&name), Some(job));
                // One segment, as the store and as every file system sees it, and never a staging name.
                let path = Path::parse(&name).expect("a valid object path");
                prop_assert_eq!(path.parts_count(), 1);
                prop_assert!(!name.starts_with('.') && !name.contains(['/', '\\', '#']));
                prop_assert_eq!(staged_for(&name), None);
            }
            Err(_) => prop_assert!(encode(job.as_str()).len() > MAX_JOB_NAME_BYTES),
        }
    }

    #[test]
    fn two_job_ids_never_share_a_directory(a in "[%.a2E/]{1,6}", b in "[%.a2E/]{1,6}") {
        prop_assume!(a != b);
        prop_assert_ne!(job_dir_name(&JobId::new(a)).ok(), job_dir_name(&JobId::new(b)).ok());
    }

    #[test]
    fn every_path_that_is_built_is_taken_apart_again(name in state_names(), id in any::<u64>()) {
        let id = CheckpointId(id);
        prop_assert_eq!(parse(&metadata(id)), Entry::Metadata(id));
        prop_assert_eq!(checkpoint_of_dir(&checkpoint_dir(id)), Some(id));
        prop_assert_eq!(parse(&name.in_checkpoint()), Entry::State { dir: name.checkpoint, name });
        prop_assert_eq!(parse(&name.in_shared()), Entry::Shared(name));
        let intent = IntentName { checkpoint: id, epoch: name.epoch, nonce: name.nonce };
        prop_assert_eq!(parse(&intent.path()), Entry::Intent(intent));
        for path in [metadata(id), name.in_checkpoint(), name.in_shared(), intent.path()] {
            prop_assert_eq!(staged_for(&path), None);
            let staging = format!("{path}#12");
            prop_assert_eq!(staged_for(&staging), Some(path.as_str()));
            prop_assert_eq!(parse(&staging), Entry::Unknown);
            prop_assert!(Path::parse(&path).is_ok());
        }
    }

    #[test]
    fn what_is_taken_apart_is_built_the_same(
        path in "(chk-[0-9]{1,3}|shared)/(n[0-9]{1,2}-(coordinator|v[0-9]{1,2}-[0-9]{1,2})-a[0-9]{1,2}-e[0-9]{1,2}-[0-9a-f]{16}\\.state|_metadata|savepoint-e[0-9]{1,2}-[0-9a-f]{16}\\.intent)"
    ) {
        match parse(&path) {
            Entry::Metadata(id) => prop_assert_eq!(metadata(id), path),
            Entry::State { dir, name } => prop_assert_eq!(format!("{}/{name}", checkpoint_dir(dir)), path),
            Entry::Shared(name) => prop_assert_eq!(name.in_shared(), path),
            Entry::Intent(name) => prop_assert_eq!(name.path(), path),
            Entry::Lock => prop_assert!(false, "no lock among them"),
            Entry::Unknown => {}
        }
    }

    #[test]
    fn anything_may_stand_there(path in "\\PC{0,60}") {
        parse(&path);
        job_of_dir_name(&path);
        staged_for(&path);
        is_savepoint_dir(&path);
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let name = StateFileName {
        checkpoint: CheckpointId(7),
        writer: Writer::Subtask(SubtaskId::new(VertexId(2), SubtaskIndex(0))),
        attempt: AttemptNumber(1),
        epoch: LeaderEpoch(5),
        nonce: Nonce(0xbeef),
    };
    assert_eq!(name.in_checkpoint(), "chk-7/n7-v2-0-a1-e5-000000000000beef.state");
    let coordinator = StateFileName {
        writer: Writer::Coordinator,
        ..name
    };
    assert_eq!(
        coordinator.in_shared(),
        "shared/n7-coordinator-a1-e5-000000000000beef.state"
    );
    assert_eq!(
        job_dir_name(&JobId::from("word count/2")).unwrap(),
        "word%20count%2F2"
    );
    assert_eq!(job_dir_name(&JobId::from("..")).unwrap(), "%2E%2E");
    let savepoint = savepoint_dir(&JobId::from("word count"), Nonce(1));
    assert_eq!(savepoint, "savepoint-wordco-0000000000000001");
    assert!(is_savepoint_dir(&savepoint) && !is_savepoint_dir("savepoint-x"));
}

#[test]
fn a_job_id_that_names_no_directory_is_refused_with_a_remedy() {
    for id in [String::new(), "ü".repeat(60)] {
        let error = job_dir_name(&JobId::new(id)).unwrap_err();
        assert!(matches!(error.problem(), Problem::BadJobId { .. }));
        assert!(error.to_string().contains("--job-id"), "{error}");
    }
}

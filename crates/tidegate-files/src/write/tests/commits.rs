//! Commits and settling on a real disk, step by step and with every kind of thing in the way.

use super::*;

struct Prepared {
    dir: tempfile::TempDir,
    sink: FileSink<TextEncoder>,
    /// One of each of four subtasks.
    files: Vec<FileCommittable>,
}

impl Prepared {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn committer(&self) -> AnyCommitter {
        committer(&self.sink, restored(0, 1))
    }

    fn settle(&self) -> Result<(), BoxError> {
        self.committer().settle(self.files.clone())
    }

    fn staging(&self, at: usize) -> PathBuf {
        self.path().join(&self.files[at].staging)
    }

    fn target(&self, at: usize) -> PathBuf {
        self.path().join(&self.files[at].name)
    }
}

/// Four subtasks that prepared a file each at checkpoint 1.
fn prepared() -> Prepared {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::text(dir.path());
    let files = (0..4)
        .flat_map(|s| {
            let mut writer = writer(&sink, cx(s));
            write(&mut writer, lines(&["of subtask", &s.to_string()]));
            prepare(&mut writer, 1).unwrap()
        })
        .collect();
    Prepared { dir, sink, files }
}

const ALL: [&str; 4] = [
    "of subtask\n0\n",
    "of subtask\n1\n",
    "of subtask\n2\n",
    "of subtask\n3\n",
];

#[test]
fn prepared_files_are_hidden_and_a_commit_shows_them_whole() {
    let p = prepared();
    assert_eq!(visible(p.path()), Vec::<String>::new());
    assert_eq!(hidden(p.path()).len(), 4);
    let mut committer = p.committer();
    committer.commit(p.files[..2].to_vec()).unwrap();
    assert_eq!(visible(p.path()), ALL[..2]);
    committer.commit(p.files.clone()).unwrap();
    committer.commit(p.files.clone()).unwrap();
    assert_eq!(visible(p.path()), ALL);
    assert_eq!(hidden(p.path()), Vec::<String>::new());
    assert_eq!(names(p.path())[0], p.files[0].name);
}

#[test]
fn settling_after_a_crash_between_any_two_steps() {
    for crash in 0..=4 {
        let p = prepared();
        // As if a commit had come to different points for different files.
        for at in 0..4 {
            if at < crash {
                std::fs::hard_link(p.staging(at), p.target(at)).unwrap();
            }
            if at + 1 < crash {
                std::fs::remove_file(p.staging(at)).unwrap();
            }
        }
        p.settle().unwrap();
        assert_eq!(visible(p.path()), ALL);
        assert_eq!(hidden(p.path()), Vec::<String>::new());
        p.settle().unwrap();
        assert_eq!(visible(p.path()), ALL, "settled twice");
    }
}

#[test]
fn settling_discards_what_isnt_listed_of_all_subtasks_attempts_and_lineages() {
    let p = prepared();
    let mut foreign = Vec::new();
    for (uid, job) in [("other", "job"), ("sink", "other"), ("sink-2", "job")] {
        let cx = SinkContext {
            uid: uid.into(),
            job: job.into(),
            ..cx(0)
        };
        let mut writer = writer(&p.sink, cx);
        write(&mut writer, lines(&["not ours"]));
        foreign.extend(prepare(&mut writer, 1).unwrap().into_iter().map(|f| f.staging));
    }
    std::fs::write(p.path().join(".notes"), "a person's").unwrap();
    foreign.push(".notes".to_owned());
    foreign.sort();
    for (subtask, attempt, lineage) in [(0, 7, 0), (63, 1, 0), (1, 1, 12)] {
        let cx = SinkContext {
            attempt: AttemptNumber(attempt),
            lineage,
            ..cx(subtask)
        };
        let mut writer = writer(&p.sink, cx);
        write(&mut writer, lines(&["left over"]));
        prepare(&mut writer, 2).unwrap();
    }
    // Two subtasks after the restore, and a snapshot that lists two of the four files.
    let cx = SinkContext {
        parallelism: Parallelism(2),
        ..restored(0, 1)
    };
    committer(&p.sink, cx).settle(p.files[1..3].to_vec()).unwrap();
    assert_eq!(visible(p.path()), ALL[1..3]);
    assert_eq!(hidden(p.path()), foreign);
}

#[test]
fn a_final_file_of_other_content_is_refused() {
    for content in ["of subtask\n7\n", "longer than what was prepared\n", ""] {
        let p = prepared();
        std::fs::write(p.target(2), content).unwrap();
        for result in [p.committer().commit(p.files.clone()), p.settle()] {
            let error = said(result);
            let path = p.target(2).display().to_string();
            assert!(
                error.starts_with(&format!("`{path}` stands there already with other content (")),
                "{error}"
            );
            assert!(
                error.contains("what is to be committed (13 bytes, CRC-32C "),
                "{error}"
            );
        }
        assert_eq!(read(p.target(2)), content, "and isn't touched");
        assert_eq!(read(p.staging(2)), ALL[2], "nor is what was prepared");
        std::fs::remove_file(p.target(2)).unwrap();
        p.settle().unwrap();
        assert_eq!(visible(p.path()), ALL);
    }
}

#[test]
fn a_directory_or_link_under_a_final_name_is_refused() {
    let p = prepared();
    std::fs::create_dir(p.target(0)).unwrap();
    assert!(said(p.settle()).contains("with other content (not a file)"));
    std::fs::remove_dir(p.target(0)).unwrap();
    std::os::unix::fs::symlink(p.staging(0), p.target(0)).unwrap();
    assert!(said(p.settle()).contains("with other content (not a file)"));
}

#[test]
fn a_final_file_with_the_same_content_is_the_file() {
    let p = prepared();
    std::fs::copy(p.staging(3), p.target(3)).unwrap();
    p.settle().unwrap();
    assert_eq!(visible(p.path()), ALL);
    assert_eq!(hidden(p.path()), Vec::<String>::new());
}

#[test]
fn prepared_files_that_are_damaged_are_never_shown() {
    let p = prepared();
    std::fs::write(p.staging(1), "of subtask\nX\n").unwrap();
    let error = said(p.settle());
    assert!(
        error.contains(&format!(
            "the prepared file `{}` is damaged",
            p.staging(1).display()
        )),
        "{error}"
    );
    std::fs::write(p.staging(1), "short").unwrap();
    for result in [p.committer().commit(p.files.clone()), p.settle()] {
        let error = said(result);
        assert!(
            error.contains("it is 5 bytes and was 13 bytes, CRC-32C "),
            "{error}"
        );
    }
    assert!(!p.target(1).exists());
}

#[test]
fn a_file_that_is_nowhere_is_an_error_unless_output_is_taken_away() {
    let p = prepared();
    p.settle().unwrap();
    std::fs::remove_file(p.target(0)).unwrap();
    for result in [p.committer().commit(p.files.clone()), p.settle()] {
        let error = said(result);
        assert!(
            error.starts_with(&format!("neither `{}` nor the prepared", p.target(0).display())),
            "{error}"
        );
        assert!(error.contains("output_is_taken_away(true)"), "{error}");
    }
    let sink = p.sink.clone().output_is_taken_away(true);
    committer(&sink, restored(0, 1)).settle(p.files.clone()).unwrap();
    assert_eq!(visible(p.path()), ALL[1..]);
}

#[test]
fn a_sink_that_was_moved_commits_where_files_were_prepared() {
    let p = prepared();
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = FileSink::text(elsewhere.path());
    let mut left = writer(&p.sink, cx(9));
    write(&mut left, lines(&["left over"]));
    prepare(&mut left, 2).unwrap();
    committer(&moved, restored(0, 1)).settle(p.files.clone()).unwrap();
    assert_eq!(visible(p.path()), ALL);
    assert_eq!(
        hidden(p.path()),
        Vec::<String>::new(),
        "what was left there is discarded, too"
    );
    assert_eq!(names(elsewhere.path()), Vec::<String>::new());
    // A directory that was renamed as a whole is found under its new name.
    let p = prepared();
    let elsewhere = tempfile::tempdir().unwrap();
    let renamed = elsewhere.path().join("renamed");
    std::fs::rename(p.path(), &renamed).unwrap();
    committer(&FileSink::text(&renamed), restored(0, 1))
        .settle(p.files.clone())
        .unwrap();
    assert_eq!(visible(&renamed), ALL);
}

#[test]
fn names_from_a_corrupt_snapshot_leave_the_directory_alone() {
    let p = prepared();
    for (staging, name) in [
        ("../x", "part-0"),
        ("", "part-0"),
        (".tidegate-x", "/etc/part"),
        (".tidegate-x", ".."),
    ] {
        let file = FileCommittable {
            staging: staging.into(),
            name: name.into(),
            ..p.files[0].clone()
        };
        let error = said(p.committer().settle(vec![p.files[1].clone(), file]));
        assert!(error.contains("it is corrupt"), "{error}");
    }
    assert_eq!(visible(p.path()), Vec::<String>::new());
}

#[test]
fn a_fresh_start_into_the_output_of_an_unknown_run_is_refused() {
    let p = prepared();
    p.settle().unwrap();
    let fresh = |epoch, lineage| {
        committer(
            &p.sink,
            SinkContext {
                epoch: LeaderEpoch(epoch),
                lineage,
                ..cx(0)
            },
        )
        .settle(Vec::new())
    };
    let error = said(fresh(1, 0));
    let dir = p.path().display();
    let says = format!(
        "`{dir}` holds 4 files that an earlier run of this job committed, such as `{}`",
        p.files[0].name
    );
    assert!(error.starts_with(&says), "{error}");
    // The same store, whose ids went on and whose checkpoints are gone: output of a run that was cancelled, say.
    assert!(said(fresh(2, 0)).starts_with(&says));
    // Somebody said that it is meant. In an unknown store that changes nothing: its names may be taken.
    fresh(2, 2).unwrap();
    assert!(said(fresh(1, 1)).starts_with(&says));
    // Another job's, or another sink's, output is nobody's business.
    committer(
        &p.sink,
        SinkContext {
            job: "another".into(),
            ..cx(0)
        },
    )
    .settle(Vec::new())
    .unwrap();
    committer(
        &p.sink,
        SinkContext {
            uid: "another".into(),
            ..cx(0)
        },
    )
    .settle(Vec::new())
    .unwrap();
    assert_eq!(visible(p.path()), ALL);
}

#[test]
fn restored_into_another_store_whose_ids_begin_anew() {
    let p = prepared();
    p.settle().unwrap();
    let mut writer = writer(
        &p.sink,
        SinkContext {
            epoch: LeaderEpoch(1),
            ..restored(0, 1)
        },
    );
    write(&mut writer, lines(&["another checkpoint 1"]));
    let files = prepare(&mut writer, 1).unwrap();
    p.committer().commit(files.clone()).unwrap();
    assert_eq!(read(p.path().join(&files[0].name)), "another checkpoint 1\n");
    assert_eq!(read(p.target(0)), ALL[0]);
    assert!(files[0].name.ends_with("-0-0-1-1.txt"), "{}", files[0].name);
}

#[test]
fn the_directory_is_made_or_the_reason_said() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a/b/c");
    committer(&FileSink::text(&deep), cx(0))
        .settle(Vec::new())
        .unwrap();
    assert_eq!(names(&deep), Vec::<String>::new(), "the probe is gone");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = said(committer(&FileSink::text(&path), cx(0)).settle(Vec::new()));
        assert!(
            error.starts_with(&format!("files can't be created in `{}`: ", path.display())),
            "{error}"
        );
    }
}

#[test]
fn committables_survive_their_codec() {
    let p = prepared();
    let mut bytes = Vec::new();
    tidegate_types::codec::canonical::encode_into(&p.files[0], &mut bytes).unwrap();
    let back: FileCommittable = tidegate_types::codec::canonical::decode_from(&mut &bytes[..]).unwrap();
    assert_eq!(back, p.files[0]);
}

//! Snapshots of earlier releases, kept as fixtures, are restored by this one.
//!
//! `v1/<snapshot>/` holds a `checkpoint` (unaligned, records in flight, output prepared and not committed), and a
//! `canonical` and a `native` savepoint of the job in `job.rs`, each with the sink's directory as it was. How a new
//! generation is made, and when, stands in `docs/formats.md`, "Golden snapshots":
//!
//! ```sh
//! WRITE_GOLDEN=1 cargo test -p tidegate --test golden what_is_written_now
//! ```

mod job;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use job::Gate;
use tidegate::files::FileCommittable;
use tidegate::prelude::*;
use tidegate::runtime::operators::read_committables;
use tidegate::types::codec::canonical;
use tidegate::types::snapshot::{Location, Section, SectionKind};

/// The generation that this release writes.
const PRESENT: &str = "v1";
const SNAPSHOTS: [&str; 3] = ["checkpoint", "canonical", "native"];
const JOB: &str = "golden";

/// The fixtures are of one job, and a process runs a job once at a time.
static RUNS: Mutex<()> = Mutex::new(());

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a Unicode path")
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("the directory is there") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false if entry.file_name() == "leader.lock" => {}
            false => drop(std::fs::copy(entry.path(), target).expect("copied")),
        }
    }
}

/// Where the snapshot itself is in a fixture: the directory with the `_metadata`.
fn snapshot_dir(fixture: &Path) -> PathBuf {
    fn find(dir: &Path) -> Option<PathBuf> {
        let entries = std::fs::read_dir(dir).expect("the directory is there");
        let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
        paths.sort();
        match paths.iter().any(|p| p.ends_with("_metadata")) {
            true => Some(dir.to_owned()),
            // The lowest id is the claim of the leader that took the checkpoint.
            false => paths.iter().rev().filter(|p| p.is_dir()).find_map(|p| find(p)),
        }
    }
    find(&fixture.join("snapshot")).unwrap_or_else(|| panic!("{}: no _metadata", fixture.display()))
}

/// Runs the job up to its snapshot, and copies that and the output so far to `to`.
fn write(snapshot: &str, to: &Path) {
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let work = tempfile::tempdir().expect("a directory");
    let (checkpoints, savepoints) = (work.path().join("checkpoints"), work.path().join("savepoints"));
    let output = work.path().join("output");
    std::fs::create_dir_all(&output).expect("a directory");
    let mut env = Environment::new(JOB);
    env.configuration()
        .set_text("execution.checkpointing.dir", text(&checkpoints))
        .set_text("execution.checkpointing.mode", "unaligned")
        .set_text("execution.checkpointing.num-retained", "10")
        // Some subtasks' state goes into files, others' into the metadata.
        .set_text("execution.checkpointing.data-inline-threshold", "1 kb")
        .set_text("task.gate.budget", "fixed:64");
    let is_checkpoint = snapshot == "checkpoint";
    let gate = Arc::new(Gate::new(is_checkpoint));
    let (numbers, _) = job::grow(&env, &output, Some(gate.clone()));
    let running = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    let before = if is_checkpoint {
        job::BEFORE_COPY
    } else {
        job::SAVED
    };
    let sending = job::send(&numbers, 0..before);
    gate.arrived();
    sending.join().expect("everything was sent");
    if is_checkpoint {
        block_on(running.trigger_checkpoint()).expect("the checkpoint is taken");
        copy(&checkpoints, &to.join("snapshot"));
        let sending = job::send(&numbers, before..job::RECORDS);
        sending.join().expect("everything was sent");
        running.wait_blocking().expect("ends well");
        // The file that the checkpoint lists may have been committed before or after the copy; it is kept as a crash
        // between the two would leave it.
        std::fs::create_dir_all(to.join("output")).expect("a directory");
        for file in committables(&snapshot_dir(to)) {
            let target = to.join("output").join(&file.staging);
            std::fs::copy(output.join(&file.name), target).expect("it was committed");
        }
        return;
    }
    let format = match snapshot {
        "native" => SavepointFormat::Native,
        _ => SavepointFormat::Canonical,
    };
    let stopped = running.stop_as(Drain::Suspend, format, Some(text(&savepoints)));
    block_on(stopped).expect("the savepoint is taken");
    running.wait_blocking().expect("ends well");
    copy(&savepoints, &to.join("snapshot"));
    copy(&output, &to.join("output"));
}

/// Restores a copy of a fixture, runs the job to its end and looks at everything it says.
fn restore(fixture: &Path, parallelism: &str) {
    let _alone = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let work = tempfile::tempdir().expect("a directory");
    copy(fixture, work.path());
    let output = work.path().join("output");
    let mut env = Environment::new(JOB);
    env.configuration()
        .set_text("execution.state-recovery.path", text(&snapshot_dir(work.path())))
        .set_text("parallelism.default", parallelism);
    let (numbers, summary) = job::grow(&env, &output, None);
    let running = env
        .build()
        .expect("builds")
        .start(StartOptions::default())
        .expect("starts");
    let place = format!("{} at parallelism {parallelism}", fixture.display());
    job::send(&numbers, 0..job::RECORDS)
        .join()
        .expect("everything was sent");
    let ended = running.wait_blocking().unwrap_or_else(|e| panic!("{place}: {e}"));
    assert_eq!(ended, JobOutcome::Finished, "{place}");
    let restored = running.status().history.latest_restored().is_some();
    assert!(restored, "{place}: it was restored");
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(&output).expect("the directory is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(!name.starts_with('.'), "{place}: {name} is left over");
        let content = std::fs::read_to_string(&path).expect("text");
        lines.extend(content.lines().map(str::to_owned));
    }
    lines.sort();
    assert_eq!(lines, job::expected_lines(), "{place}");
    assert_eq!(summary.take(), job::expected_summary(), "{place}");
}

fn sections(dir: &Path) -> Vec<Section> {
    let snapshot = block_on(tidegate::storage::open_snapshot(text(dir))).expect("it is a snapshot");
    let metadata = snapshot.metadata();
    let subtasks = metadata.subtasks.iter().flat_map(|s| &s.sections);
    subtasks.chain(&metadata.master).cloned().collect()
}

/// The bytes of a section.
fn bytes_of(dir: &Path, section: &Section) -> Vec<u8> {
    match &section.location {
        Location::Inline(bytes) => bytes.to_vec(),
        Location::File { path, offset, len } => {
            let inside = dir.join(path);
            let file = if inside.exists() {
                inside
            } else {
                dir.join("..").join(path)
            };
            let all = std::fs::read(file).expect("the file is there");
            all[*offset as usize..(*offset + *len) as usize].to_vec()
        }
    }
}

fn committables(dir: &Path) -> Vec<FileCommittable> {
    let mut files = Vec::new();
    for section in sections(dir) {
        if section.head.kind == SectionKind::Committables && section.head.uid.as_str() == "lines" {
            for bytes in read_committables(&bytes_of(dir, &section)).expect("readable") {
                files.push(canonical::decode_from(&mut &bytes[..]).expect("a file"));
            }
        }
    }
    files
}

/// What is versioned in a snapshot, with its version.
fn versions(dir: &Path) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("the directory is there") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("readable");
        let what = match path.extension() {
            Some(extension) => format!("files `*.{}`", extension.to_string_lossy()),
            None => format!("file `{}`", path.file_name().expect("a name").to_string_lossy()),
        };
        let (magic, version) = (String::from_utf8_lossy(&bytes[..8]), &bytes[8..10]);
        versions.insert(what, format!("{magic} {version:?}"));
    }
    for section in sections(dir) {
        let head = &section.head;
        let bytes = bytes_of(dir, &section);
        let (kind, version) = match &head.kind {
            // Before which operators records stand is a matter of speed.
            SectionKind::InFlight(_) => {
                let version = format!("{:?}, {:?}", &bytes[..1], head.encoding);
                versions.insert("in-flight records".to_owned(), version);
                continue;
            }
            SectionKind::Keyed
            | SectionKind::Timers
            | SectionKind::ListSplit
            | SectionKind::ListUnion
            | SectionKind::Broadcast => ("state", &bytes[..5]),
            _ => continue,
        };
        let what = format!("{kind} `{}` of operator `{}`", head.name, head.uid);
        versions.insert(what, format!("{version:?}, {:?}", head.encoding));
    }
    versions
}

#[test]
fn every_kept_generation_is_restored() {
    let mut generations = 0;
    for entry in std::fs::read_dir(fixtures()).expect("the fixtures are there") {
        let generation = entry.expect("an entry").path();
        if !generation.is_dir() {
            continue;
        }
        generations += 1;
        for snapshot in SNAPSHOTS {
            for parallelism in ["1", "2"] {
                restore(&generation.join(snapshot), parallelism);
            }
        }
    }
    assert!(generations > 0);
}

#[test]
fn the_checkpoint_holds_everything_that_a_checkpoint_can() {
    let dir = snapshot_dir(&fixtures().join(PRESENT).join("checkpoint"));
    let sections = sections(&dir);
    let kinds: BTreeSet<String> = sections
        .iter()
        .filter(|s| s.head.records > 0)
        .map(|s| match &s.head.kind {
            SectionKind::InFlight(_) => "InFlight".to_owned(),
            kind => format!("{kind:?}"),
        })
        .collect();
    let wanted = [
        "Keyed",
        "Timers",
        "ListSplit",
        "ListUnion",
        "Broadcast",
        "Raw",
        "Named",
        "InFlight",
        "Splits",
        "Generator",
        "Watermarks",
        "Committables",
    ];
    for kind in wanted {
        assert!(kinds.contains(kind), "no {kind} among {kinds:?}");
    }
    let in_file = |s: &Section| matches!(s.location, Location::File { .. });
    assert!(sections.iter().any(in_file), "some state is in files");
    assert!(!committables(&dir).is_empty(), "output is prepared");
}

#[test]
fn what_is_written_now_has_the_versions_of_the_present_generation() {
    for snapshot in SNAPSHOTS {
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            let to = fixtures().join(PRESENT).join(snapshot);
            if to.exists() {
                std::fs::remove_dir_all(&to).expect("removed");
            }
            write(snapshot, &to);
        }
        let fresh = tempfile::tempdir().expect("a directory");
        write(snapshot, fresh.path());
        let kept = versions(&snapshot_dir(&fixtures().join(PRESENT).join(snapshot)));
        let now = versions(&snapshot_dir(fresh.path()));
        for what in kept.keys().chain(now.keys()) {
            let (then, now) = (kept.get(what), now.get(what));
            assert_eq!(
                then, now,
                "{snapshot}: {what} had one version in golden/{PRESENT} and has another now. Go on reading the old \
                 one, and write a new generation as docs/formats.md says under \"Golden snapshots\""
            );
        }
    }
}

//! A full disk: one error that names the directory and the remedy, nothing lost, and the job goes on when there is
//! room again.

use std::sync::Arc;

use super::model::ModelDisk;
use super::*;

fn on_model() -> (ModelDisk, FileSink<TextEncoder>) {
    let disk = ModelDisk::default();
    let sink = FileSink::text("/out/dir").on(Arc::new(disk.clone()));
    (disk, sink)
}

fn expect_full(error: &str) {
    assert!(
        error.starts_with("the disk with `/out/dir` is full (write to: "),
        "{error}"
    );
    assert!(
        error.contains("Nothing that was committed is lost: free space there"),
        "{error}"
    );
}

#[test]
fn while_records_are_written() {
    let (disk, sink) = on_model();
    disk.set_space(Some(600_000));
    let mut writer = writer(&sink, cx(0));
    let line = "x".repeat(999);
    let error = (0..1000)
        .find_map(|_| writer.write(line.clone(), None).err())
        .unwrap();
    expect_full(&error.to_string());
    drop(writer);
    assert!(
        disk.files().is_empty(),
        "the half-written file gives its space back"
    );
}

#[test]
fn while_a_checkpoint_is_prepared() {
    let (disk, sink) = on_model();
    let mut committer = committer(&sink, cx(0));
    committer.settle(Vec::new()).unwrap();
    let mut first = writer(&sink, cx(0));
    write(&mut first, lines(&["committed"]));
    committer.commit(prepare(&mut first, 2).unwrap()).unwrap();

    disk.set_space(Some(12));
    write(&mut first, lines(&["too much"]));
    expect_full(&said(prepare(&mut first, 3)));
    assert_eq!(disk.files().len(), 1, "only what was committed is there");
    drop(first);

    disk.set_space(None);
    let mut committer = self::committer(&sink, restored(0, 2));
    committer.settle(Vec::new()).unwrap();
    let mut again = writer(&sink, restored(0, 2));
    write(&mut again, lines(&["too much"]));
    committer.commit(prepare(&mut again, 4).unwrap()).unwrap();
    let content: Vec<String> = disk.files().into_values().collect();
    assert_eq!(content, ["committed\n", "too much\n"]);
}

//! The real disk keeps what the model of it promises.

use std::io::Read;

use super::super::disk::{Disk, LocalDisk};
use super::model::ModelDisk;
use super::*;

/// What both must do alike.
fn conforms(disk: &dyn Disk, dir: &Path) {
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    disk.make_dir(dir).unwrap();
    disk.make_dir(dir).unwrap();
    assert_eq!(disk.stat(&a).unwrap(), None);
    let mut file = disk.create(&a).unwrap();
    file.write(b"one ").unwrap();
    file.write(b"two").unwrap();
    file.sync().unwrap();
    drop(file);
    let exists = std::io::ErrorKind::AlreadyExists;
    assert_eq!(disk.create(&a).map(|_| ()).unwrap_err().kind(), exists);
    disk.link(&a, &b).unwrap();
    assert_eq!(disk.link(&a, &b).unwrap_err().kind(), exists);
    let absent = std::io::ErrorKind::NotFound;
    assert_eq!(disk.link(&c, &dir.join("d")).unwrap_err().kind(), absent);
    assert_eq!(disk.rename(&c, &b).unwrap_err().kind(), absent);
    let (stat_a, stat_b) = (disk.stat(&a).unwrap().unwrap(), disk.stat(&b).unwrap().unwrap());
    assert_eq!((stat_a.bytes, stat_a.is_file), (7, true));
    assert!(stat_a == stat_b && stat_a.id.is_some(), "two names of one file");
    disk.remove(&a).unwrap();
    disk.remove(&a).unwrap();
    disk.rename(&b, &c).unwrap();
    disk.sync_dir(dir).unwrap();
    assert_eq!(disk.list(dir).unwrap(), ["c"]);
    let mut text = String::new();
    disk.open(&c).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "one two");
    assert_eq!(disk.open(&a).map(|_| ()).unwrap_err().kind(), absent);
}

#[test]
fn the_operating_systems() {
    let dir = tempfile::tempdir().unwrap();
    conforms(&LocalDisk, &dir.path().join("made/by/it"));
}

#[test]
fn the_model() {
    conforms(&ModelDisk::default(), Path::new("/d"));
}

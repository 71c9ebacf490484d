use super::location::Location;
use super::*;
use crate::testing::block_on;

#[test]
fn locations_are_told_apart() {
    assert_eq!(
        Location::parse("/a b/c").unwrap(),
        Location::Local("/a b/c".into())
    );
    assert_eq!(
        Location::parse("file:///a%20b/c").unwrap(),
        Location::Local("/a b/c".into())
    );
    assert_eq!(
        Location::parse("memory:///x").unwrap(),
        Location::Memory {
            prefix: Path::from("x")
        }
    );
    assert_eq!(
        Location::parse("memory:///").unwrap(),
        Location::Memory { prefix: Path::ROOT }
    );
    for bad in ["", "  ", "s3://bucket/x", "file://relative/x", "memory://a//b"] {
        let error = Location::parse(bad).unwrap_err();
        assert!(
            matches!(error.problem(), Problem::BadLocation { .. }),
            "{bad}: {error}"
        );
    }
}

#[test]
fn a_path_out_of_a_file_never_leaves_the_directory() {
    let dir = StoreDir::create("memory:///job").unwrap();
    for path in ["../other/x", "chk-1/../../x", "a//b", "x#1", "chk-1/\u{1}"] {
        let error = block_on(dir.read("read", path, 10)).unwrap_err();
        assert!(
            matches!(error.problem(), Problem::Corrupt { .. }),
            "{path}: {error}"
        );
    }
}

#[test]
fn a_file_in_the_way_and_a_missing_directory_are_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    for location in [
        file.display().to_string(),
        file.join("below").display().to_string(),
    ] {
        let error = StoreDir::create(&location).unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
    let gone = root.path().join("gone");
    assert!(StoreDir::open(gone.to_str().unwrap()).unwrap_err().is_not_there());
}

#[test]
fn parents_and_children_are_the_same_directories_in_every_store() {
    let root = tempfile::tempdir().unwrap();
    for base in [
        StoreDir::create("memory:///base").unwrap(),
        StoreDir::create(root.path().to_str().unwrap()).unwrap(),
    ] {
        let job = base.child("a%2Fb");
        let payload = PutPayload::from_static(b"hello");
        block_on(job.put_new("write", "chk-1/x", payload.clone())).unwrap();
        assert!(matches!(
            block_on(job.put_new("write", "chk-1/x", payload)).unwrap(),
            Create::Exists
        ));
        let (parent, name) = job.child("chk-1").split_parent().unwrap();
        assert_eq!(name, "chk-1");
        assert_eq!(
            block_on(parent.read("read", "chk-1/x", 5)).unwrap().unwrap(),
            "hello"
        );
        assert!(block_on(parent.read("read", "chk-1/x", 4)).is_err());
        let listed = block_on(base.list("list")).unwrap();
        assert_eq!(
            listed,
            [Object {
                path: "a%2Fb/chk-1/x".into(),
                size_bytes: 5
            }]
        );
        assert_eq!(job.below(&base).as_deref(), Some("a%2Fb"));
        assert_eq!(
            block_on(job.read_range("read", "chk-1/x", 3..9)).unwrap(),
            (Bytes::from("lo"), 5)
        );
        assert_eq!(
            block_on(job.read_range("read", "chk-1/x", 5..9)).unwrap(),
            (Bytes::new(), 5)
        );
        assert!(
            block_on(job.read_range("read", "chk-1/y", 5..9))
                .unwrap_err()
                .is_not_there()
        );
    }
}

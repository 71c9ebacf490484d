//! Inputs: what is found, in which order, and what is said if nothing is.

use std::os::unix::fs::symlink;

use super::*;

/// Names of the files found, below `dir`.
fn found(dir: &Path, source: &TextFiles) -> Vec<String> {
    let mut enumerator = source.clone().split_size(u64::MAX).enumerator(None).unwrap();
    let prefix = format!("{}/", dir.display());
    splits(&mut enumerator)
        .iter()
        .map(|s| s.path.strip_prefix(&*prefix).unwrap().to_owned())
        .collect()
}

fn refused(input: impl Into<PathBuf>) -> String {
    said(TextFiles::new([input.into()]).enumerator(None).map(|_| ()))
}

fn tree() -> TempDir {
    files(&[
        ("b.txt", b"1"),
        ("a/z.log", b"2"),
        ("a/deep/er/y.log", b"3"),
        ("c", b"4"),
        (".hidden", b"5"),
        (".git/config", b"6"),
        ("a/.part.inprogress", b"7"),
    ])
}

#[test]
fn directories_are_walked_by_name_without_what_is_hidden() {
    let dir = tree();
    let all = ["a/deep/er/y.log", "a/z.log", "b.txt", "c"];
    assert_eq!(found(dir.path(), &TextFiles::new([dir.path()])), all);
    assert_eq!(
        found(dir.path(), &TextFiles::new([dir.path()])),
        all,
        "the same each time"
    );
}

#[test]
fn inputs_come_in_their_order_and_each_file_once() {
    let dir = tree();
    let inputs = ["c", "a", "a/z.log", "b.txt", "c"].map(|name| dir.path().join(name));
    assert_eq!(
        found(dir.path(), &TextFiles::new(inputs)),
        ["c", "a/deep/er/y.log", "a/z.log", "b.txt"]
    );
}

#[test]
fn a_file_is_read_once_whatever_links_lead_to_it() {
    let dir = tree();
    symlink("c", dir.path().join("link")).unwrap();
    symlink("a", dir.path().join("same")).unwrap();
    let inputs = ["link", "c", "same/z.log", "same/../c", "a"].map(|name| dir.path().join(name));
    assert_eq!(
        found(dir.path(), &TextFiles::new(inputs)),
        ["link", "same/z.log", "a/deep/er/y.log"]
    );
}

#[test]
fn hidden_files_are_read_if_they_are_named() {
    let dir = tree();
    let inputs = [".hidden", ".git"].map(|name| dir.path().join(name));
    assert_eq!(
        found(dir.path(), &TextFiles::new(inputs)),
        [".hidden", ".git/config"]
    );
}

#[test]
fn patterns() {
    let dir = tree();
    let matched = |pattern: &str| found(dir.path(), &TextFiles::new([dir.path().join(pattern)]));
    assert_eq!(matched("*.txt"), ["b.txt"]);
    assert_eq!(
        matched("?"),
        ["a/deep/er/y.log", "a/z.log", "c"],
        "a directory is walked"
    );
    assert_eq!(matched("**/*.log"), ["a/deep/er/y.log", "a/z.log"]);
    assert_eq!(matched("[bc]*"), ["b.txt", "c"]);
    let error = refused(dir.path().join("*.csv"));
    assert!(
        error.contains("*.csv`: no file matches it. Check the pattern"),
        "{error}"
    );
    let error = refused(dir.path().join("a[.txt"));
    assert!(error.contains("invalid range pattern"), "{error}");
    write(&dir.path().join("x[1].txt"), b"8");
    assert_eq!(
        matched("x[1].txt"),
        ["x[1].txt"],
        "a file of that very name comes first"
    );
}

#[test]
fn inputs_that_arent_there() {
    let dir = tree();
    let missing = dir.path().join("nothing/here");
    let m = missing.display();
    assert_eq!(
        refused(&missing),
        format!("input `{m}`: nothing stands at `{m}`. Check the path")
    );
    assert_eq!(
        said(TextFiles::new(Vec::<PathBuf>::new()).enumerator(None).map(|_| ())),
        "no input was given: name at least one file, directory or pattern"
    );
    assert!(refused("").contains("input ``: nothing stands at"));
    assert!(refused(dir.path().join("c/below")).contains("Check the path"));
    // A name that is given is an option; skipping bad files doesn't make a wrong one right.
    let source = TextFiles::new([&missing]).on_bad_record(OnBadRecord::Skip);
    assert!(said(source.enumerator(None).map(|_| ())).contains("nothing stands at"));
}

#[test]
fn relative_inputs_become_absolute() {
    let source = TextFiles::new(["Cargo.toml"]);
    let found = splits(&mut source.enumerator(None).unwrap());
    assert_eq!(
        Path::new(&*found[0].path),
        std::path::absolute("Cargo.toml").unwrap()
    );
}

#[test]
fn directories_without_a_file() {
    let dir = files(&[(".hidden", b"x"), (".also/hidden", b"y")]);
    std::fs::create_dir_all(dir.path().join("empty/in/it")).unwrap();
    let error = refused(dir.path());
    let says = "there is no file to read in the directory (0 unreadable, 2 hidden). Put files there";
    assert!(error.contains(says), "{error}");
    symlink("nowhere", dir.path().join("gone")).unwrap();
    let source = TextFiles::new([dir.path()]).on_bad_record(OnBadRecord::Skip);
    let error = said(source.enumerator(None).map(|_| ()));
    assert!(error.contains("(1 unreadable, 2 hidden)"), "{error}");
}

#[test]
fn empty_files_are_files() {
    let dir = files(&[("empty", b"")]);
    assert_eq!(
        read_all(&TextFiles::new([dir.path()])).unwrap(),
        Vec::<String>::new()
    );
}

#[test]
fn what_is_no_file_is_refused_if_named_and_passed_over_otherwise() {
    let dir = files(&[("a", b"1")]);
    let socket = dir.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(refused(&socket).contains("is neither a file nor a directory"));
    assert_eq!(found(dir.path(), &TextFiles::new([dir.path()])), ["a"]);
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let dir = files(&[
        ("x/a", b"1"),
        ("y/b", b"2"),
        ("target/c", b"3"),
        ("target/d", b"4"),
    ]);
    symlink("../target/c", dir.path().join("x/file")).unwrap();
    symlink("../target", dir.path().join("y/dir")).unwrap();
    symlink("..", dir.path().join("x/up")).unwrap();
    symlink("../y", dir.path().join("x/to-y")).unwrap();
    symlink("../x", dir.path().join("y/to-x")).unwrap();
    let names = found(dir.path(), &TextFiles::new([dir.path().join("x")]));
    assert_eq!(names, ["x/a", "x/file", "x/to-y/b", "x/to-y/dir/d"]);
}

#[test]
fn endless_directories_end() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d/".repeat(70));
    write(&deep.join("f"), b"1");
    assert!(refused(dir.path()).contains("is more than 64 directories deep"));
}

#[test]
fn names_that_arent_text() {
    use std::os::unix::ffi::OsStrExt;
    let dir = files(&[("a", b"1")]);
    write(&dir.path().join(std::ffi::OsStr::from_bytes(b"b\xFF")), b"2");
    assert!(refused(dir.path()).contains("name isn't valid Unicode. Rename it"));
}

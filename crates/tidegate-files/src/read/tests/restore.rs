//! A snapshot at every record: what was emitted before it and what a reader emits from it is everything, once.

use serde::{Deserialize, Serialize};

use super::*;

/// Reads with room for one record a poll, and after each poll goes on from a snapshot in another reader as well.
fn restore_everywhere<F: Format>(source: &FileSource<F>)
where
    F::Out: PartialEq + std::fmt::Debug,
{
    let all = read_all(source).unwrap();
    let mut enumerator = source.enumerator(None).unwrap();
    let mut first = reader(source);
    let mut emitted: Vec<F::Out> = Vec::new();
    let mut cuts = 0;
    let mut more = true;
    while more {
        let left = enumerator.snapshot().unwrap();
        let positions = snapshot(&mut first);
        let mut second = reader(source);
        let mut after = Vec::new();
        for split in positions {
            assert!(split.position <= split.file.size);
            second.add_split(split).unwrap();
            after.extend(drain(&mut second, 3).unwrap());
        }
        for split in splits(&mut source.enumerator(Some(left)).unwrap()) {
            second.add_split(split).unwrap();
            after.extend(drain(&mut second, 3).unwrap());
        }
        let both: Vec<&F::Out> = emitted.iter().chain(&after).collect();
        assert_eq!(
            both,
            all.iter().collect::<Vec<_>>(),
            "a cut after {} records",
            emitted.len()
        );
        cuts += 1;
        let (records, state) = poll(&mut first, 1).unwrap();
        emitted.extend(records);
        if state == Poll::SplitsDone {
            match enumerator.next_split(SubtaskIndex(0)).unwrap() {
                NextSplit::Split(split) => first.add_split(split).unwrap(),
                _ => more = false,
            }
        }
    }
    assert!(cuts > all.len(), "there was a cut behind each record");
    assert_eq!(emitted, all);
}

#[test]
fn text_whatever_the_split_size() {
    let dir = files(&[
        ("a", "\nfirst\r\nsecönd\n\nlast".as_bytes()),
        ("b", b"x\n"),
        ("c", b""),
        ("d", b"\n"),
    ]);
    for size in 1..30 {
        restore_everywhere(&TextFiles::new([dir.path()]).split_size(size));
    }
}

#[test]
fn places_and_json() {
    let dir = files(&[("a", b"[1,2]\n\n[3]\n  \n[]\n[4,5,6]")]);
    for size in 1..12 {
        restore_everywhere(&TextFiles::new([dir.path()]).split_size(size).with_places());
        restore_everywhere(&JsonLinesFiles::<Vec<u32>>::new([dir.path()]).split_size(size));
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Row {
    name: String,
    n: i64,
}

#[test]
fn csv_with_and_without_header_and_with_what_lies_between_records() {
    let with = b"\xEF\xBB\xBFn,name\r\n1,a\r\n\r\n#2,c\r\n3,\"x\r\ny\"\n4,\"\"\"\"\n\n5,last";
    let dir = files(&[("a.csv", with), ("b.csv", b"name,n\nother,7\n")]);
    restore_everywhere(&CsvFiles::<Row>::new([dir.path()]).comment(b'#'));
    let without = files(&[("a.csv", b"\xEF\xBB\xBFa,1\nb,2\r\n\"c\n,\",3\nd,4\n")]);
    restore_everywhere(&CsvFiles::<Row>::new([without.path()]).header(false));
    restore_everywhere(&CsvFiles::<(String, u8)>::new([without.path()]).header(false));
}

#[test]
fn skipped_records_are_behind_the_position() {
    let dir = files(&[("a", b"[1]\nno\n[2]\n{\n[3]\n\xFF\n")]);
    for size in 1..15 {
        let source = JsonLinesFiles::<Vec<u32>>::new([dir.path()])
            .split_size(size)
            .on_bad_record(OnBadRecord::Skip);
        restore_everywhere(&source);
    }
}

#[test]
fn finished_splits_are_in_no_snapshot() {
    let dir = files(&[("a", b"one\ntwo\n")]);
    let source = TextFiles::new([dir.path()]);
    let mut reader = reader(&source);
    for split in splits(&mut source.enumerator(None).unwrap()) {
        reader.add_split(split).unwrap();
    }
    assert_eq!(snapshot(&mut reader).len(), 1);
    assert_eq!(poll(&mut reader, 2).unwrap().0, ["one", "two"]);
    assert_eq!(snapshot(&mut reader), []);
    assert_eq!(poll(&mut reader, 2).unwrap(), (vec![], Poll::SplitsDone));
}

/// A reader at the second line of a file, and its splits.
fn half_read(path: &Path) -> (TextFiles, Vec<FileSplit>) {
    let source = TextFiles::new([path]);
    let mut reader = reader(&source);
    for split in splits(&mut source.enumerator(None).unwrap()) {
        reader.add_split(split).unwrap();
    }
    assert_eq!(poll(&mut reader, 1).unwrap().0, ["one"]);
    (source, snapshot(&mut reader))
}

#[test]
fn a_truncated_file_is_refused_on_restore() {
    let dir = files(&[("a", b"one\ntwo\nthree\n")]);
    let path = dir.path().join("a");
    let (source, held) = half_read(&path);
    write(&path, b"one\n");
    let error = said(reader(&source).add_split(held[0].clone()));
    let expected = format!(
        "`{}` was truncated since the job listed its inputs: it had 14 bytes and has 4. Positions in the old file mean \
         nothing in this one: put the old file back, or start without restoring",
        path.display()
    );
    assert_eq!(error, expected);
    // Skipping is for what is bad in a file, not for a file that is another one.
    let lenient = source.on_bad_record(OnBadRecord::Skip);
    assert!(said(reader(&lenient).add_split(held[0].clone())).contains("was truncated"));
}

#[test]
fn a_replaced_file_is_refused_on_restore() {
    let dir = files(&[("a", b"one\ntwo\nthree\n"), ("b", b"another, longer file\n")]);
    let path = dir.path().join("a");
    let (source, mut held) = half_read(&path);
    std::fs::rename(dir.path().join("b"), &path).unwrap();
    let error = said(reader(&source).add_split(held[0].clone()));
    assert!(error.contains("was replaced or rewritten"), "{error}");
    // Of the same size, but written at another time.
    held[0].file.size = 21;
    let error = said(reader(&source).add_split(held[0].clone()));
    assert!(error.contains("was replaced or rewritten"), "{error}");
}

#[test]
fn what_is_appended_is_not_read_but_the_last_line_is_read_to_its_end() {
    use std::io::Write;
    let dir = files(&[("a", b"one\ntwo\nthr")]);
    let path = dir.path().join("a");
    let (source, held) = half_read(&path);
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"ee\nfour\n").unwrap();
    let mut reader = reader(&source);
    reader.add_split(held[0].clone()).unwrap();
    assert_eq!(drain(&mut reader, 10).unwrap(), ["two", "three"]);
}

#[test]
fn a_file_that_shrinks_while_it_is_read() {
    let content = "0123456\n".repeat(100_000);
    let dir = files(&[("a", content.as_bytes())]);
    let path = dir.path().join("a");
    let source = TextFiles::new([&path]);
    let mut reader = reader(&source);
    for split in splits(&mut source.enumerator(None).unwrap()) {
        reader.add_split(split).unwrap();
    }
    assert_eq!(poll(&mut reader, 1).unwrap().0, ["0123456"]);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(400_000)
        .unwrap();
    let error = said(drain(&mut reader, 1000));
    assert!(error.contains("it had 800000 bytes and has 400000"), "{error}");
}

#[test]
fn a_file_that_is_gone() {
    let dir = files(&[("a", b"one\ntwo\n")]);
    let path = dir.path().join("a");
    let (source, held) = half_read(&path);
    std::fs::remove_file(&path).unwrap();
    let error = said(reader(&source).add_split(held[0].clone()));
    assert!(
        error.starts_with(&format!("`{}` can't be opened: ", path.display())),
        "{error}"
    );
    let lenient = source.on_bad_record(OnBadRecord::Skip);
    let mut reader = reader(&lenient);
    reader.add_split(held[0].clone()).unwrap();
    assert_eq!(drain(&mut reader, 10).unwrap(), Vec::<String>::new());
    assert_eq!(lenient.skipped().count(SkipReason::UnreadableFile), 1);
}

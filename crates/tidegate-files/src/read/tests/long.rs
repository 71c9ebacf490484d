//! Records over the limit: refused or passed over, and never held in memory as a whole.

use std::io::Read;

use super::super::format::{Cursor, Step};
use super::super::input::{CHUNK, Input};
use super::super::lines::LineCursor;
use super::splits::split_of;
use super::*;

#[test]
fn the_limit_is_that_of_the_text() {
    let dir = files(&[("a", b"12345\r\n123456\n12345\n123456")]);
    let source = TextFiles::new([dir.path()]).record_limit(5);
    let error = said(read_all(&source));
    assert!(
        error.contains("line 2, byte 7: longer than the limit of 5 bytes (record_limit)"),
        "{error}"
    );
    let source = source.on_bad_record(OnBadRecord::Skip);
    assert_eq!(read_all(&source).unwrap(), ["12345", "12345"]);
    assert_eq!(source.skipped().count(SkipReason::TooLong), 2);
}

#[test]
fn the_highest_limit_is_none() {
    let dir = files(&[("a", b"x\n12345\r\n123456")]);
    let text = TextFiles::new([dir.path()]).record_limit(usize::MAX);
    assert_eq!(read_all(&text).unwrap(), ["x", "12345", "123456"]);
    let csv = CsvFiles::<String>::new([dir.path()]).record_limit(usize::MAX);
    assert_eq!(read_all(&csv).unwrap(), ["12345", "123456"]);
}

#[test]
fn a_hundred_megabytes_without_a_line_end() {
    const LENGTH: u64 = 100 << 20;
    let file = Fingerprint {
        size: 3 + LENGTH + 1 + 5,
        modified_ns: None,
        inode: None,
    };
    let split = FileSplit::new("f".into(), 0, file.size, file);
    let content = (&b"ab\n"[..])
        .chain(std::io::repeat(b'x').take(LENGTH))
        .chain(&b"\nafter"[..]);
    let input = Input::new(Box::new(content), &split, 0);
    let limit = 1 << 20;
    let mut cursor = LineCursor::new(PlacedText, input, &split, limit);
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    let mut steps = 0u64;
    loop {
        steps += 1;
        assert!(cursor.buffered() <= 2 * limit + 2 * CHUNK, "the line isn't held");
        match cursor.step().unwrap() {
            Step::Record(line) => lines.push((line.offset, line.line)),
            Step::Bad(record) => {
                assert!(
                    cursor.consumed() < 3 + 2 * limit as u64 + 2 * CHUNK as u64,
                    "said as soon as it is known"
                );
                assert_eq!(cursor.position().offset, 3, "a restore comes to the line again");
                bad.push((record.line, record.offset));
            }
            Step::Nothing | Step::Working => {}
            Step::End => break,
        }
    }
    assert_eq!(
        lines,
        [(0, "ab".to_owned()), (3 + LENGTH + 1, "after".to_owned())]
    );
    assert_eq!(bad, [(Some(2), 3)]);
    assert!(steps > LENGTH / CHUNK as u64, "in steps of a read each");
}

#[test]
fn splits_inside_a_long_line_are_empty_and_end_with_their_range() {
    let mut content = vec![b'x'; 10 * CHUNK];
    content[9 * CHUNK] = b'\n';
    let dir = files(&[("a", &content)]);
    let source = TextFiles::new([dir.path()])
        .split_size(CHUNK as u64)
        .record_limit(100)
        .on_bad_record(OnBadRecord::Skip);
    let mut found = Vec::new();
    for split in splits(&mut source.enumerator(None).unwrap()) {
        let mut reader = reader(&source);
        let at = split.start as usize / CHUNK;
        reader.add_split(split).unwrap();
        found.push((
            at,
            drain(&mut reader, 10).unwrap().len(),
            source.skipped().total(),
        ));
    }
    // The long line is the first split's, the one behind it the last's; nobody else counts either.
    let expected: Vec<_> = (0..10).map(|at| (at, 0, if at == 9 { 2 } else { 1 })).collect();
    assert_eq!(found, expected);

    // A range inside the line is given up at its end, not at the line's.
    let split = split_of(&content, CHUNK as u64, 2 * CHUNK as u64);
    let first = LineCursor::<Text>::first_byte(&split);
    let input = Input::new(
        Box::new(std::io::repeat(b'x').take(9 * CHUNK as u64)),
        &split,
        first,
    );
    let mut cursor = LineCursor::new(Text, input, &split, 100);
    while !matches!(cursor.step().unwrap(), Step::End) {}
    assert!(cursor.consumed() <= 3 * CHUNK as u64);
}

#[test]
fn an_endless_csv_record_is_passed_over_piece_by_piece() {
    let mut content = b"name,n\na,1\n\"".to_vec();
    content.extend(std::iter::repeat_n(&b"words, and\n"[..], 400_000).flatten());
    content.extend(b"\",2\nb,3\n");
    let dir = files(&[("a.csv", &content)]);
    let source = CsvFiles::<(String, u8)>::new([dir.path()]).record_limit(1000);
    let error = said(read_all(&source));
    assert!(
        error.contains("line 3, byte 11: longer than the limit of 1000 bytes"),
        "{error}"
    );
    let source = source.on_bad_record(OnBadRecord::Skip);
    assert_eq!(
        read_all(&source).unwrap(),
        [("a".to_owned(), 1), ("b".to_owned(), 3)]
    );
    assert_eq!(source.skipped().count(SkipReason::TooLong), 1);
}

#[test]
fn a_csv_record_of_nothing_but_delimiters() {
    let mut content = vec![b','; 1 << 20];
    content.extend(b"\n1,2\n");
    let dir = files(&[("a.csv", &content)]);
    let source = CsvFiles::<Vec<String>>::new([dir.path()])
        .header(false)
        .on_bad_record(OnBadRecord::Skip);
    assert_eq!(read_all(&source).unwrap(), [["1", "2"]]);
    assert_eq!(source.skipped().count(SkipReason::TooLong), 1);
}

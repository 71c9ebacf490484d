//! A poll is short: it ends with its room, with something urgent, and with a bound on bytes.

use std::cell::Cell;

use super::*;

fn reader_of(content: &[u8]) -> (TempDir, TextFiles, Reader<String>) {
    let dir = files(&[("a", content)]);
    let source = TextFiles::new([dir.path()]).on_bad_record(OnBadRecord::Skip);
    let mut reader = reader(&source);
    for split in splits(&mut source.enumerator(None).unwrap()) {
        reader.add_split(split).unwrap();
    }
    (dir, source, reader)
}

#[test]
fn no_more_than_there_is_room_for() {
    let (_dir, _, mut reader) = reader_of(&b"x\n".repeat(1000));
    for room in [1, 7, 300] {
        let (records, state) = poll(&mut reader, room).unwrap();
        assert_eq!((records.len(), state), (room, Poll::More));
    }
    assert_eq!(poll(&mut reader, 0).unwrap(), (vec![], Poll::More));
    assert_eq!(drain(&mut reader, 1000).unwrap().len(), 1000 - 308);
}

#[test]
fn something_urgent_is_noticed_within_a_stride() {
    let (_dir, _, mut reader) = reader_of(&b"x\n".repeat(1000));
    let asked = Cell::new(0);
    let urgent = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let (records, state) = poll_with(&mut reader, 1000, &urgent).unwrap();
    assert_eq!(state, Poll::More);
    assert!(records.len() <= 3 * 64, "{} records", records.len());
    assert_eq!(drain(&mut reader, 1000).unwrap().len() + records.len(), 1000);
}

#[test]
fn large_records_count_by_their_bytes() {
    let line = [&[b'x'; 40_000][..], b"\n"].concat();
    let (_dir, _, mut reader) = reader_of(&line.repeat(20));
    let asked = Cell::new(0);
    poll_with(&mut reader, 1000, &|| {
        asked.set(asked.get() + 1);
        false
    })
    .unwrap();
    assert!(asked.get() >= 9, "asked {} times over 800 KB", asked.get());
}

#[test]
fn a_poll_over_bad_records_alone_ends() {
    let (_dir, source, mut reader) = reader_of(&b"\xFF\n".repeat(4 << 20));
    let mut polls = 0;
    while poll(&mut reader, 10).unwrap().1 == Poll::More {
        polls += 1;
    }
    assert!(polls >= 7, "8 MB in {polls} polls");
    assert_eq!(source.skipped().total(), 4 << 20);
}

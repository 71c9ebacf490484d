//! Whatever the cuts and however few bytes a read brings: each line once, in order.

use std::io::Read;

use proptest::prelude::*;

use super::super::format::{Cursor, Step};
use super::super::input::Input;
use super::super::lines::LineCursor;
use super::*;

/// A file in memory that gives a few bytes at a time.
pub(super) struct Trickle {
    pub(super) bytes: Vec<u8>,
    pub(super) at: usize,
    pub(super) step: usize,
}

impl Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.step.min(into.len()).min(self.bytes.len() - self.at);
        into[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

pub(super) fn split_of(content: &[u8], start: u64, end: u64) -> FileSplit {
    let file = Fingerprint {
        size: content.len() as u64,
        modified_ns: None,
        inode: None,
    };
    FileSplit::new("f".into(), start, end, file)
}

/// The lines that belong to one range.
fn lines_of(content: &[u8], start: u64, end: u64, step: usize) -> Vec<TextRecord> {
    let split = split_of(content, start, end);
    let first = LineCursor::<PlacedText>::first_byte(&split);
    let file = Trickle {
        bytes: content.to_vec(),
        at: first as usize,
        step,
    };
    let input = Input::new(Box::new(file), &split, first);
    let mut cursor = LineCursor::new(PlacedText, input, &split, 1 << 20);
    let mut lines = Vec::new();
    loop {
        match cursor.step().unwrap() {
            Step::Record(line) => lines.push(line),
            Step::Nothing | Step::Working => {}
            Step::Bad(bad) => panic!("{bad}"),
            Step::End => return lines,
        }
    }
}

fn cut_at(content: &str, cuts: &[usize], step: usize) -> Vec<String> {
    let mut bounds = vec![0];
    bounds.extend(cuts.iter().map(|at| *at as u64));
    bounds.push(content.len() as u64);
    let ranges = bounds.windows(2).filter(|pair| pair[0] < pair[1]);
    let records: Vec<TextRecord> = ranges
        .flat_map(|pair| lines_of(content.as_bytes(), pair[0], pair[1], step))
        .collect();
    for record in &records {
        let there = &content[record.offset as usize..];
        assert!(there.starts_with(&record.line), "a record knows where it stands");
    }
    records.into_iter().map(|r| r.line).collect()
}

fn expected(content: &str) -> Vec<String> {
    content.lines().map(str::to_owned).collect()
}

#[test]
fn every_cut_of_small_files() {
    for content in [
        "",
        "\n",
        "a",
        "a\n",
        "\n\na",
        "ab\r\nc\n\nd\n",
        "ab\ncd\r\n\r\ne\r",
        "éa\n\nü\r\n",
    ] {
        let inner: Vec<usize> = (1..content.len()).collect();
        for chosen in 0u32..1 << inner.len() {
            let cuts: Vec<usize> = inner
                .iter()
                .enumerate()
                .filter(|(i, _)| chosen & (1 << i) != 0)
                .map(|(_, at)| *at)
                .collect();
            for step in [1, 3, 100] {
                assert_eq!(
                    cut_at(content, &cuts, step),
                    expected(content),
                    "{content:?} at {cuts:?} by {step}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn any_cut_of_any_file(
        pieces in prop::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("x"), Just("é"), Just("a b"), Just("\r")], 0..60),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        step in 1usize..40,
    ) {
        let content = pieces.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(content.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(cut_at(&content, &cuts, step), expected(&content));
    }
}

#[test]
fn files_are_cut_by_size_and_handed_out_in_order() {
    let dir = files(&[("b.txt", b"0123456789"), ("a.txt", b"x\ny\n"), ("empty", b"")]);
    let source = TextFiles::new([dir.path()]).split_size(4);
    let mut enumerator = source.enumerator(None).unwrap();
    let ids: Vec<String> = splits(&mut enumerator)
        .iter()
        .map(|s| {
            tidegate_runtime::source::Split::id(s)
                .rsplit_once('/')
                .unwrap()
                .1
                .to_owned()
        })
        .collect();
    assert_eq!(
        ids,
        ["a.txt [0, 4)", "b.txt [0, 4)", "b.txt [4, 8)", "b.txt [8, 10)"]
    );
    assert_eq!(read_all(&source).unwrap(), ["x", "y", "0123456789"]);
}

#[test]
fn a_split_size_beyond_all_files_and_one_of_a_byte() {
    let dir = files(&[("a", b"one\ntwo\nthree")]);
    for size in [1, 2, u64::MAX] {
        let source = TextFiles::new([dir.path()]).split_size(size);
        assert_eq!(read_all(&source).unwrap(), ["one", "two", "three"]);
    }
    let none = TextFiles::new([dir.path()]).split_size(0);
    assert_eq!(
        said(none.enumerator(None).map(|_| ())),
        "split_size: must be at least one byte"
    );
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let dir = files(&[("a", b"\xEF\xBB\xBFone\ntwo\xEF\xBB\xBF\n")]);
    assert_eq!(
        read_all(&TextFiles::new([dir.path()])).unwrap(),
        ["one", "two\u{FEFF}"]
    );
}

#[test]
fn places_are_those_in_the_file() {
    let dir = files(&[("a", b"one\r\n\r\nthree")]);
    let records = read_all(&TextFiles::new([dir.path()]).split_size(4).with_places()).unwrap();
    let file: Arc<str> = dir.path().join("a").to_str().unwrap().into();
    let at = |offset, line: &str| TextRecord {
        file: file.clone(),
        offset,
        line: line.to_owned(),
    };
    assert_eq!(records, [at(0, "one"), at(5, ""), at(7, "three")]);
}

#[test]
fn splits_and_states_survive_their_codec() {
    let dir = files(&[("a", b"one\ntwo\n"), ("b", b"three\n")]);
    let source = TextFiles::new([dir.path()]).split_size(5);
    let mut enumerator = source.enumerator(None).unwrap();
    enumerator.next_split(SubtaskIndex(0)).unwrap();
    let state = enumerator.snapshot().unwrap();
    let mut bytes = Vec::new();
    tidegate_types::codec::canonical::encode_into(&state, &mut bytes).unwrap();
    let back: FileEnumeration = tidegate_types::codec::canonical::decode_from(&mut &bytes[..]).unwrap();
    assert_eq!(back, state);
    let mut restored = source.enumerator(Some(back)).unwrap();
    assert_eq!(splits(&mut restored), splits(&mut enumerator));
}

/// An earlier leader handed these out after the state was taken; in what order they are heard of says nothing.
#[test]
fn splits_that_readers_hold_are_not_handed_out_again() {
    let dir = files(&[("a", b"0123456789"), ("b", b"01234"), ("c", b"0123456789")]);
    let source = TextFiles::new([dir.path()]).split_size(4);
    let all = splits(&mut source.enumerator(None).unwrap());
    assert_eq!(all.len(), 8);
    for held in [
        vec![],
        vec![0],
        vec![1],
        vec![2, 0],
        vec![4, 1, 7],
        (0..8).rev().collect::<Vec<_>>(),
    ] {
        let mut enumerator = source.enumerator(None).unwrap();
        enumerator.take_over(held.iter().map(|at: &usize| all[*at].clone()).collect());
        let state = enumerator.snapshot().unwrap();
        for mut left in [enumerator, source.enumerator(Some(state)).unwrap()] {
            let mut ranges: Vec<_> = splits(&mut left)
                .iter()
                .map(|s| (s.path.clone(), s.start, s.end))
                .collect();
            ranges.sort();
            let free = all.iter().enumerate().filter(|(at, _)| !held.contains(at));
            let free: Vec<_> = free.map(|(_, s)| (s.path.clone(), s.start, s.end)).collect();
            assert_eq!(merged(ranges), merged(free), "{held:?}");
        }
    }
}

/// Ranges that follow one another count as one.
fn merged(ranges: Vec<(std::sync::Arc<str>, u64, u64)>) -> Vec<(std::sync::Arc<str>, u64, u64)> {
    let mut merged: Vec<(std::sync::Arc<str>, u64, u64)> = Vec::new();
    for (path, start, end) in ranges {
        match merged.last_mut() {
            Some((last, _, to)) if *last == path && *to == start => *to = end,
            _ => merged.push((path, start, end)),
        }
    }
    merged
}

use tidegate_types::OperatorUid;
use tidegate_types::snapshot::Encoding;

use super::*;

fn section(offset: u64, len: u64) -> Section {
    let head = SectionHead {
        uid: OperatorUid::from("sum"),
        kind: SectionKind::Keyed,
        name: "counts".to_owned(),
        hashes: None,
        encoding: Encoding::Native,
        shapes: Vec::new(),
        records: 0,
    };
    Section {
        head,
        crc: 0,
        location: Location::File {
            path: "f".to_owned(),
            offset,
            len,
        },
    }
}

fn ranges(sections: &[Section]) -> Vec<(u64, u64, Vec<usize>)> {
    let sections: Vec<_> = sections.iter().collect();
    let indexes = (0..sections.len()).collect();
    plan(&sections, indexes)
        .into_iter()
        .map(|r| (r.start, r.end, r.sections))
        .collect()
}

const MB: u64 = 1 << 20;

#[test]
fn neighbours_come_together_whatever_the_order_asked_for() {
    let sections = [
        section(HEADER_BYTES + 10, 5),
        section(HEADER_BYTES, 10),
        section(HEADER_BYTES + 15, 0),
    ];
    assert_eq!(ranges(&sections), [(0, HEADER_BYTES + 15, vec![1, 0, 2])]);
}

#[test]
fn a_wide_gap_is_not_read() {
    let sections = [section(HEADER_BYTES, 10), section(40 * MB, 10)];
    assert_eq!(
        ranges(&sections),
        [(0, HEADER_BYTES + 10, vec![0]), (40 * MB, 40 * MB + 10, vec![1])]
    );
}

#[test]
fn a_request_is_bounded_unless_one_section_is_larger() {
    let sections: Vec<_> = (0..10)
        .map(|n| section(HEADER_BYTES + n * 20 * MB, 20 * MB))
        .collect();
    for (start, end, _) in ranges(&sections) {
        assert!(end - start <= MAX_REQUEST_BYTES);
    }
    assert_eq!(
        ranges(&sections).iter().map(|(_, _, of)| of.len()).sum::<usize>(),
        10
    );
    assert_eq!(ranges(&[section(HEADER_BYTES, 200 * MB)]).len(), 1);
}

#[test]
fn a_length_beyond_every_file_is_survived() {
    let sections = [section(HEADER_BYTES, u64::MAX), section(u64::MAX, u64::MAX)];
    assert_eq!(ranges(&sections).len(), 2);
    let problem = slice(&sections[1], &Bytes::from_static(b"abc"), 0, 3).unwrap_err();
    assert!(matches!(problem, Problem::CorruptSection { .. }));
}

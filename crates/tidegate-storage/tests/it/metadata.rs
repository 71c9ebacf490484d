//! The `_metadata` object: what goes in comes out, and no bytes do harm.

use serde::Serialize;
use tidegate_storage::metadata::{MAGIC, VERSION};
use tidegate_storage::*;
use tidegate_types::snapshot::*;
use tidegate_types::*;

use crate::common::*;

fn sample() -> DecisionObject {
    let address = ChannelAddress {
        input: InputIndex(0),
        generation: Generation(1),
        producer: SubtaskIndex(2),
        consumer: SubtaskIndex(1),
    };
    let section = |kind, location| Section {
        head: SectionHead {
            kind,
            hashes: Some(key_group::HashRange {
                first: 1,
                last: u64::MAX,
            }),
            ..head("sum", "s")
        },
        crc: 0xdead_beef,
        location,
    };
    let sections = vec![
        section(
            SectionKind::InFlight(address),
            Location::Inline("inline bytes".into()),
        ),
        section(
            SectionKind::Keyed,
            Location::File {
                path: "chk-7/x.state".into(),
                offset: 16,
                len: u64::MAX,
            },
        ),
    ];
    let subtasks = vec![SubtaskSnapshot {
        subtask: subtask(1),
        sections: sections.clone(),
        finished: true,
    }];
    let metadata = CheckpointMetadata {
        master: sections,
        ..savepoint(subtasks, &[3, 5])
    };
    let metadata = CheckpointMetadata {
        savepoint: Some("/backup/savepoint-x".to_owned()),
        ..metadata
    };
    DecisionObject {
        header: header(),
        decision: complete(metadata),
    }
}

fn header() -> DecisionHeader {
    DecisionHeader {
        job: job_id(),
        id: CheckpointId(7),
        epoch: LeaderEpoch(4),
        nonce: Nonce(u64::MAX),
        newest_complete: Some(CheckpointId(5)),
    }
}

/// Puts a body into a valid frame: what somebody who knows the format could write.
fn sealed(version: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = [
        &MAGIC[..],
        &version.to_le_bytes(),
        &(body.len() as u64).to_le_bytes(),
        body,
    ]
    .concat();
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

const HEADER: usize = 18;

#[test]
fn every_decision_comes_back() {
    let aborted = [
        AbortCause::Claim,
        AbortCause::Closed,
        AbortCause::Failed {
            reason: "r".into(),
            detail: "d".into(),
        },
    ];
    let aborted = aborted.map(|cause| DecisionObject {
        header: header(),
        decision: Decision::Aborted(cause),
    });
    for object in aborted.into_iter().chain([sample()]) {
        let bytes = object.encode().unwrap();
        assert_eq!(DecisionObject::decode(&bytes).unwrap(), object);
        assert_eq!(
            sealed(VERSION, &bytes[HEADER..bytes.len() - 4]),
            bytes,
            "the frame is the documented one"
        );
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_noticed() {
    let bytes = sample().encode().unwrap().to_vec();
    for len in 0..bytes.len() {
        let problem = DecisionObject::decode(&bytes[..len]).unwrap_err();
        assert!(matches!(problem, Problem::Corrupt { .. }), "{len}: {problem}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let problem = DecisionObject::decode(&flipped).unwrap_err();
        assert!(matches!(problem, Problem::Corrupt { .. }), "{bit}: {problem}");
    }
}

#[test]
fn a_body_with_a_valid_checksum_and_any_content_does_no_harm() {
    let body = sample().encode().unwrap().to_vec();
    let body = &body[HEADER..body.len() - 4];
    for at in 0..body.len() {
        // Every byte becomes each of the markers that announce a length (bin, ext, str, array, map; 32 bits), and a
        // few others. What decodes is some other decision; what doesn't is an error.
        for marker in [0x00, 0xc0, 0xc6, 0xc9, 0xdb, 0xdd, 0xdf, 0xff] {
            let mut hostile = body.to_vec();
            hostile[at] = marker;
            let _ = DecisionObject::decode(&sealed(VERSION, &hostile));
        }
        let _ = DecisionObject::decode(&sealed(VERSION, &body[..at]));
    }
    // An announced length of 4 GiB, alone and nested deeper than anything that is written.
    for lengths in [
        vec![0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0x91; 100_000],
        vec![0x81; 100_000],
    ] {
        assert!(DecisionObject::decode(&sealed(VERSION, &lengths)).is_err());
    }
}

#[test]
fn a_newer_version_is_told_from_damage() {
    let body = sample().encode().unwrap().to_vec();
    let newer = sealed(VERSION + 1, &body[HEADER..body.len() - 4]);
    let problem = DecisionObject::decode(&newer).unwrap_err();
    assert!(
        matches!(problem, Problem::FutureVersion { found: 2, known: 1 }),
        "{problem}"
    );
    assert_eq!(problem.kind(), ErrorKind::FixConfiguration);
}

#[test]
fn fields_that_a_later_program_adds_are_skipped() {
    #[derive(Serialize)]
    struct Later {
        header: DecisionHeader,
        decision: Decision,
        added: Vec<String>,
    }
    let Decision::Complete(_) = sample().decision else {
        panic!("a complete one")
    };
    let later = Later {
        header: header(),
        decision: sample().decision,
        added: vec!["x".into()],
    };
    let body = rmp_serde::to_vec_named(&later).unwrap();
    assert_eq!(DecisionObject::decode(&sealed(VERSION, &body)).unwrap(), sample());
}

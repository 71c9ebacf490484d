//! What the tests of the subtask's snapshots share.

use tidegate_protocol::barrier::Cut;
use tidegate_protocol::subtask::{WriteFailed, Written};
use tidegate_types::SnapshotMode::Aligned;
use tidegate_types::snapshot::{SubtaskSnapshot, SubtaskStats};
use tidegate_types::{SubtaskId, SubtaskIndex, VertexId};

use super::{barrier, ms, oldest};

pub fn cut(n: u64, oldest_pending: u64) -> Cut {
    let barrier = oldest(oldest_pending, barrier(n, Aligned).aged(ms(30)));
    Cut {
        barrier,
        mode: Aligned,
        start_delay: ms(10),
        alignment: ms(20),
    }
}

pub fn written(n: u64) -> Box<Written> {
    let subtask = SubtaskId::new(VertexId(0), SubtaskIndex(0));
    let snapshot = SubtaskSnapshot {
        subtask,
        sections: Vec::new(),
        finished: false,
    };
    Box::new(Written {
        snapshot,
        stats: SubtaskStats::default(),
        files: vec![format!("chk-{n}/a")],
        acknowledged: true,
    })
}

/// Written, but cancelled before it was acknowledged.
pub fn written_in_vain(n: u64) -> Box<Written> {
    Box::new(Written {
        acknowledged: false,
        ..*written(n)
    })
}

pub fn failed(n: u64) -> WriteFailed {
    WriteFailed {
        detail: "disk full".into(),
        files: vec![format!("chk-{n}/a")],
    }
}

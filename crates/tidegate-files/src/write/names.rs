//! What the sink's files are called: the one place that builds a name and takes one apart.
//!
//! ```text
//! .tidegate-<job>-<uid>-l<lineage>-e<epoch>-a<attempt>-s<subtask>-c<checkpoint>-<n>.inprogress
//! <prefix>-<tag>-<subtask>-<lineage>-<checkpoint>-<n>.<extension>
//! ```
//!
//! A file is hidden under the first name until it is committed under the second. The hidden name says who writes
//! it: job and uid, so that the sink's committer finds all of its own and no others; epoch and attempt, so that a
//! writer that nobody stopped can't get into the way of its successor. Its checkpoint is the last one before it was
//! begun. In the final name the tag stands for job and uid, so that several sinks may share a directory; checkpoint
//! ids of a job are never used twice, so that no two of its files share a name.

use std::fmt::Write as _;

use tidegate_runtime::operators::SinkContext;
use tidegate_types::hash::key_hash;
use tidegate_types::{CheckpointId, JobId, OperatorUid, SubtaskIndex};

const HIDDEN: &str = ".tidegate-";
const UNFINISHED: &str = ".inprogress";

/// Longest form of a job or uid in a name; a longer one is cut and gets its hash. With it the longest hidden
/// name stays below the 255 bytes that file systems allow.
const MAX_PART_BYTES: usize = 56;

/// The names of one sink.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// What all hidden names begin with.
    hidden: String,
    /// What all final names begin with.
    visible: String,
    /// `.csv`, or nothing.
    extension: String,
}

/// A final name in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinalName {
    pub(crate) subtask: SubtaskIndex,
    pub(crate) lineage: u64,
    pub(crate) checkpoint: CheckpointId,
    pub(crate) n: u64,
}

impl Names {
    /// The names of this job's sink, with the parts that the user chooses.
    pub(crate) fn new(job: &JobId, uid: &OperatorUid, prefix: &str, extension: &str) -> Self {
        let tag = key_hash(&(job.as_str(), uid.as_str())).expect("strings have a hash") >> 32;
        Self {
            hidden: format!("{HIDDEN}{}-{}-", encode(job.as_str()), encode(uid.as_str())),
            visible: format!("{prefix}-{tag:08x}-"),
            extension: if extension.is_empty() {
                String::new()
            } else {
                format!(".{extension}")
            },
        }
    }

    /// The hidden name of the `n`th file that a writer begins after `checkpoint`.
    pub(crate) fn staging(&self, cx: &SinkContext, checkpoint: CheckpointId, n: u64) -> String {
        let SinkContext {
            lineage,
            epoch,
            attempt,
            subtask,
            ..
        } = cx;
        format!(
            "{}l{lineage}-e{epoch}-a{attempt}-s{subtask}-c{checkpoint}-{n}{UNFINISHED}",
            self.hidden
        )
    }

    /// A hidden name for trying out whether files can be created.
    pub(crate) fn probe(&self) -> String {
        format!("{}probe{UNFINISHED}", self.hidden)
    }

    /// Whether a file is an unfinished one of this sink, whoever began it.
    pub(crate) fn is_staging(&self, name: &str) -> bool {
        name.starts_with(&self.hidden) && name.ends_with(UNFINISHED)
    }

    /// The name of a committed file.
    pub(crate) fn visible(&self, name: FinalName) -> String {
        let FinalName {
            subtask,
            lineage,
            checkpoint,
            n,
        } = name;
        format!(
            "{}{subtask}-{lineage}-{checkpoint}-{n}{}",
            self.visible, self.extension
        )
    }

    /// Takes the name of a committed file of this sink apart; `None` if it is none.
    pub(crate) fn parse(&self, name: &str) -> Option<FinalName> {
        let numbers = name.strip_prefix(&self.visible)?.strip_suffix(&self.extension)?;
        let mut numbers = numbers.split('-').map(|n| n.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let parsed = FinalName {
            subtask: SubtaskIndex(u32::try_from(next()?).ok()?),
            lineage: next()?,
            checkpoint: CheckpointId(next()?),
            n: next()?,
        };
        (self.visible(parsed) == name).then_some(parsed)
    }
}

/// Whether a text from a snapshot names a file in a directory and nothing else.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// ASCII letters, digits, `_` and `.` as they are, the rest percent-encoded; `-` too, because it stands between parts.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut cut = 0;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.' {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string takes everything");
        }
        if out.len() <= MAX_PART_BYTES - 17 {
            cut = out.len();
        }
    }
    if out.len() > MAX_PART_BYTES {
        out.truncate(cut);
        let hash = key_hash(text).expect("strings have a hash");
        write!(out, "~{hash:016x}").expect("a string takes everything");
    }
    out
}

#[cfg(test)]
mod tests {
    use tidegate_types::{AttemptNumber, LeaderEpoch, Parallelism};

    use super::*;

    fn cx(job: &str, uid: &str) -> SinkContext {
        SinkContext {
            job: job.into(),
            uid: uid.into(),
            subtask: SubtaskIndex(u32::MAX),
            parallelism: Parallelism(1),
            attempt: AttemptNumber(u32::MAX),
            epoch: LeaderEpoch(u64::MAX),
            lineage: u64::MAX,
            restored: None,
            wall_ms: 0,
        }
    }

    fn names(job: &str, uid: &str) -> Names {
        Names::new(&job.into(), &uid.into(), "part", "txt")
    }

    #[test]
    fn names_are_pinned() {
        let names = names("word count", "sink-1");
        let small = SinkContext {
            subtask: SubtaskIndex(3),
            attempt: AttemptNumber(2),
            epoch: LeaderEpoch(7),
            lineage: 0,
            ..cx("word count", "sink-1")
        };
        assert_eq!(
            names.staging(&small, CheckpointId(9), 1),
            ".tidegate-word%20count-sink%2D1-l0-e7-a2-s3-c9-1.inprogress"
        );
        let name = FinalName {
            subtask: SubtaskIndex(3),
            lineage: 0,
            checkpoint: CheckpointId(10),
            n: 1,
        };
        assert_eq!(names.visible(name), "part-85d65a35-3-0-10-1.txt");
    }

    #[test]
    fn final_names_are_taken_apart() {
        let names = names("j", "u");
        let name = FinalName {
            subtask: SubtaskIndex(u32::MAX),
            lineage: u64::MAX,
            checkpoint: CheckpointId(u64::MAX),
            n: u64::MAX,
        };
        assert_eq!(names.parse(&names.visible(name)), Some(name));
        let bare = Names::new(&"j".into(), &"u".into(), "p", "");
        assert_eq!(bare.parse(&bare.visible(name)), Some(name));
        let good = names.visible(FinalName {
            subtask: SubtaskIndex(1),
            lineage: 2,
            checkpoint: CheckpointId(3),
            n: 4,
        });
        for bad in [
            good.replace("1-2-3-4", "1-2-3"),
            good.replace("1-2-3-4", "1-2-3-4-5"),
            good.replace("1-2-3-4", "01-2-3-4"),
            good.replace("1-2-3-4", "4294967296-2-3-4"),
            good.replace("1-2-3-4", ""),
            good.replace(".txt", ".csv"),
            format!("x{good}"),
            String::new(),
        ] {
            assert_eq!(names.parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_sink_knows_its_own_hidden_files_and_no_others() {
        let of = |job: &str, uid: &str| names(job, uid).staging(&cx(job, uid), CheckpointId(1), 0);
        let mine = names("a-b", "c");
        assert!(mine.is_staging(&of("a-b", "c")));
        assert!(mine.is_staging(&mine.probe()));
        for (job, uid) in [
            ("a", "b-c"),
            ("a-b", "c-d"),
            ("a-b", "cd"),
            ("a_b", "c"),
            ("a-b-c", "c"),
        ] {
            assert!(!mine.is_staging(&of(job, uid)), "{job} {uid}");
        }
        assert!(!mine.is_staging(".tidegate-a%2Db-c-notes.txt"));
    }

    #[test]
    fn long_names_fit_and_differ() {
        let long = "ä/".repeat(500);
        let name = names(&long, &long).staging(&cx(&long, &long), CheckpointId(u64::MAX), u64::MAX);
        assert!(name.len() <= 255, "{} bytes: {name}", name.len());
        assert_ne!(names(&long, "u").hidden, names(&format!("{long}x"), "u").hidden);
        assert_ne!(names(&long, "u").visible, names(&format!("{long}x"), "u").visible);
        // Just what fits isn't cut.
        assert_eq!(encode(&"x".repeat(MAX_PART_BYTES)).len(), MAX_PART_BYTES);
        assert_eq!(encode(&"x".repeat(MAX_PART_BYTES + 1)).len(), MAX_PART_BYTES);
    }

    #[test]
    fn what_a_snapshot_may_name() {
        assert!(is_plain("part-0") && is_plain(".tidegate-x"));
        for bad in ["", ".", "..", "a/b", "../x", "/x", "a\\b", "a\0"] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}

//! What a random job is made of, as plain data: drawn from the seed, built into a graph, and computed by the oracle.

use std::fmt;

use super::item::{Item, mix};

/// An output that others may consume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// A source's, with timestamps and watermarks.
    Source(usize),
    /// An operator's.
    Main(usize),
    /// An operator's side output.
    Side(usize),
}

/// How the records of an edge spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// As the engine likes: forward and chained if it can be.
    Free,
    /// Subtask by subtask, where both sides have as many; else as the engine likes.
    Forward,
    /// In turn over all.
    Rebalance,
    /// In turn over neighbours.
    Rescale,
    /// By a stable function of the record.
    Custom,
}

/// One input edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    /// Whose output.
    pub from: Port,
    /// How it spreads, unless the operator's kind says it.
    pub edge: Edge,
}

/// What a keyed operator does with its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyed {
    /// Sums per stretch of event time, put out by timers. Map state.
    Buckets {
        /// How long a stretch is, in milliseconds.
        width_ms: i64,
    },
    /// The first of each tag. Map state.
    Distinct,
    /// Holds records back for some event time. List state.
    Hold {
        /// How long, in milliseconds.
        delay_ms: i64,
    },
    /// Holds records back for some processing time. List state.
    HoldWall {
        /// How long, in milliseconds.
        delay_ms: i64,
    },
    /// The sum, at the end of everything. Reducing state.
    Total,
    /// The sum, at the end of everything. Aggregating state.
    Aggregate,
    /// The sum since the last portion, every so many records. Value state.
    Portions {
        /// Records of a portion.
        every: u64,
    },
}

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// One to one; the user code may fail. `of` narrows the tags to so many.
    Map {
        /// Tags that there may be; 0: any.
        of: u64,
    },
    /// Keeps `keep` of 8.
    Filter {
        /// Eighths.
        keep: u64,
    },
    /// One to some, now and then to many.
    FlatMap {
        /// At most, usually.
        most: u64,
    },
    /// Records on which the user code fails go to the side output.
    Divert,
    /// Every subtask sees everything, and one of them keeps it.
    Share,
    /// State per key.
    Keyed {
        /// What it does.
        what: Keyed,
        /// How many keys there are.
        keys: u64,
        /// A third of the tags goes to the side output at once.
        side: bool,
    },
    /// Two streams, each with a function of its own.
    Both,
    /// Every pair of records with equal keys of two streams.
    Join {
        /// How many keys there are.
        keys: u64,
    },
}

/// How an operator stands to the chain before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chaining {
    /// As the engine likes.
    Free,
    /// Begins a chain.
    Starts,
    /// Stands alone.
    Alone,
}

/// One operator.
#[derive(Debug, Clone)]
pub struct NodePlan {
    /// What it does.
    pub op: Op,
    /// Makes it different from others of its kind.
    pub salt: u64,
    /// Its inputs; several are united.
    pub first: Vec<Input>,
    /// The second input of an operator with two.
    pub second: Vec<Input>,
    /// Its chain.
    pub chaining: Chaining,
    /// Microseconds that the user code takes for a record.
    pub work_us: u64,
}

impl NodePlan {
    /// Whether it has a side output.
    pub fn has_side(&self) -> bool {
        matches!(self.op, Op::Divert | Op::Keyed { side: true, .. })
    }

    /// The key of a record in this operator.
    pub fn key(&self, item: &Item, keys: u64) -> u64 {
        key_of(self.salt, item, keys)
    }
}

/// The key of a record.
pub fn key_of(salt: u64, item: &Item, keys: u64) -> u64 {
    mix(item.tag, salt) % keys
}

/// Where records come from.
#[derive(Debug, Clone)]
pub struct SourcePlan {
    /// Makes it different.
    pub salt: u64,
    /// How many records.
    pub count: u64,
    /// Partitions of the log; 0: a collection.
    pub partitions: u64,
    /// Microseconds between two records of a partition.
    pub gap_us: u64,
    /// How far out of order event times may be.
    pub bound_ms: u64,
    /// Whether it is soon idle when nothing comes.
    pub idles: bool,
}

impl SourcePlan {
    /// Its records, in order. Tags are unique.
    pub fn items(&self) -> Vec<Item> {
        let item = |i| {
            let tag = mix(i, self.salt);
            Item {
                tag,
                n: 1 + (tag % 3) as i64,
                at: i as i64 * 2 + (tag >> 32) as i64 % (1 + self.bound_ms as i64),
            }
        };
        (0..self.count).map(item).collect()
    }
}

/// Where a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkPlan {
    /// What it takes.
    pub input: Input,
    /// Whether it is two-phase.
    pub exact: bool,
}

/// Options of the job, as text.
pub type Options = Vec<(&'static str, String)>;

/// A random job.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where records come from.
    pub sources: Vec<SourcePlan>,
    /// Operators; inputs come before their consumers.
    pub nodes: Vec<NodePlan>,
    /// Where they go.
    pub sinks: Vec<SinkPlan>,
    /// Options of the job.
    pub options: Options,
    /// Whether every start draws parallelisms and chains anew.
    pub rescales: bool,
    /// The highest parallelism.
    pub widest: u64,
    /// Whether records may come more than once.
    pub at_least_once: bool,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, s) in self.sources.iter().enumerate() {
            write!(f, "\n  source-{i}: {} records", s.count)?;
            match s.partitions {
                0 => write!(f, " of a collection")?,
                p => write!(f, " in {p} partitions, one in {} us", s.gap_us)?,
            }
            write!(f, ", out of order by {} ms", s.bound_ms)?;
            if s.idles {
                write!(f, ", idles")?;
            }
        }
        for (i, n) in self.nodes.iter().enumerate() {
            write!(f, "\n  node-{i}: {:?} <- {}", n.op, Inputs(&n.first))?;
            if !n.second.is_empty() {
                write!(f, " and {}", Inputs(&n.second))?;
            }
            if n.chaining != Chaining::Free {
                write!(f, ", chain {:?}", n.chaining)?;
            }
            if n.work_us > 0 {
                write!(f, ", {} us a record", n.work_us)?;
            }
        }
        for (i, s) in self.sinks.iter().enumerate() {
            let kind = if s.exact { "two-phase" } else { "plain" };
            write!(f, "\n  sink-{i}: {kind} <- {}", Inputs(&[s.input]))?;
        }
        let rescales = if self.rescales {
            ", drawn at each start"
        } else {
            ""
        };
        write!(f, "\n  parallelism up to {}{rescales}", self.widest)?;
        for (key, value) in &self.options {
            write!(f, "\n  {key}: {value}")?;
        }
        Ok(())
    }
}

struct Inputs<'a>(&'a [Input]);

impl fmt::Display for Inputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, input) in self.0.iter().enumerate() {
            let sep = if i > 0 { " + " } else { "" };
            match input.from {
                Port::Source(n) => write!(f, "{sep}source-{n}")?,
                Port::Main(n) => write!(f, "{sep}node-{n}")?,
                Port::Side(n) => write!(f, "{sep}node-{n}'s side")?,
            }
            if input.edge != Edge::Free {
                write!(f, " ({:?})", input.edge)?;
            }
        }
        Ok(())
    }
}

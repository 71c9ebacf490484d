//! From drafts to a graph: defaults, checks, all problems at once.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_runtime::graph::{
    InputEdge, JobGraph as RuntimeGraph, Make, NodeId, OperatorNode, SinkSpec, SourceSpec, Spread, StreamOps,
    TypedOps,
};
use tidegate_types::options::{Configuration, OptionErrors, Origin, keys};
use tidegate_types::{OperatorUid, Parallelism};

use crate::handle::JobGraph;

/// Something that keeps a job from being built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A setting is wrong.
    #[error("{0}")]
    Options(OptionErrors),
    /// There is nothing to run.
    #[error(
        "the job has no source: start a stream with `Environment::source`, `from_collection` or `generate`"
    )]
    Empty,
    /// State that could not be found again.
    #[error(
        "operator `{name}` has state and no uid, and checkpoints are on: after a change of the program its state could \
         not be found. Call `.uid(\"…\")` on it (of a `collect`: `collect_with`), or, if it is a source or sink, give it \
         a name of its own"
    )]
    MissingUid {
        /// The operator.
        name: String,
    },
    /// Two operators with one identity.
    #[error("operators `{first}` and `{second}` have the same uid `{uid}`: uids must be unique in a job")]
    DuplicateUid {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// Their uid.
        uid: String,
    },
    /// One operator with two identities.
    #[error(
        "operator `{name}` was given two uids, `{first}` and `{second}`: an operator and its side outputs have one"
    )]
    TwoUids {
        /// The operator.
        name: String,
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// One side output with records of two types.
    #[error(
        "side output {index} of operator `{name}` is used with two types, `{first}` and `{second}`: give each side output \
         a number of its own"
    )]
    SideTypes {
        /// The operator.
        name: String,
        /// The tag's number.
        index: usize,
        /// One type.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// More subtasks than key groups.
    #[error(
        "operator `{name}` has parallelism {parallelism}, and the job has {max} key groups. Lower it, or raise \
         pipeline.max-parallelism (which can't change for a job that has state)"
    )]
    TooParallel {
        /// The operator.
        name: String,
        /// Its parallelism.
        parallelism: u32,
        /// Key groups.
        max: u32,
    },
    /// No subtask at all.
    #[error("operator `{name}` has parallelism 0")]
    NoSubtasks {
        /// The operator.
        name: String,
    },
    /// Subtask i to subtask i needs as many on both sides.
    #[error(
        "the edge from `{from}` (parallelism {producers}) to `{to}` (parallelism {consumers}) is forward: give both the \
         same parallelism, or use `rebalance()`"
    )]
    Forward {
        /// The producer.
        from: String,
        /// Its parallelism.
        producers: u32,
        /// The consumer.
        to: String,
        /// Its parallelism.
        consumers: u32,
    },
    /// A uid or name that can't be used.
    #[error("`{uid}` can't be a uid of operator `{name}`: {reason}")]
    BadUid {
        /// The operator.
        name: String,
        /// The uid.
        uid: String,
        /// Why.
        reason: String,
    },
}

/// Every problem of a job.
pub struct BuildErrors(pub Vec<BuildError>);

/// The text itself: what `main` returns is printed by it.
impl fmt::Debug for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [one] => write!(f, "the job can't be built: {one}"),
            many => {
                write!(f, "the job can't be built, for {} reasons:", many.len())?;
                many.iter().try_for_each(|e| write!(f, "\n  - {e}"))
            }
        }
    }
}

impl std::error::Error for BuildErrors {}

/// One incoming edge of a draft.
pub(crate) struct EdgeDraft {
    pub(crate) from: usize,
    pub(crate) side: Option<usize>,
    /// `None`: forward where the parallelism allows, else rebalance.
    pub(crate) partitioner: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) slot: usize,
}

/// One operator as the API knows it.
pub(crate) struct NodeDraft {
    pub(crate) name: Arc<str>,
    /// As often as one was given: two different ones are an error.
    pub(crate) uids: Vec<String>,
    pub(crate) parallelism: Option<u32>,
    pub(crate) stateful: bool,
    pub(crate) starts_chain: bool,
    pub(crate) ends_chain: bool,
    pub(crate) inputs: Vec<EdgeDraft>,
    pub(crate) make: MakeDraft,
    pub(crate) ops: Arc<dyn StreamOps>,
    /// By number; `None` where nobody asked for one.
    pub(crate) sides: Vec<Option<Arc<dyn StreamOps>>>,
    /// Side outputs that were asked for with another type than before: number, type.
    pub(crate) side_conflicts: Vec<(usize, &'static str)>,
    pub(crate) source: Option<SourceSpec>,
    pub(crate) sink: Option<SinkSpec>,
    pub(crate) notes: Vec<String>,
}

/// Makes the maker, when the uid is known.
pub(crate) type MakeDraft = Box<dyn Fn(&OperatorUid) -> Make + Send>;

impl NodeDraft {
    pub(crate) fn new(name: &str, make: Make, ops: Arc<dyn StreamOps>) -> Self {
        Self::with_uid(name, move |_| make.clone(), ops)
    }

    pub(crate) fn with_uid(
        name: &str,
        make: impl Fn(&OperatorUid) -> Make + Send + 'static,
        ops: Arc<dyn StreamOps>,
    ) -> Self {
        Self {
            name: name.into(),
            uids: Vec::new(),
            parallelism: None,
            stateful: false,
            starts_chain: false,
            ends_chain: false,
            inputs: Vec::new(),
            make: Box::new(make),
            ops,
            sides: Vec::new(),
            side_conflicts: Vec::new(),
            source: None,
            sink: None,
            notes: Vec::new(),
        }
    }

    /// Somebody consumes this side output.
    pub(crate) fn side(&mut self, index: usize, ops: Arc<dyn StreamOps>) {
        if self.sides.len() <= index {
            self.sides.resize_with(index + 1, || None);
        }
        match &self.sides[index] {
            Some(there) if there.type_name() != ops.type_name() => {
                self.side_conflicts.push((index, ops.type_name()));
            }
            _ => self.sides[index] = Some(ops),
        }
    }
}

/// The operators so far.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) nodes: Vec<NodeDraft>,
}

/// The operators so far, shared by the environment and its streams.
#[derive(Clone, Default)]
pub(crate) struct Drafts(Arc<Mutex<Draft>>);

impl Drafts {
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Draft) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, node: NodeDraft) -> usize {
        self.with(|d| {
            d.nodes.push(node);
            d.nodes.len() - 1
        })
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

pub(crate) fn build(
    drafts: &Drafts,
    configuration: &Configuration,
    name: &Arc<str>,
) -> Result<JobGraph, BuildErrors> {
    let mut problems = Vec::new();
    let mut configuration = configuration.clone();
    // The name that code gave is the weakest: whoever runs the job may call it otherwise.
    let named = configuration
        .effective()
        .iter()
        .any(|e| e.key == keys::PIPELINE_NAME.key() && e.origin != Origin::Default);
    if !named {
        configuration.set(&keys::PIPELINE_NAME, name.to_string());
    }
    let settings = match configuration.resolve() {
        Ok(settings) => settings,
        Err(errors) => return Err(BuildErrors(vec![BuildError::Options(errors)])),
    };
    let nodes = drafts.with(|draft| {
        if draft.nodes.is_empty() {
            problems.push(BuildError::Empty);
        }
        let checkpoints = settings.checkpoints.interval.is_some();
        let parallelism = |n: &NodeDraft| n.parallelism.unwrap_or(settings.job.parallelism.0);
        check_sides(draft, &mut problems);
        check_parallelism(draft, settings.job.max_parallelism.0, parallelism, &mut problems);
        let uids = uids(draft, checkpoints, &mut problems);
        let mut nodes = Vec::new();
        for (node, uid) in draft.nodes.iter().zip(uids) {
            let inputs = node.inputs.iter();
            let inputs = inputs.map(|e| edge(draft, node, e, parallelism, &mut problems));
            let inputs = inputs.collect();
            nodes.push(operator(node, uid, Parallelism(parallelism(node)), inputs));
        }
        nodes
    });
    if !problems.is_empty() {
        return Err(BuildErrors(problems));
    }
    let graph = RuntimeGraph::new(
        settings.job.id.clone(),
        settings.job.name.as_str().into(),
        settings.job.max_parallelism,
        nodes,
        true,
    );
    Ok(JobGraph::new(graph, settings))
}

fn operator(
    node: &NodeDraft,
    uid: OperatorUid,
    parallelism: Parallelism,
    inputs: Vec<InputEdge>,
) -> OperatorNode {
    let mut notes = node.notes.clone();
    notes.extend(node.ops.warning());
    for (index, side) in node.sides.iter().enumerate() {
        let warning = side.as_ref().and_then(|ops| ops.warning());
        notes.extend(warning.map(|w| format!("side output {index}: {w}")));
    }
    let sides = node.sides.iter();
    OperatorNode {
        make: (node.make)(&uid),
        uid,
        uid_given: !node.uids.is_empty(),
        name: node.name.clone(),
        parallelism,
        stateful: node.stateful,
        starts_chain: node.starts_chain,
        ends_chain: node.ends_chain,
        inputs,
        ops: node.ops.clone(),
        side_ops: sides
            .map(|side| side.clone().unwrap_or_else(TypedOps::<()>::shared))
            .collect(),
        source: node.source.clone(),
        sink: node.sink.clone(),
        notes,
    }
}

fn check_parallelism(
    draft: &Draft,
    max: u32,
    parallelism: impl Fn(&NodeDraft) -> u32,
    problems: &mut Vec<BuildError>,
) {
    for node in &draft.nodes {
        let name = node.name.to_string();
        match parallelism(node) {
            0 => problems.push(BuildError::NoSubtasks { name }),
            p if p > max => problems.push(BuildError::TooParallel {
                name,
                parallelism: p,
                max,
            }),
            _ => {}
        }
    }
}

fn check_sides(draft: &Draft, problems: &mut Vec<BuildError>) {
    for node in &draft.nodes {
        for (index, second) in &node.side_conflicts {
            let first = node.sides[*index].as_ref().map_or("", |ops| ops.type_name());
            problems.push(BuildError::SideTypes {
                name: node.name.to_string(),
                index: *index,
                first,
                second,
            });
        }
    }
}

fn uids(draft: &Draft, checkpoints: bool, problems: &mut Vec<BuildError>) -> Vec<OperatorUid> {
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut uids = Vec::new();
    for (at, node) in draft.nodes.iter().enumerate() {
        let name = node.name.to_string();
        let given = given_uid(node, problems);
        let at_an_end = node.source.is_some() || node.sink.is_some();
        let named_alone = draft.nodes.iter().filter(|other| other.name == node.name).count() == 1;
        let uid = match given {
            Some(uid) => uid.to_owned(),
            // Its positions and prepared output must be found again when other operators come and go.
            None if at_an_end && named_alone => name.clone(),
            None => {
                if checkpoints && (node.stateful || at_an_end) {
                    problems.push(BuildError::MissingUid { name: name.clone() });
                }
                format!("{name}#{at}")
            }
        };
        if let Some(first) = seen.insert(uid.clone(), name.clone()) {
            problems.push(BuildError::DuplicateUid {
                first,
                second: name,
                uid: uid.clone(),
            });
        }
        uids.push(OperatorUid::new(uid));
    }
    uids
}

/// The uid that the program gave, if it is one.
fn given_uid<'n>(node: &'n NodeDraft, problems: &mut Vec<BuildError>) -> Option<&'n str> {
    let name = || node.name.to_string();
    let first = node.uids.first()?;
    if let Some(second) = node.uids.iter().find(|u| *u != first) {
        problems.push(BuildError::TwoUids {
            name: name(),
            first: first.clone(),
            second: second.clone(),
        });
    }
    for uid in node.uids.iter().filter(|u| u.trim().is_empty() || u.len() > 255) {
        problems.push(BuildError::BadUid {
            name: name(),
            uid: uid.clone(),
            reason: "it must not be empty, nor longer than 255 bytes".to_owned(),
        });
    }
    Some(first)
}

fn edge(
    draft: &Draft,
    to: &NodeDraft,
    edge: &EdgeDraft,
    parallelism: impl Fn(&NodeDraft) -> u32,
    problems: &mut Vec<BuildError>,
) -> InputEdge {
    let from = &draft.nodes[edge.from];
    let side = edge.side.and_then(|s| from.sides[s].as_ref());
    let ops = side.unwrap_or(&from.ops);
    let (producers, consumers) = (parallelism(from), parallelism(to));
    let partitioner = match &edge.partitioner {
        Some(partitioner) => partitioner.clone(),
        None => ops.default_partitioner(producers == consumers),
    };
    let spread = ops.spread(&*partitioner);
    if spread == Spread::Forward && producers != consumers {
        problems.push(BuildError::Forward {
            from: from.name.to_string(),
            producers,
            to: to.name.to_string(),
            consumers,
        });
    }
    InputEdge {
        from: NodeId(edge.from),
        side: edge.side,
        spread,
        partitioner,
        slot: edge.slot,
    }
}

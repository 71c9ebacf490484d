//! Where tracing stands: the place, the choices of the current pass, and what to try after a refusal.

use std::fmt;

use serde::de;

use super::super::{MAX_SHAPE_DEPTH, MAX_SHAPE_PARTS, ShapeErrorReason};
use super::graph::{ContainerId, Distances, Graph, Kind, NodeId};
use super::invent::{Choice, attempts};

/// How many steps a walk may go in: a type within [`MAX_SHAPE_DEPTH`] takes fewer, recursion included.
const MAX_STEPS: usize = 4 * MAX_SHAPE_DEPTH;
/// Invented numbers stay below this, so that they fit every type.
const DISTINCT_NUMBERS: u8 = 100;

/// Why a pass gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// No other invented value would help.
    Final(ShapeErrorReason),
    /// The type refused a value, in its own words.
    Refused(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Final(reason) => reason.fmt(f),
            Self::Refused(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::Refused(message.to_string())
    }
}

/// One choice of a pass, to be kept if the type accepts and changed if it doesn't.
pub(super) enum Taken {
    /// An invented value.
    Value(NodeId),
    /// Zero, nothing or empty, as a trial.
    Empty(NodeId),
    /// Nothing or empty, because a recursion had to end.
    Ended(NodeId),
    /// A variant that hadn't been seen.
    Variant(ContainerId, usize),
}

/// A step further in, for the place in errors.
pub(super) enum Step {
    Container(&'static str),
    Field(&'static str),
    Index(usize),
    Variant(&'static str),
    Element,
    Key,
    Value,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(_) => Ok(()),
            Self::Field(name) => write!(f, ".{name}"),
            Self::Index(i) => write!(f, ".{i}"),
            Self::Variant(name) => write!(f, "::{name}"),
            Self::Element => f.write_str("[]"),
            Self::Key => f.write_str("[key]"),
            Self::Value => f.write_str("[value]"),
        }
    }
}

/// The state of tracing: what was seen, and where the current pass stands.
pub(super) struct Tracer {
    pub(super) graph: Graph,
    distances: Distances,
    path: Vec<Step>,
    failed_at: Option<String>,
    fault: Option<ShapeErrorReason>,
    pub(super) taken: Vec<Taken>,
    distinct: u8,
    /// Whether this pass met a place of which nothing was known.
    pub(super) news: bool,
    /// How many containers on the path contain themselves: while there are any, everything ends where it can.
    closing: usize,
    /// How often a container was entered that was already around.
    pub(super) recursions: usize,
}

impl Tracer {
    pub(super) fn new() -> Self {
        let graph = Graph::new();
        Self {
            distances: graph.distances(),
            graph,
            path: Vec::new(),
            failed_at: None,
            fault: None,
            taken: Vec::new(),
            distinct: 0,
            news: false,
            closing: 0,
            recursions: 0,
        }
    }

    /// Before a pass. The last one may have ended anywhere.
    pub(super) fn begin(&mut self) {
        self.distances = self.graph.distances();
        self.graph.leave_all();
        self.path.clear();
        self.failed_at = None;
        self.fault = None;
        self.taken.clear();
        self.distinct = 0;
        self.news = false;
        self.closing = 0;
    }

    /// After a pass that gave a value: what was chosen is known to be acceptable. False if the pass showed nothing
    /// that wasn't known.
    pub(super) fn accept(&mut self) -> bool {
        for taken in self.taken.drain(..) {
            match taken {
                Taken::Value(node) => self.graph.node_mut(node).proven = true,
                Taken::Empty(_) | Taken::Ended(_) | Taken::Variant(..) => self.news = true,
            }
        }
        self.news
    }

    /// After a pass that was refused: takes its choices back and changes one of them. The last choice before the
    /// refusal is the likeliest cause. False if there is nothing left to change.
    pub(super) fn try_another(&mut self) -> bool {
        for taken in &self.taken {
            match *taken {
                Taken::Value(_) => {}
                Taken::Empty(node) | Taken::Ended(node) => self.graph.node_mut(node).tried_empty = false,
                Taken::Variant(enumeration, index) => {
                    if let Some(variant) = self.graph.variant_mut(enumeration, index) {
                        variant.seen = false;
                    }
                }
            }
        }
        let last = self.taken.iter().rev().find_map(|taken| match *taken {
            Taken::Value(node) => Some((node, true)),
            Taken::Empty(node) => Some((node, false)),
            Taken::Ended(_) | Taken::Variant(..) => None,
        });
        let Some((node, is_value)) = last else {
            return false;
        };
        if is_value && !self.graph.node(node).proven && self.next_candidate(node) {
            return true;
        }
        let trial = self.taken.iter().rev().find_map(|taken| match *taken {
            Taken::Empty(node) => Some(node),
            _ => None,
        });
        if let Some(trial) = trial {
            // It won't be tried again, and whatever came after it starts afresh.
            self.graph.node_mut(trial).tried_empty = true;
            if is_value {
                self.graph.node_mut(node).candidate = 0;
            }
            return true;
        }
        self.next_candidate(node)
    }

    fn next_candidate(&mut self, node: NodeId) -> bool {
        let node = self.graph.node_mut(node);
        let Kind::Leaf(leaf) = node.kind else { return false };
        node.candidate += 1;
        node.candidate < attempts(leaf)
    }

    pub(super) fn take_fault(&mut self) -> Option<ShapeErrorReason> {
        self.fault.take()
    }

    /// Where the pass failed, or where it stood when it panicked.
    pub(super) fn failed_at(&mut self) -> String {
        self.failed_at.take().unwrap_or_else(|| self.place())
    }

    fn place(&self) -> String {
        let mut place = String::new();
        for (i, step) in self.path.iter().enumerate() {
            match step {
                Step::Container(name) if i == 0 => place.push_str(name),
                step => place.push_str(&step.to_string()),
            }
        }
        place
    }

    pub(super) fn fail(&mut self, reason: ShapeErrorReason) -> Fault {
        self.fault.get_or_insert_with(|| reason.clone());
        if self.failed_at.is_none() {
            self.failed_at = Some(self.place());
        }
        Fault::Final(reason)
    }

    /// Goes one step further in.
    pub(super) fn step<R>(
        &mut self,
        step: Step,
        inside: impl FnOnce(&mut Self) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.path.push(step);
        if self.path.len() > MAX_STEPS {
            return Err(self.fail(ShapeErrorReason::TooLarge("nested too deeply")));
        }
        if self.graph.len() > MAX_SHAPE_PARTS {
            return Err(self.fail(ShapeErrorReason::TooLarge("too many parts")));
        }
        let result = inside(self);
        if result.is_err() && self.failed_at.is_none() {
            self.failed_at = Some(self.place());
        }
        self.path.pop();
        result
    }

    /// Goes into a struct or enum.
    pub(super) fn inside<R>(
        &mut self,
        id: ContainerId,
        inside: impl FnOnce(&mut Self) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let again = self.graph.container(id).active > 0;
        self.graph.container_mut(id).active += 1;
        self.closing += usize::from(again);
        self.recursions += usize::from(again);
        let result = self.step(Step::Container(self.graph.container(id).name), inside);
        self.closing -= usize::from(again);
        self.graph.container_mut(id).active -= 1;
        result
    }

    /// Whether an option, sequence or map is to be empty this time.
    pub(super) fn end_here(&mut self, at: NodeId, inner: &[NodeId]) -> bool {
        if self.closing > 0 {
            if !self.graph.node(at).tried_empty {
                self.graph.node_mut(at).tried_empty = true;
                self.taken.push(Taken::Ended(at));
            }
            return true;
        }
        if self.graph.node(at).tried_empty || inner.iter().any(|node| self.graph.leads_on(*node)) {
            return false;
        }
        self.graph.node_mut(at).tried_empty = true;
        self.taken.push(Taken::Empty(at));
        true
    }

    /// Which value a number, string, … gets this time.
    pub(super) fn choose(&mut self, at: NodeId) -> Choice {
        self.distinct = self.distinct % DISTINCT_NUMBERS + 1;
        let distinct = self.distinct;
        let node = self.graph.node_mut(at);
        if node.proven && !node.tried_empty {
            node.tried_empty = true;
            self.taken.push(Taken::Empty(at));
            return Choice::Empty;
        }
        self.taken.push(Taken::Value(at));
        Choice::Attempt {
            n: self.graph.node(at).candidate,
            distinct,
        }
    }

    /// Which variant of an enum is entered this time.
    pub(super) fn choose_variant(&self, id: ContainerId) -> Option<usize> {
        let variants = self.graph.variants(id);
        let unseen = variants.iter().position(|v| !v.seen && v.active == 0);
        let grounded = variants.iter().position(|v| v.grounded);
        let any = variants.iter().position(|v| v.active == 0);
        if self.closing > 0 {
            return grounded.or(unseen).or(any);
        }
        let towards_pending = || {
            let distance = |v| self.graph.variant_distance(v, &self.distances);
            let reachable = variants
                .iter()
                .enumerate()
                .filter_map(|(i, v)| Some((distance(v)?, i)));
            reachable.min().map(|(_, i)| i)
        };
        unseen.or_else(towards_pending).or(grounded).or(any)
    }
}

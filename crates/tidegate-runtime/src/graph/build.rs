//! From an operator's description to its place in a running chain: where record types come back.

use std::any::Any;
use std::sync::Arc;

use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::{
    AttemptNumber, InputIndex, JobId, LeaderEpoch, MaxParallelism, OperatorUid, Parallelism, SubtaskIndex,
};

use crate::chain::{
    ChannelOrigin, Downstream, NodeMeta, OpNode, Operator, Operator2, Outlet, Partitioner, Route, Side,
    SideLink, TwoInputNode,
};
use crate::error::BoxError;
use crate::gate::{BudgetSettings, GateReader};
use crate::operators::{AnySink, SinkContext, SinkOp};
use crate::source::AnySource;
use crate::task::{Body, GateBody, GatePort, SourceBody, TwoGateBody};

use super::ops::{AnyDownstream, open, open_gate};
use super::wiring::WiredGate;

/// What stands behind an operator, before its types are known.
pub struct Outputs {
    /// The consumer of its main output (`Box<dyn Downstream<O>>`).
    pub main: AnyDownstream,
    /// Its side outputs' consumers.
    pub sides: Vec<(usize, Box<dyn SideLink>)>,
}

impl Outputs {
    fn outlet<O: Send + 'static>(self) -> Outlet<O> {
        let mut outlet = Outlet::new(open(self.main, "the main output's consumer"));
        for (index, side) in self.sides {
            outlet.set_side(index, side);
        }
        outlet
    }
}

/// Where an operator is made.
pub struct MakeContext<'a> {
    /// The job.
    pub job: &'a JobId,
    /// The operator.
    pub uid: &'a OperatorUid,
    /// Display name.
    pub name: &'a Arc<str>,
    /// Which parallel copy.
    pub subtask: SubtaskIndex,
    /// How many there are.
    pub parallelism: Parallelism,
    /// Key groups.
    pub max_parallelism: MaxParallelism,
    /// The attempt.
    pub attempt: AttemptNumber,
    /// The leadership.
    pub epoch: LeaderEpoch,
    /// Which line of history committed output belongs to.
    pub lineage: u64,
    /// How gates are budgeted.
    pub budget: BudgetSettings,
    /// The gates, if the operator heads its chain: one per slot.
    pub gates: Vec<&'a WiredGate>,
    /// The partitioner of its (first) incoming edge per slot, in its box.
    pub partitioners: Vec<&'a (dyn Any + Send + Sync)>,
}

impl MakeContext<'_> {
    fn meta(&self) -> NodeMeta {
        NodeMeta {
            uid: self.uid.clone(),
            name: self.name.clone(),
            subtask: self.subtask,
        }
    }

    /// What a sink's writer learns.
    pub fn sink_context(&self) -> SinkContext {
        SinkContext {
            job: self.job.clone(),
            uid: self.uid.clone(),
            subtask: self.subtask,
            parallelism: self.parallelism,
            attempt: self.attempt,
            epoch: self.epoch,
            lineage: self.lineage,
            restored: None,
            wall_ms: 0,
        }
    }

    /// Channels of an operator inside a chain: one, from the same subtask.
    fn inner_channel(&self) -> Vec<ChannelOrigin> {
        vec![ChannelOrigin {
            input: InputIndex(0),
            producer: self.subtask,
        }]
    }

    fn port<T: Record>(&self, slot: usize) -> GatePort<T> {
        let wired = self.gates[slot];
        let gate = open_gate::<T>(&wired.gate);
        let reader = GateReader::new(gate.clone(), self.budget);
        GatePort::new(
            gate,
            reader,
            wired.origins.clone(),
            TypeFormat::of(),
            self.uid.clone(),
            self.subtask,
        )
    }

    /// Where in-flight records of a slot belong after a restore: by the operator's own key if it has one, else by
    /// the edge's partitioner.
    fn side<T: Record>(&self, slot: usize, own: Option<Route<T>>) -> Side<T> {
        let origins = self
            .gates
            .get(slot)
            .map_or_else(|| self.inner_channel(), |g| g.origins.clone());
        let edge = self
            .partitioners
            .get(slot)
            .and_then(|p| p.downcast_ref::<Partitioner<T>>())
            .map(Route::of);
        Side::new(origins, TypeFormat::of(), own.or(edge).unwrap_or(Route::Position))
    }
}

/// What making an operator came to.
pub enum Built {
    /// The head of a task.
    Body(Box<dyn Body>),
    /// A part of a chain (`Box<dyn Downstream<I>>`).
    Part(AnyDownstream),
}

/// Makes an operator's runtime form in front of its outputs.
pub type Make = Arc<dyn Fn(&MakeContext<'_>, Outputs) -> Result<Built, BoxError> + Send + Sync>;

/// A maker for an operator with one input. `route` is for keyed operators.
pub fn make_one_input<I: Record, O: Send + 'static>(
    op: impl Fn(&MakeContext<'_>) -> Box<dyn Operator<I, O>> + Send + Sync + 'static,
    route: Option<Route<I>>,
) -> Make {
    Arc::new(move |cx, outputs| {
        let node = OpNode::new(cx.meta(), op(cx), cx.side(0, route.clone()), outputs.outlet());
        Ok(finish(cx, Box::new(node)))
    })
}

fn finish<I: Record>(cx: &MakeContext<'_>, node: Box<dyn Downstream<I>>) -> Built {
    if cx.gates.is_empty() {
        Built::Part(Box::new(node))
    } else {
        Built::Body(Box::new(GateBody::new(cx.port::<I>(0), node)))
    }
}

/// A maker for a sink.
pub fn make_sink_node<T: Record>(sink: Arc<dyn AnySink<T>>) -> Make {
    Arc::new(move |cx, outputs| {
        let op = SinkOp::new(sink.clone(), cx.sink_context());
        let node = OpNode::new(cx.meta(), Box::new(op), cx.side(0, None), outputs.outlet());
        Ok(finish(cx, Box::new(node)))
    })
}

/// A maker for an operator with two inputs.
pub fn make_two_input<A: Record, B: Record, O: Send + 'static>(
    op: impl Fn(&MakeContext<'_>) -> Box<dyn Operator2<A, B, O>> + Send + Sync + 'static,
    first: Option<Route<A>>,
    second: Option<Route<B>>,
) -> Make {
    Arc::new(move |cx, outputs| {
        let (a, b) = (cx.side(0, first.clone()), cx.side(1, second.clone()));
        let node = TwoInputNode::new(cx.meta(), op(cx), a, b, outputs.outlet());
        Ok(Built::Body(Box::new(TwoGateBody::new(
            cx.port::<A>(0),
            cx.port::<B>(1),
            Box::new(node),
        ))))
    })
}

/// A maker for a source.
pub fn make_source<T: Record>(source: Arc<dyn AnySource<T>>) -> Make {
    Arc::new(move |cx, outputs| {
        Ok(Built::Body(Box::new(SourceBody::new(
            cx.meta(),
            source.clone(),
            outputs.outlet(),
        ))))
    })
}

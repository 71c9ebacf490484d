//! The plan, for people.

use std::fmt::Write;

use tidegate_types::VertexId;

use super::{ChainReason, JobGraph, NodeId};

impl JobGraph {
    /// The plan as text: every chain with its parallelism and operators, every edge with what barriers can do on it
    /// and why.
    pub fn explain(&self) -> String {
        let mut text = format!(
            "job `{}` ({}), {} key groups\n",
            self.name, self.job, self.max_parallelism
        );
        for (at, vertex) in self.chained.vertices.iter().enumerate() {
            let id = VertexId(at as u32);
            let _ = writeln!(
                text,
                "\nvertex {id}: {} (parallelism {})",
                self.vertex_name(id),
                vertex.parallelism
            );
            for node in &vertex.nodes {
                self.explain_node(*node, &mut text);
            }
        }
        text
    }

    fn explain_node(&self, id: NodeId, text: &mut String) {
        let node = self.node(id);
        let given = if node.uid_given {
            ""
        } else {
            " (made from name and position)"
        };
        let _ = writeln!(text, "  {} uid `{}`{given}", node.name, node.uid);
        for (input, edge) in node.inputs.iter().enumerate() {
            let from = self.node(edge.from);
            let stream = edge.side.map_or(&from.ops, |s| &from.side_ops[s]);
            if self.chained.is_chained(id) {
                let _ = writeln!(
                    text,
                    "    input {input} from `{}`: chained, {}",
                    from.uid,
                    stream.type_name()
                );
                continue;
            }
            let (kind, why) = edge.spread.kind();
            let _ = writeln!(
                text,
                "    input {input} from `{}`: {} {kind}, {} ({why}); {}",
                from.uid,
                edge.spread.name(),
                stream.type_name(),
                match self.chained.reasons[id.0] {
                    ChainReason::SeveralInputs => "not chained: several inputs",
                    ChainReason::NotForward => "not chained: records change subtask",
                    ChainReason::Parallelism => "not chained: the parallelism differs",
                    ChainReason::Asked => "not chained: asked for",
                    ChainReason::Off => "not chained: chaining is off",
                    ChainReason::Chained | ChainReason::Source => "",
                }
            );
        }
        for note in &node.notes {
            let _ = writeln!(text, "    note: {note}");
        }
    }
}

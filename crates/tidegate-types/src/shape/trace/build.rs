//! Spells a traced graph out as a shape.

use super::super::{Field, MAX_SHAPE_DEPTH, MAX_SHAPE_PARTS, Payload, Shape, ShapeErrorReason, Variant};
use super::graph::{ContainerId, Content, Fields, Graph, Kind, NodeId};

/// A tuple of more equal parts than this is called an array.
const LONG_TUPLE: usize = 8;

pub(super) fn shape(graph: &Graph) -> Result<Shape, ShapeErrorReason> {
    Build {
        graph,
        around: Vec::new(),
        depth: 0,
        parts: 0,
    }
    .node(NodeId::ROOT)
}

struct Build<'g> {
    graph: &'g Graph,
    around: Vec<ContainerId>,
    depth: usize,
    parts: usize,
}

impl Build<'_> {
    fn node(&mut self, id: NodeId) -> Result<Shape, ShapeErrorReason> {
        self.parts += 1;
        if self.parts > MAX_SHAPE_PARTS {
            return Err(ShapeErrorReason::TooLarge("too many parts"));
        }
        if self.depth >= MAX_SHAPE_DEPTH {
            return Err(ShapeErrorReason::TooLarge("nested too deeply"));
        }
        self.depth += 1;
        let shape = self.kind(&self.graph.node(id).kind.clone())?;
        self.depth -= 1;
        Ok(shape)
    }

    fn boxed(&mut self, id: NodeId) -> Result<Box<Shape>, ShapeErrorReason> {
        self.node(id).map(Box::new)
    }

    fn kind(&mut self, kind: &Kind) -> Result<Shape, ShapeErrorReason> {
        Ok(match kind {
            Kind::Unknown => return Err(ShapeErrorReason::Incomplete),
            Kind::Unit => Shape::Unit,
            Kind::Leaf(leaf) => leaf.shape(),
            Kind::Option(inner) => Shape::Option(self.boxed(*inner)?),
            Kind::Seq(element) => Shape::Seq(self.boxed(*element)?),
            Kind::Map(key, value) => Shape::Map {
                key: self.boxed(*key)?,
                value: self.boxed(*value)?,
            },
            Kind::Tuple(parts) => tuple(self.tuple_parts(parts)?),
            Kind::Container(id) => return self.container(*id),
        })
    }

    fn tuple_parts(&mut self, parts: &[NodeId]) -> Result<Vec<Shape>, ShapeErrorReason> {
        parts.iter().map(|part| self.node(*part)).collect()
    }

    fn fields(&mut self, fields: &[(&'static str, NodeId)]) -> Result<Vec<Field>, ShapeErrorReason> {
        let field = |(name, node): &(&'static str, NodeId)| {
            Ok(Field {
                name: (*name).into(),
                shape: self.node(*node)?,
            })
        };
        fields.iter().map(field).collect()
    }

    fn container(&mut self, id: ContainerId) -> Result<Shape, ShapeErrorReason> {
        let container = self.graph.container(id);
        let name = container.name.to_string();
        if let Some(up) = self.around.iter().rev().position(|around| *around == id) {
            return Ok(Shape::Recursive { up: up as u32, name });
        }
        self.around.push(id);
        let shape = match &container.content {
            Content::Struct(Fields::Unit) => Shape::UnitStruct { name },
            Content::Struct(Fields::Newtype(inner)) => Shape::Newtype {
                name,
                inner: self.boxed(*inner)?,
            },
            Content::Struct(Fields::Tuple(parts)) => Shape::TupleStruct {
                name,
                fields: self.tuple_parts(parts)?,
            },
            Content::Struct(Fields::Named(fields)) => Shape::Struct {
                name,
                fields: self.fields(fields)?,
            },
            Content::Enum(variants) => {
                let mut spelled = Vec::with_capacity(variants.len());
                for variant in variants {
                    let payload = match &variant.fields {
                        None => return Err(ShapeErrorReason::Incomplete),
                        Some(Fields::Unit) => Payload::Unit,
                        Some(Fields::Newtype(inner)) => Payload::Newtype(self.boxed(*inner)?),
                        Some(Fields::Tuple(parts)) => Payload::Tuple(self.tuple_parts(parts)?),
                        Some(Fields::Named(fields)) => Payload::Struct(self.fields(fields)?),
                    };
                    spelled.push(Variant {
                        name: variant.name.into(),
                        payload,
                    });
                }
                Shape::Enum {
                    name,
                    variants: spelled,
                }
            }
        };
        self.around.pop();
        Ok(shape)
    }
}

fn tuple(mut parts: Vec<Shape>) -> Shape {
    let len = parts.len();
    let equal = parts.windows(2).all(|pair| pair[0] == pair[1]);
    match parts.pop() {
        Some(element) if len > LONG_TUPLE && equal => Shape::Array {
            element: Box::new(element),
            len: len as u64,
        },
        Some(last) => {
            parts.push(last);
            Shape::Tuple(parts)
        }
        None => Shape::Tuple(parts),
    }
}

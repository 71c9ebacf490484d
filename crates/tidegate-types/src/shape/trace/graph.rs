//! What tracing has seen of a type: a graph of places.
//!
//! A [`Node`] is a place where something is read. Structs and enums are [`Container`]s, one per type however often
//! it occurs, so recursion is a cycle and not an endless tree. The graph also says what is still pending, and
//! how far from each container the nearest pending thing is.

use std::collections::HashMap;

use super::super::Shape;

/// A place in the type where something is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(usize);

impl NodeId {
    pub(super) const ROOT: Self = Self(0);
}

/// A struct or enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ContainerId(usize);

/// A place and what has been tried there.
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Was a zero, nothing or empty once, or refused to be.
    pub(super) tried_empty: bool,
    /// Which of the invented values is in use.
    pub(super) candidate: usize,
    /// Whether that value was accepted once.
    pub(super) proven: bool,
}

/// What is read at a place.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Unknown,
    Unit,
    Leaf(Leaf),
    Option(NodeId),
    Seq(NodeId),
    Map(NodeId, NodeId),
    Tuple(Vec<NodeId>),
    Container(ContainerId),
}

/// What is read in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaf {
    Bool,
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F32,
    F64,
    Char,
    Str,
    Bytes,
}

impl Leaf {
    pub(super) fn shape(self) -> Shape {
        match self {
            Self::Bool => Shape::Bool,
            Self::I8 => Shape::I8,
            Self::I16 => Shape::I16,
            Self::I32 => Shape::I32,
            Self::I64 => Shape::I64,
            Self::I128 => Shape::I128,
            Self::U8 => Shape::U8,
            Self::U16 => Shape::U16,
            Self::U32 => Shape::U32,
            Self::U64 => Shape::U64,
            Self::U128 => Shape::U128,
            Self::F32 => Shape::F32,
            Self::F64 => Shape::F64,
            Self::Char => Shape::Char,
            Self::Str => Shape::Str,
            Self::Bytes => Shape::Bytes,
        }
    }
}

/// A struct or enum.
pub(super) struct Container {
    pub(super) name: &'static str,
    pub(super) content: Content,
    /// How often it is around the place where the walk stands.
    pub(super) active: usize,
}

/// What a struct or a variant contains.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Fields {
    Unit,
    Newtype(NodeId),
    Tuple(Vec<NodeId>),
    Named(Vec<(&'static str, NodeId)>),
}

pub(super) enum Content {
    Struct(Fields),
    Enum(Vec<VariantNode>),
}

/// A variant of an enum.
pub(super) struct VariantNode {
    pub(super) name: &'static str,
    /// Known once the variant was entered.
    pub(super) fields: Option<Fields>,
    /// A sample with it exists.
    pub(super) seen: bool,
    /// How often it is around the place where the walk stands.
    pub(super) active: usize,
    /// It was left once without coming back to a type around it: it ends a recursion.
    pub(super) grounded: bool,
}

/// What makes a struct or enum the same one: serde's name alone doesn't (generic types), but the type of its visitor
/// carries the type's parameters.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) name: &'static str,
    pub(super) visitor: &'static str,
    pub(super) parts: Parts,
}

/// The kind of struct or enum, with the names of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Parts {
    Unit,
    Newtype,
    Tuple(usize),
    Fields(&'static [&'static str]),
    Variants(&'static [&'static str]),
}

/// How many containers lie between a container and the nearest pending thing; `None` if nothing is pending there.
pub(super) type Distance = Option<usize>;

pub(super) struct Graph {
    nodes: Vec<Node>,
    containers: Vec<Container>,
    known: HashMap<Identity, ContainerId>,
}

impl Graph {
    pub(super) fn new() -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            containers: Vec::new(),
            known: HashMap::new(),
        };
        graph.add();
        graph
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A place of which nothing is known yet.
    pub(super) fn add(&mut self) -> NodeId {
        self.nodes.push(Node {
            kind: Kind::Unknown,
            tried_empty: false,
            candidate: 0,
            proven: false,
        });
        NodeId(self.nodes.len() - 1)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0]
    }

    pub(super) fn container(&self, id: ContainerId) -> &Container {
        &self.containers[id.0]
    }

    pub(super) fn container_mut(&mut self, id: ContainerId) -> &mut Container {
        &mut self.containers[id.0]
    }

    /// The variants of an enum; none for a struct.
    pub(super) fn variants(&self, id: ContainerId) -> &[VariantNode] {
        match &self.container(id).content {
            Content::Enum(variants) => variants,
            Content::Struct(_) => &[],
        }
    }

    pub(super) fn variant_mut(&mut self, id: ContainerId, index: usize) -> Option<&mut VariantNode> {
        match &mut self.container_mut(id).content {
            Content::Enum(variants) => variants.get_mut(index),
            Content::Struct(_) => None,
        }
    }

    /// The fields of a struct; none for an enum.
    pub(super) fn struct_fields(&self, id: ContainerId) -> Fields {
        match &self.container(id).content {
            Content::Struct(fields) => fields.clone(),
            Content::Enum(_) => Fields::Unit,
        }
    }

    pub(super) fn enter_variant(&mut self, id: ContainerId, index: usize) {
        if let Some(variant) = self.variant_mut(id, index) {
            variant.active += 1;
        }
    }

    pub(super) fn leave_variant(&mut self, id: ContainerId, index: usize) {
        if let Some(variant) = self.variant_mut(id, index) {
            variant.active -= 1;
        }
    }

    /// Notes that a variant was walked to its end. True if that was the first time.
    pub(super) fn see_variant(&mut self, id: ContainerId, index: usize, without_recursion: bool) -> bool {
        let Some(variant) = self.variant_mut(id, index) else {
            return false;
        };
        variant.grounded |= without_recursion;
        let first = !variant.seen && variant.fields.is_some();
        variant.seen |= first;
        first
    }

    /// Forgets where a walk stood.
    pub(super) fn leave_all(&mut self) {
        for container in &mut self.containers {
            container.active = 0;
            if let Content::Enum(variants) = &mut container.content {
                variants.iter_mut().for_each(|variant| variant.active = 0);
            }
        }
    }

    /// What is read at a place, in words.
    pub(super) fn describe(&self, id: NodeId) -> String {
        match &self.node(id).kind {
            Kind::Unknown => "nothing".into(),
            Kind::Unit => "unit".into(),
            Kind::Leaf(leaf) => leaf.shape().to_string(),
            Kind::Option(_) => "an option".into(),
            Kind::Seq(_) => "a sequence".into(),
            Kind::Map(..) => "a map".into(),
            Kind::Tuple(parts) => format!("a tuple of {}", parts.len()),
            Kind::Container(id) => format!("`{}`", self.container(*id).name),
        }
    }

    /// The container of an identity, made when it is met first.
    pub(super) fn container_for(&mut self, identity: Identity) -> ContainerId {
        if let Some(&id) = self.known.get(&identity) {
            return id;
        }
        let content = match identity.parts {
            Parts::Variants(names) => {
                Content::Enum(names.iter().map(|name| VariantNode::new(name)).collect())
            }
            parts => Content::Struct(self.fields(parts)),
        };
        let id = ContainerId(self.containers.len());
        self.containers.push(Container {
            name: identity.name,
            content,
            active: 0,
        });
        self.known.insert(identity, id);
        id
    }

    /// Fresh places for the parts of a struct or variant.
    pub(super) fn fields(&mut self, parts: Parts) -> Fields {
        match parts {
            Parts::Unit | Parts::Variants(_) => Fields::Unit,
            Parts::Newtype => Fields::Newtype(self.add()),
            Parts::Tuple(len) => Fields::Tuple((0..len).map(|_| self.add()).collect()),
            Parts::Fields(names) => Fields::Named(names.iter().map(|name| (*name, self.add())).collect()),
        }
    }

    /// Whether anything is still to be seen.
    pub(super) fn is_pending(&self) -> bool {
        let variant_pending = |c: &Container| match &c.content {
            Content::Enum(variants) => variants.iter().any(|v| !v.seen),
            Content::Struct(_) => false,
        };
        self.nodes.iter().any(Node::is_pending) || self.containers.iter().any(variant_pending)
    }

    /// For every container how far the nearest pending thing is, so that a walk which can choose goes there.
    pub(super) fn distances(&self) -> Distances {
        let mut distances = Distances(vec![None; self.containers.len()]);
        // Each round settles the containers one step further away.
        loop {
            let mut changed = false;
            for (i, container) in self.containers.iter().enumerate() {
                let found = match &container.content {
                    Content::Struct(fields) => self.fields_distance(fields, &distances),
                    Content::Enum(variants) => {
                        nearest(variants.iter().map(|v| self.variant_distance(v, &distances)))
                    }
                };
                if found != distances.0[i] && (distances.0[i].is_none() || found < distances.0[i]) {
                    distances.0[i] = found;
                    changed = true;
                }
            }
            if !changed {
                return distances;
            }
        }
    }

    pub(super) fn variant_distance(&self, variant: &VariantNode, distances: &Distances) -> Distance {
        match &variant.fields {
            Some(fields) if variant.seen => self.fields_distance(fields, distances),
            _ => Some(0),
        }
    }

    fn fields_distance(&self, fields: &Fields, distances: &Distances) -> Distance {
        nearest(fields.nodes().map(|node| self.distance(node, distances)))
    }

    /// Whether anything pending can be reached from a place without coming back to a container around it, where
    /// everything ends as soon as it can.
    pub(super) fn leads_on(&self, from: NodeId) -> bool {
        let mut visited = vec![false; self.containers.len()];
        let mut open = vec![from];
        while let Some(id) = open.pop() {
            let node = self.node(id);
            if node.is_pending() {
                return true;
            }
            match &node.kind {
                Kind::Unknown | Kind::Unit | Kind::Leaf(_) => {}
                Kind::Option(inner) | Kind::Seq(inner) => open.push(*inner),
                Kind::Map(key, value) => open.extend([*key, *value]),
                Kind::Tuple(parts) => open.extend(parts),
                Kind::Container(c) if self.container(*c).active > 0 || visited[c.0] => {}
                Kind::Container(c) => {
                    visited[c.0] = true;
                    match &self.container(*c).content {
                        Content::Struct(fields) => open.extend(fields.nodes()),
                        Content::Enum(variants) if variants.iter().any(|v| !v.seen) => return true,
                        Content::Enum(variants) => {
                            open.extend(
                                variants
                                    .iter()
                                    .filter_map(|v| v.fields.as_ref())
                                    .flat_map(Fields::nodes),
                            );
                        }
                    }
                }
            }
        }
        false
    }

    /// How many containers lie between a place and the nearest pending thing.
    fn distance(&self, id: NodeId, distances: &Distances) -> Distance {
        let node = self.node(id);
        if node.is_pending() {
            return Some(0);
        }
        match &node.kind {
            Kind::Unknown | Kind::Unit | Kind::Leaf(_) => None,
            Kind::Option(inner) | Kind::Seq(inner) => self.distance(*inner, distances),
            Kind::Map(key, value) => nearest([*key, *value].into_iter().map(|n| self.distance(n, distances))),
            Kind::Tuple(parts) => nearest(parts.iter().map(|n| self.distance(*n, distances))),
            // A container met in this pass only has no distance yet: it is new, so something is pending there.
            Kind::Container(c) => distances.0.get(c.0).copied().unwrap_or(Some(0)).map(|d| d + 1),
        }
    }
}

/// [`Graph::distances`] as of the beginning of a pass.
pub(super) struct Distances(Vec<Distance>);

fn nearest(distances: impl Iterator<Item = Distance>) -> Distance {
    distances.flatten().min()
}

impl Node {
    fn is_pending(&self) -> bool {
        match self.kind {
            Kind::Unknown => true,
            Kind::Leaf(_) | Kind::Option(_) | Kind::Seq(_) | Kind::Map(..) => !self.tried_empty,
            Kind::Unit | Kind::Tuple(_) | Kind::Container(_) => false,
        }
    }
}

impl VariantNode {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            fields: None,
            seen: false,
            active: 0,
            grounded: false,
        }
    }
}

impl Fields {
    pub(super) fn fits(&self, parts: Parts) -> bool {
        match (self, parts) {
            (Self::Unit, Parts::Unit) | (Self::Newtype(_), Parts::Newtype) => true,
            (Self::Tuple(nodes), Parts::Tuple(len)) => nodes.len() == len,
            (Self::Named(fields), Parts::Fields(names)) => fields.iter().map(|(name, _)| name).eq(names),
            _ => false,
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let (one, parts, named) = match self {
            Self::Unit => (None, &[][..], &[][..]),
            Self::Newtype(node) => (Some(*node), &[][..], &[][..]),
            Self::Tuple(parts) => (None, &parts[..], &[][..]),
            Self::Named(fields) => (None, &[][..], &fields[..]),
        };
        one.into_iter()
            .chain(parts.iter().copied())
            .chain(named.iter().map(|(_, node)| *node))
    }
}

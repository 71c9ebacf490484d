//! The deserializer that answers every request with an invented value and writes down what was asked for.

use std::any::type_name;
use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

use super::super::{MAX_SHAPE_DEPTH, MAX_SHAPE_PARTS, ShapeErrorReason};
use super::graph::{ContainerId, Distances, Fields, Graph, Identity, Kind, Leaf, NodeId, Parts};
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
enum Taken {
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
enum Step {
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
    taken: Vec<Taken>,
    distinct: u8,
    /// Whether this pass met a place of which nothing was known.
    news: bool,
    /// How many containers on the path contain themselves: while there are any, everything ends where it can.
    closing: usize,
    /// How often a container was entered that was already around.
    recursions: usize,
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

    fn fail(&mut self, reason: ShapeErrorReason) -> Fault {
        self.fault.get_or_insert_with(|| reason.clone());
        if self.failed_at.is_none() {
            self.failed_at = Some(self.place());
        }
        Fault::Final(reason)
    }

    /// Goes one step further in.
    fn step<R>(
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
    fn inside<R>(
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
    fn end_here(&mut self, at: NodeId, inner: &[NodeId]) -> bool {
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
    fn choose(&mut self, at: NodeId) -> Choice {
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
    fn choose_variant(&self, id: ContainerId) -> Option<usize> {
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

/// The deserializer for one place.
pub(super) struct Walk<'t> {
    tracer: &'t mut Tracer,
    at: NodeId,
}

impl<'t> Walk<'t> {
    pub(super) fn new(tracer: &'t mut Tracer, at: NodeId) -> Self {
        Self { tracer, at }
    }

    /// What is read here: as known, or as `fresh` says if nothing is known yet.
    fn kind(&mut self, fresh: impl FnOnce(&mut Graph) -> Kind) -> Kind {
        let known = self.tracer.graph.node(self.at).kind.clone();
        if known != Kind::Unknown {
            return known;
        }
        let fresh = fresh(&mut self.tracer.graph);
        self.tracer.news = true;
        self.tracer.graph.node_mut(self.at).kind = fresh.clone();
        fresh
    }

    fn inconsistent(&mut self, then: impl Into<String>) -> Fault {
        let first = self.tracer.graph.describe(self.at);
        self.tracer.fail(ShapeErrorReason::Inconsistent {
            first,
            then: then.into(),
        })
    }

    fn leaf(&mut self, leaf: Leaf) -> Result<Choice, Fault> {
        if self.kind(|_| Kind::Leaf(leaf)) != Kind::Leaf(leaf) {
            return Err(self.inconsistent(leaf.shape().to_string()));
        }
        Ok(self.tracer.choose(self.at))
    }

    /// The struct or enum that is read here.
    fn container<V>(&mut self, name: &'static str, parts: Parts) -> Result<ContainerId, Fault> {
        let identity = Identity {
            name,
            visitor: type_name::<V>(),
            parts,
        };
        let id = self.tracer.graph.container_for(identity);
        match self.kind(|_| Kind::Container(id)) {
            Kind::Container(known) if known == id => Ok(id),
            _ => Err(self.inconsistent(format!("`{name}`"))),
        }
    }

    /// Goes into a struct.
    fn structure<'de, V: Visitor<'de>>(
        mut self,
        name: &'static str,
        parts: Parts,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let id = self.container::<V>(name, parts)?;
        self.tracer.inside(id, |tracer| {
            let fields = tracer.graph.struct_fields(id);
            visit_fields(tracer, fields, visitor)
        })
    }
}

/// Lets a visitor read all of some fields.
fn visit_fields<'de, V: Visitor<'de>>(
    tracer: &mut Tracer,
    fields: Fields,
    visitor: V,
) -> Result<V::Value, Fault> {
    let parts: Vec<(Step, NodeId)> = match fields {
        Fields::Unit => return visitor.visit_unit(),
        Fields::Newtype(node) => return visitor.visit_newtype_struct(Walk::new(tracer, node)),
        Fields::Tuple(nodes) => nodes
            .into_iter()
            .enumerate()
            .map(|(i, node)| (Step::Index(i), node))
            .collect(),
        Fields::Named(fields) => fields
            .into_iter()
            .map(|(name, node)| (Step::Field(name), node))
            .collect(),
    };
    let mut parts = PartsAccess {
        tracer,
        parts: parts.into_iter(),
    };
    let value = visitor.visit_seq(&mut parts)?;
    if parts.parts.len() > 0 {
        return Err(tracer.fail(ShapeErrorReason::Unread));
    }
    Ok(value)
}

struct PartsAccess<'t> {
    tracer: &'t mut Tracer,
    parts: std::vec::IntoIter<(Step, NodeId)>,
}

impl<'de> SeqAccess<'de> for PartsAccess<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((step, node)) = self.parts.next() else {
            return Ok(None);
        };
        self.tracer
            .step(step, |tracer| seed.deserialize(Walk::new(tracer, node)))
            .map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.parts.len())
    }
}

/// A sequence or map of one entry or none.
struct Entries<'t> {
    tracer: &'t mut Tracer,
    left: usize,
    key: NodeId,
    value: NodeId,
}

impl<'de> SeqAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let node = self.value;
        self.tracer
            .step(Step::Element, |tracer| seed.deserialize(Walk::new(tracer, node)))
            .map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let node = self.key;
        self.tracer
            .step(Step::Key, |tracer| seed.deserialize(Walk::new(tracer, node)))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let node = self.value;
        self.tracer
            .step(Step::Value, |tracer| seed.deserialize(Walk::new(tracer, node)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The chosen variant of an enum.
struct Chosen<'t> {
    tracer: &'t mut Tracer,
    id: ContainerId,
    index: usize,
}

impl<'t> Chosen<'t> {
    /// The variant's fields: as known, or fresh ones.
    fn fields(&mut self, parts: Parts) -> Result<Fields, Fault> {
        let graph = &mut self.tracer.graph;
        let known = graph.variants(self.id)[self.index].fields.clone();
        let fresh = match &known {
            Some(known) if known.fits(parts) => return Ok(known.clone()),
            Some(_) => None,
            None => Some(graph.fields(parts)),
        };
        match (fresh, graph.variant_mut(self.id, self.index)) {
            (Some(fresh), Some(variant)) => {
                variant.fields = Some(fresh.clone());
                Ok(fresh)
            }
            _ => {
                let (first, then) = ("one kind of variant".into(), "another".into());
                Err(self.tracer.fail(ShapeErrorReason::Inconsistent { first, then }))
            }
        }
    }
}

impl<'de, 't> EnumAccess<'de> for Chosen<'t> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let index: U32Deserializer<Fault> = (self.index as u32).into_deserializer();
        match seed.deserialize(index) {
            Ok(variant) => Ok((variant, self)),
            // It has no variant of that index although it names one.
            Err(_) => Err(self.tracer.fail(ShapeErrorReason::Unread)),
        }
    }
}

impl<'de> VariantAccess<'de> for Chosen<'_> {
    type Error = Fault;

    fn unit_variant(mut self) -> Result<(), Fault> {
        self.fields(Parts::Unit).map(|_| ())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Fault> {
        match self.fields(Parts::Newtype)? {
            Fields::Newtype(node) => seed.deserialize(Walk::new(self.tracer, node)),
            _ => Err(self.tracer.fail(ShapeErrorReason::Incomplete)),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let fields = self.fields(Parts::Tuple(len))?;
        visit_fields(self.tracer, fields, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let fields = self.fields(Parts::Fields(fields))?;
        visit_fields(self.tracer, fields, visitor)
    }
}

macro_rules! numbers {
    ($($method:ident => $visit:ident($leaf:ident)),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
            visitor.$visit(self.leaf(Leaf::$leaf)?.number().into())
        })*
    };
}

impl<'de> Deserializer<'de> for Walk<'_> {
    type Error = Fault;

    numbers!(
        deserialize_i16 => visit_i16(I16),
        deserialize_i32 => visit_i32(I32),
        deserialize_i64 => visit_i64(I64),
        deserialize_i128 => visit_i128(I128),
        deserialize_u8 => visit_u8(U8),
        deserialize_u16 => visit_u16(U16),
        deserialize_u32 => visit_u32(U32),
        deserialize_u64 => visit_u64(U64),
        deserialize_u128 => visit_u128(U128),
        deserialize_f32 => visit_f32(F32),
        deserialize_f64 => visit_f64(F64),
    );

    fn deserialize_i8<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_i8(self.leaf(Leaf::I8)?.number() as i8)
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bool(self.leaf(Leaf::Bool)?.bool())
    }

    fn deserialize_char<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_char(self.leaf(Leaf::Char)?.char())
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(&self.leaf(Leaf::Str)?.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bytes(&self.leaf(Leaf::Bytes)?.bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(self.tracer.fail(ShapeErrorReason::SelfDescribing))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(self.tracer.fail(ShapeErrorReason::SelfDescribing))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(self.tracer.fail(ShapeErrorReason::Names))
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        let Kind::Option(inner) = self.kind(|graph| Kind::Option(graph.add())) else {
            return Err(self.inconsistent("an option"));
        };
        if self.tracer.end_here(self.at, &[inner]) {
            visitor.visit_none()
        } else {
            visitor.visit_some(Walk::new(self.tracer, inner))
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        if self.kind(|_| Kind::Unit) != Kind::Unit {
            return Err(self.inconsistent("unit"));
        }
        visitor.visit_unit()
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        let Kind::Seq(element) = self.kind(|graph| Kind::Seq(graph.add())) else {
            return Err(self.inconsistent("a sequence"));
        };
        let left = usize::from(!self.tracer.end_here(self.at, &[element]));
        let mut entries = Entries {
            tracer: self.tracer,
            left,
            key: element,
            value: element,
        };
        let value = visitor.visit_seq(&mut entries)?;
        match entries.left {
            0 => Ok(value),
            _ => Err(entries.tracer.fail(ShapeErrorReason::Unread)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Fault> {
        let Kind::Map(key, value) = self.kind(|graph| Kind::Map(graph.add(), graph.add())) else {
            return Err(self.inconsistent("a map"));
        };
        let left = usize::from(!self.tracer.end_here(self.at, &[key, value]));
        let mut entries = Entries {
            tracer: self.tracer,
            left,
            key,
            value,
        };
        let value = visitor.visit_map(&mut entries)?;
        match entries.left {
            0 => Ok(value),
            _ => Err(entries.tracer.fail(ShapeErrorReason::Unread)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        let fresh = |graph: &mut Graph| Kind::Tuple((0..len).map(|_| graph.add()).collect());
        match self.kind(fresh) {
            Kind::Tuple(nodes) if nodes.len() == len => {
                visit_fields(self.tracer, Fields::Tuple(nodes), visitor)
            }
            _ => Err(self.inconsistent(format!("a tuple of {len}"))),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.structure(name, Parts::Unit, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.structure(name, Parts::Newtype, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.structure(name, Parts::Tuple(len), visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.structure(name, Parts::Fields(fields), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let id = self.container::<V>(name, Parts::Variants(variants))?;
        self.tracer.inside(id, |tracer| {
            let Some(index) = tracer.choose_variant(id) else {
                return Err(tracer.fail(ShapeErrorReason::TooLarge("a recursion without an end")));
            };
            let recursions = tracer.recursions;
            tracer.graph.enter_variant(id, index);
            let value = tracer.step(Step::Variant(variants[index]), |tracer| {
                visitor.visit_enum(Chosen { tracer, id, index })
            });
            tracer.graph.leave_variant(id, index);
            if value.is_ok()
                && tracer
                    .graph
                    .see_variant(id, index, tracer.recursions == recursions)
            {
                tracer.taken.push(Taken::Variant(id, index));
            }
            value
        })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

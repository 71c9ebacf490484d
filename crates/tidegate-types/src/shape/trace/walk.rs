//! The deserializer that answers every request with an invented value and writes down what was asked for.

use std::any::type_name;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::super::ShapeErrorReason;
use super::graph::{ContainerId, Fields, Graph, Identity, Kind, Leaf, NodeId, Parts};
use super::invent::Choice;
use super::tracer::{Fault, Step, Taken, Tracer};

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

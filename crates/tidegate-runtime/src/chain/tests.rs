//! In-flight records that can't be trusted are refused: when they are stored, or before they are read.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tidegate_types::codec::{Record, TypeFormat};
use tidegate_types::snapshot::{ChannelAddress, Encoding, SectionHead, SectionKind};
use tidegate_types::{Batch, Generation, InputIndex, SubtaskIndex};

use super::{
    OperatorDefaults, RestoredInput, RestoredSection, Route, decode_in_flight, encode_in_flight,
    in_flight_part,
};
use crate::gate::CapturedElement;
use crate::operators::tests::open_context;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    amount: u32,
}

/// The same with one more field.
mod later {
    use super::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Order {
        pub id: u64,
        pub amount: u32,
        #[serde(default)]
        pub note: String,
    }
}

/// The same again, with a shape that can't be traced.
mod untraceable {
    use super::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Id {
        pub id: u64,
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Order {
        #[serde(flatten)]
        pub id: Id,
        pub amount: u32,
    }
}

/// Text when it is written, a number when it is read, for large ones only.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Amount(u64);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let stored = if self.0 < 1_000 { self.0 } else { self.0 + 1 };
        s.serialize_newtype_struct("Amount", &stored)
    }
}

fn batch<T: Record>(values: Vec<T>) -> Vec<CapturedElement<T>> {
    vec![CapturedElement::Batch(Arc::new(Batch::of(values)))]
}

fn orders() -> Vec<CapturedElement<Order>> {
    batch(vec![Order { id: 1, amount: 2 }, Order { id: 3, amount: 4 }])
}

fn address() -> ChannelAddress {
    ChannelAddress {
        input: InputIndex(2),
        generation: Generation(0),
        producer: SubtaskIndex(0),
        consumer: SubtaskIndex(0),
    }
}

/// The section that a checkpoint stores of `elements`.
fn stored<T: Record>(elements: Vec<CapturedElement<T>>) -> RestoredSection {
    let part = in_flight_part(&"under-test".into(), address(), elements, TypeFormat::of());
    let section = (part.job)().expect("encodes").remove(0);
    RestoredSection {
        subtask: SubtaskIndex(0),
        head: section.head,
        bytes: section.bytes,
    }
}

fn take<T: Record>(section: RestoredSection) -> Result<RestoredInput<T>, String> {
    let mut cx = open_context(OperatorDefaults::default());
    cx.old_parallelism = Some(cx.parallelism);
    cx.restored = vec![section];
    let taken = RestoredInput::take(&mut cx, &TypeFormat::of(), &Route::Position, |_| true);
    taken.map_err(|e| format!("{e}"))
}

#[test]
fn unchanged_records_are_read() {
    let input = take::<Order>(stored(orders())).expect("the type is the same");
    assert_eq!(input.channels.len(), 1);
}

#[test]
fn a_changed_record_type_is_refused_by_uid_input_and_field() {
    let error = take::<later::Order>(stored(orders())).expect_err("it has one field more");
    for part in ["under-test", "input 2", "note", "savepoint"] {
        assert!(error.contains(part), "{part} isn't in {error:?}");
    }
}

#[test]
fn native_records_are_not_read_by_a_type_without_a_shape() {
    let error = take::<untraceable::Order>(stored(orders())).expect_err("nothing says that they fit");
    assert!(
        error.contains("under-test") && error.contains("input 2"),
        "{error}"
    );
}

#[test]
fn native_records_without_their_shape_are_refused() {
    let mut section = stored(orders());
    section.head.shapes.clear();
    let error = take::<Order>(section).expect_err("nothing says that they fit");
    assert!(error.contains("without its shape"), "{error}");
}

#[test]
fn a_section_that_calls_itself_canonical_holds_no_native_batch() {
    let section = stored(orders());
    let head = SectionHead {
        encoding: Encoding::Canonical,
        shapes: Vec::new(),
        ..section.head.clone()
    };
    assert_eq!(head.kind, SectionKind::InFlight(address()));
    let error = take::<later::Order>(RestoredSection { head, ..section }).expect_err("it is native");
    assert!(error.contains("native batch"), "{error}");
}

#[test]
fn records_that_need_names_are_stored_with_them_and_read() {
    let id = untraceable::Id { id: 1 };
    let orders = batch(vec![untraceable::Order { id, amount: 2 }]);
    let section = stored(orders.clone());
    assert_eq!(section.head.encoding, Encoding::Canonical);
    let read = decode_in_flight::<untraceable::Order>(&section.bytes, section.head.encoding).expect("reads");
    let values = |elements: &[CapturedElement<untraceable::Order>]| match elements {
        [CapturedElement::Batch(batch)] => batch.values.clone(),
        _ => Vec::new(),
    };
    assert_eq!(values(&read), values(&orders));
    // Fields may come without harm where they have names.
    assert!(take::<Order>(section).is_ok());
}

#[test]
fn a_record_that_would_come_back_as_another_is_not_stored() {
    let amounts = batch(vec![Amount(5_000)]);
    let error = encode_in_flight(&amounts, &TypeFormat::of()).expect_err("it would be 5001");
    assert!(error.to_string().contains("another one"), "{error}");
}

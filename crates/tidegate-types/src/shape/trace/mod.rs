//! Finds a type's shape by walking its `Deserialize` with invented input.
//!
//! serde types say what they want to read, so a deserializer that answers every request and writes down what was
//! asked for sees the type's structure. One pass sees one variant of an enum and one side of an option; passes
//! are repeated until everything that was met has been seen: each variant, each option, sequence and map both with
//! content and without, each number, string, … both as zero and as something else. Every pass gives a value, and
//! these samples let the caller check that `Serialize` agrees before the type is trusted with state.
//!
//! Owns: the passes, and what to try when a type refuses an invented value. `graph` holds what has been seen,
//! `tracer` where the current pass stands and what it chose, `walk` is the deserializer, `build` spells the graph
//! out as a [`Shape`]. The idea of tracing is that of the `serde-reflection` crate.

use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;

use super::{Shape, ShapeError, ShapeErrorReason};

mod build;
mod graph;
mod invent;
mod tracer;
mod walk;

use graph::NodeId;
use tracer::{Fault, Tracer};
use walk::Walk;

/// A bound on passes. Each one sees something new or rules something out, so a type that needs more has
/// thousands of variants.
const MAX_PASSES: usize = 20_000;

/// What tracing a type gives.
pub(crate) struct Traced<T> {
    pub(crate) shape: Shape,
    /// Values of the type that together show every variant, and every option, sequence, number, … in two ways.
    pub(crate) samples: Vec<T>,
}

/// Traces `T`.
pub(crate) fn trace<T: DeserializeOwned>() -> Result<Traced<T>, ShapeError> {
    let mut tracer = Tracer::new();
    let mut samples = Vec::new();
    let fail = |place: String, reason| {
        Err(ShapeError {
            type_name: type_name::<T>().into(),
            place,
            reason,
        })
    };
    for _ in 0..MAX_PASSES {
        if !tracer.graph.is_pending() {
            return match build::shape(&tracer.graph) {
                Ok(shape) => Ok(Traced { shape, samples }),
                Err(reason) => fail(String::new(), reason),
            };
        }
        match pass::<T>(&mut tracer) {
            Ok(sample) => {
                samples.push(sample);
                if !tracer.accept() {
                    return fail(String::new(), ShapeErrorReason::Incomplete);
                }
            }
            Err((place, Fault::Final(reason))) => return fail(place, reason),
            Err((place, Fault::Refused(message))) => {
                if !tracer.try_another() {
                    return fail(place, ShapeErrorReason::Rejected(message));
                }
            }
        }
    }
    fail(String::new(), ShapeErrorReason::TooLarge("too many variants"))
}

/// One value of `T` from invented input, or what went wrong and where.
fn pass<T: DeserializeOwned>(tracer: &mut Tracer) -> Result<T, (String, Fault)> {
    tracer.begin();
    // The type is the user's and the input is invented: a check that panics must not end the program.
    let result = catch_unwind(AssertUnwindSafe(|| {
        T::deserialize(Walk::new(tracer, NodeId::ROOT))
    }));
    let place = tracer.failed_at();
    match result {
        Err(panic) => Err((
            place,
            Fault::Final(ShapeErrorReason::Panicked(panic_message(&*panic))),
        )),
        // A fault that the type swallowed ("or default") is still one.
        Ok(result) => match (tracer.take_fault(), result) {
            (Some(reason), _) => Err((place, Fault::Final(reason))),
            (None, Ok(value)) => Ok(value),
            (None, Err(fault)) => Err((place, fault)),
        },
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}

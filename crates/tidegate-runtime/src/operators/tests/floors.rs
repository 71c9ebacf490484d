//! Timers that an old owner had come past, after a change of the parallelism.

use std::sync::Arc;

use tidegate_state::Formats;
use tidegate_types::hash::key_hash;
use tidegate_types::key_group::HashRange;
use tidegate_types::{Batch, OperatorUid};

use super::{Hands, open_context};
use crate::chain::{Cursor, Flow, Operator, OperatorDefaults, OutBatch, Pass};
use crate::error::BoxError;
use crate::operators::{KeyedProcessOp, ProcessContext, ProcessFunction, Timer};
use crate::signal::TaskSignal;

const KEYS: u64 = 500;
const HALF: u64 = u64::MAX / 2;

/// A timer per key; says which fired.
struct Fires;

impl ProcessFunction<u64, u64, u64> for Fires {
    fn process(&mut self, key: u64, cx: &mut ProcessContext<'_, u64, u64>) -> Result<(), BoxError> {
        cx.register_event_timer(key as i64);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut ProcessContext<'_, u64, u64>) -> Result<(), BoxError> {
        assert_eq!(timer.time, *cx.key() as i64);
        cx.collect(*cx.key());
        Ok(())
    }
}

/// There are more timers below the floor than fit into a pass, and most of them aren't due: the walk comes to its end,
/// and fires what the floor's keys are owed and nothing else.
#[test]
fn what_the_old_owner_owed_fires_however_short_passes_are() {
    let (signal, hands) = (TaskSignal::new(), Hands::default());
    let uid = OperatorUid::new("under-test".to_owned());
    let select = Arc::new(|key: &u64| *key);
    let mut op = KeyedProcessOp::<u64, u64, u64, _>::new(Fires, select, Formats::default(), uid);
    let mut cx = open_context(OperatorDefaults::default());
    let floor = HashRange { first: 0, last: HALF };
    cx.watermark_floors = vec![(floor, i64::MAX - 1)];
    op.open(&mut cx).expect("opens");
    let mut input = Cursor::new(Batch::of((0..KEYS).collect()));
    let mut out = OutBatch::with_room(KEYS as usize + 1);
    let mut pass = Pass::new(&signal, &hands, usize::MAX);
    op.process(&mut input, &mut out, &mut pass).expect("no error");
    assert_eq!(out.len(), 0);
    let mut passes = 0;
    while op
        .on_watermark(-1, &mut out, &mut Pass::new(&signal, &hands, 7))
        .expect("no error")
        != Flow::Done
    {
        passes += 1;
        assert!(passes < KEYS, "the walk comes to no end");
    }
    let owed = (0..KEYS).filter(|key| floor.contains(key_hash(key).expect("hashes")));
    assert_eq!(out.into_batch().values, owed.collect::<Vec<_>>());
}

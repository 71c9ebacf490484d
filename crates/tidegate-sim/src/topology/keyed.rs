//! Keyed operators of random jobs: one function for each kind of state.
//!
//! What all of them share stands in [`Common`]: they count what each key saw and tell the state checker at the end
//! of event time, when nothing can come any more and the count must be what a replay of the input gives.

use tidegate::prelude::*;
use tidegate::state::Aggregate;

use super::item::{Item, mix};
use super::stateless;
use super::watch::{KeyWatermarks, Watch};

/// What functions put out and use.
pub type Context<'a> = ProcessContext<'a, u64, Item>;

/// Event time comes to its end with this.
const END: i64 = i64::MAX;

/// Event time of records that stand for the whole of it.
pub const LATE: i64 = 1_000_000;

/// The side output of keyed operators.
pub fn side_tag() -> SideTag<Item> {
    SideTag::new(0, "aside")
}

/// What all keyed functions share.
pub struct Common {
    watch: Watch,
    watermarks: KeyWatermarks,
    salt: u64,
    has_side: bool,
    seen: ValueState<u64, i64>,
}

impl Common {
    /// Of an operator with this salt.
    pub fn new(watch: &Watch, salt: u64, has_side: bool) -> Self {
        Self {
            watch: watch.clone(),
            watermarks: watch.watermarks(),
            salt,
            has_side,
            seen: ValueState::new(),
        }
    }

    /// Names the state.
    pub fn state(&mut self, states: &mut States<'_, u64>) {
        states.value("seen", &mut self.seen);
    }

    /// A record came. Gives it back unless it went aside.
    ///
    /// # Errors
    /// An injected one.
    pub fn record(&mut self, item: Item, cx: &mut Context<'_>) -> Result<Option<Item>, BoxError> {
        self.watch.record()?;
        self.watermarks.look(cx);
        let seen = self.seen.get(cx.at()).copied().unwrap_or(0);
        if seen == 0 {
            cx.register_event_timer(END);
        }
        self.seen.set(cx.at(), seen + item.n);
        if self.has_side && stateless::goes_aside(self.salt, &item) {
            cx.side(&side_tag(), item);
            return Ok(None);
        }
        Ok(Some(item))
    }

    /// A timer fired. True at the end of event time.
    pub fn timer(&mut self, timer: Timer, cx: &Context<'_>) -> bool {
        self.watermarks.look(cx);
        if timer.time != END {
            return false;
        }
        self.watch
            .saw(*cx.key(), self.seen.get(cx.at()).copied().unwrap_or(0));
        true
    }

    /// The record that stands for `n` of a key.
    pub fn whole(&self, key: u64, n: i64, at: i64) -> Item {
        let tag = mix(key, self.salt);
        Item { tag, n, at }
    }
}

fn emit(cx: &mut Context<'_>, item: Item) {
    let at = item.at;
    cx.collect_with_timestamp(item, at);
}

/// Sums per stretch of event time.
pub struct Buckets {
    common: Common,
    width: i64,
    sums: MapState<u64, i64, i64>,
}

impl Buckets {
    /// Stretches of this width.
    pub fn new(common: Common, width: i64) -> Self {
        let sums = MapState::new();
        Self { common, width, sums }
    }
}

impl ProcessFunction<u64, Item, Item> for Buckets {
    fn state(&mut self, states: &mut States<'_, u64>) {
        self.common.state(states);
        states.map("sums", &mut self.sums);
    }

    fn process(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        let end = (item.at.div_euclid(self.width) + 1) * self.width - 1;
        *self.sums.get_or_insert_with(cx.at(), end, || 0) += item.n;
        cx.register_event_timer(end);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if !self.common.timer(timer, cx)
            && let Some(n) = self.sums.remove(cx.at(), &timer.time)
        {
            let whole = self.common.whole(*cx.key(), n, timer.time);
            emit(cx, whole);
        }
        Ok(())
    }
}

/// The first of each tag.
pub struct Distinct {
    common: Common,
    tags: MapState<u64, u64, ()>,
}

impl Distinct {
    /// One of them.
    pub fn new(common: Common) -> Self {
        let tags = MapState::new();
        Self { common, tags }
    }
}

impl ProcessFunction<u64, Item, Item> for Distinct {
    fn state(&mut self, states: &mut States<'_, u64>) {
        self.common.state(states);
        states.map("tags", &mut self.tags);
    }

    fn process(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        if self.tags.insert(cx.at(), item.tag, ()).is_none() {
            emit(cx, Item { n: 1, ..item });
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.common.timer(timer, cx);
        Ok(())
    }
}

/// Holds records back until a timer fires.
pub struct Hold {
    common: Common,
    delay: i64,
    wall: bool,
    held: ListState<u64, Item>,
}

impl Hold {
    /// For so long, by event time or by the wall clock.
    pub fn new(common: Common, delay: i64, wall: bool) -> Self {
        let held = ListState::new();
        Self {
            common,
            delay,
            wall,
            held,
        }
    }
}

impl ProcessFunction<u64, Item, Item> for Hold {
    fn state(&mut self, states: &mut States<'_, u64>) {
        self.common.state(states);
        states.list("held", &mut self.held);
    }

    fn process(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        if self.wall {
            let now = cx.processing_time();
            cx.register_processing_timer(now + self.delay);
        } else {
            cx.register_event_timer(item.at + self.delay);
        }
        self.held.add(cx.at(), item);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.common.timer(timer, cx);
        for item in self.held.take(cx.at()) {
            emit(cx, item);
        }
        Ok(())
    }
}

/// The sum since the last portion.
pub struct Portions {
    common: Common,
    every: u64,
    since: ValueState<u64, (i64, u64)>,
}

impl Portions {
    /// A portion every so many records.
    pub fn new(common: Common, every: u64) -> Self {
        let since = ValueState::new();
        Self { common, every, since }
    }
}

impl ProcessFunction<u64, Item, Item> for Portions {
    fn state(&mut self, states: &mut States<'_, u64>) {
        self.common.state(states);
        states.value("since", &mut self.since);
    }

    fn process(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        let (n, count) = self.since.get(cx.at()).copied().unwrap_or((0, 0));
        if count + 1 < self.every {
            self.since.set(cx.at(), (n + item.n, count + 1));
            return Ok(());
        }
        self.since.clear(cx.at());
        let whole = self.common.whole(*cx.key(), n + item.n, item.at);
        emit(cx, whole);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if self.common.timer(timer, cx)
            && let Some((n, _)) = self.since.take(cx.at())
        {
            let whole = self.common.whole(*cx.key(), n, LATE);
            emit(cx, whole);
        }
        Ok(())
    }
}

type Add = fn(&mut i64, i64);

/// Sums of amounts.
pub struct Sum;

impl Aggregate for Sum {
    type Input = i64;
    type Accumulator = (i64,);
    type Output = i64;

    fn create(&self) -> (i64,) {
        (0,)
    }

    fn add(&self, accumulator: &mut (i64,), value: i64) {
        accumulator.0 += value;
    }

    fn result(&self, accumulator: &(i64,)) -> i64 {
        accumulator.0
    }

    fn merge(&self, into: &mut (i64,), other: (i64,)) {
        into.0 += other.0;
    }
}

/// The sum, at the end of everything.
pub struct Total {
    common: Common,
    reducing: Option<ReducingState<u64, i64, Add>>,
    aggregating: Option<AggregatingState<u64, Sum>>,
}

impl Total {
    /// In reducing or in aggregating state.
    pub fn new(common: Common, aggregates: bool) -> Self {
        let add: Add = |sum, n| *sum += n;
        Self {
            common,
            reducing: (!aggregates).then(|| ReducingState::new(add)),
            aggregating: aggregates.then(|| AggregatingState::new(Sum)),
        }
    }
}

impl ProcessFunction<u64, Item, Item> for Total {
    fn state(&mut self, states: &mut States<'_, u64>) {
        self.common.state(states);
        if let Some(state) = &mut self.reducing {
            states.reducing("total", state);
        }
        if let Some(state) = &mut self.aggregating {
            states.aggregating("total", state);
        }
    }

    fn process(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        if let Some(state) = &mut self.reducing {
            state.add(cx.at(), item.n);
        }
        if let Some(state) = &mut self.aggregating {
            state.add(cx.at(), item.n);
        }
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Context<'_>) -> Result<(), BoxError> {
        if !self.common.timer(timer, cx) {
            return Ok(());
        }
        let reduced = self.reducing.as_mut().and_then(|s| s.take(cx.at()));
        let aggregated = self.aggregating.as_mut().and_then(|s| s.take(cx.at()));
        if let Some(n) = reduced.or(aggregated.map(|(n,)| n)) {
            let whole = self.common.whole(*cx.key(), n, LATE);
            emit(cx, whole);
        }
        Ok(())
    }
}

/// Every pair of records of two streams.
pub struct Join {
    common: Common,
    left: ListState<u64, Item>,
    right: ListState<u64, Item>,
}

impl Join {
    /// One of them.
    pub fn new(common: Common) -> Self {
        Self {
            common,
            left: ListState::new(),
            right: ListState::new(),
        }
    }
}

impl CoProcessFunction<u64, Item, Item, Item> for Join {
    fn state(&mut self, states: &mut States<'_, u64>) {
        self.common.state(states);
        states.list("left", &mut self.left);
        states.list("right", &mut self.right);
    }

    fn process_first(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        for other in self.right.iter(cx.at()) {
            emit(cx, stateless::pair(self.common.salt, &item, other));
        }
        self.left.add(cx.at(), item);
        Ok(())
    }

    fn process_second(&mut self, item: Item, cx: &mut Context<'_>) -> Result<(), BoxError> {
        let Some(item) = self.common.record(item, cx)? else {
            return Ok(());
        };
        for other in self.left.iter(cx.at()) {
            emit(cx, stateless::pair(self.common.salt, other, &item));
        }
        self.right.add(cx.at(), item);
        Ok(())
    }

    fn on_timer(&mut self, timer: Timer, cx: &mut Context<'_>) -> Result<(), BoxError> {
        self.common.timer(timer, cx);
        Ok(())
    }
}

/// On a broadcast edge: of everything it sees, a subtask keeps what is its own.
#[derive(Default)]
pub struct Share {
    salt: u64,
    subtask: u64,
    of: u64,
}

impl Share {
    /// Whose record is whose depends on the salt.
    pub fn new(salt: u64) -> Self {
        Self {
            salt,
            ..Self::default()
        }
    }
}

impl ProcessFunction<(), Item, Item> for Share {
    fn open(&mut self, cx: &tidegate::runtime::operators::FunctionContext) -> Result<(), BoxError> {
        self.subtask = u64::from(cx.subtask.0);
        self.of = u64::from(cx.parallelism.0);
        Ok(())
    }

    fn process(&mut self, item: Item, cx: &mut ProcessContext<'_, (), Item>) -> Result<(), BoxError> {
        if mix(item.tag, self.salt) % self.of == self.subtask {
            cx.collect(item);
        }
        Ok(())
    }
}

//! What goes wrong, and how often: drawn once per run, so that runs differ in kind and not only in moment.
//!
//! Most faults are off in any one run: a run in which everything fails all the time shows little of how faults
//! of one kind meet each other. Everything stops with [`Faults::stop`], when the liveness phase begins.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_runtime::error::BoxError;
use tidegate_storage::fault::{Failure, Fault, Op, OpKind};

use crate::seed::{Rng, Seed};

/// What an injected panic says; anything else that panics is a bug.
pub const INJECTED_PANIC: &str = "injected panic";

/// How often each kind of fault happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultMix {
    /// The process dies, per million turns.
    pub crash: u64,
    /// User code panics or fails, per million records.
    pub user_code: u64,
    /// A task doesn't come back from user code for a while, per million steps.
    pub hang: u64,
    /// Everything of one task, its steps or its messages, stands still for a while, per million turns.
    pub stall: u64,
    /// An operation of the store fails without an effect, per thousand.
    pub store_before: u64,
    /// An operation of the store takes effect and reports a failure, per thousand.
    pub store_after: u64,
    /// The process dies at a write, before or after its effect, per thousand writes.
    pub store_crash: u64,
    /// A hint about a decision is lost, per thousand.
    pub hint_lost: u64,
    /// A hint comes twice, the second time late, per thousand.
    pub hint_doubled: u64,
    /// A hint comes after what was sent later, per thousand.
    pub hint_late: u64,
    /// A trigger is lost, per thousand.
    pub trigger_lost: u64,
    /// A sink's preparation or commit fails, per thousand.
    pub sink: u64,
    /// A second process takes the job over while the first still runs, per million turns.
    pub takeover: u64,
}

type Kind = (&'static str, fn(&mut FaultMix) -> &mut u64);

/// Every kind of fault, by name.
const KINDS: [Kind; 13] = [
    ("crash", |m| &mut m.crash),
    ("user-code", |m| &mut m.user_code),
    ("hang", |m| &mut m.hang),
    ("stall", |m| &mut m.stall),
    ("store-before", |m| &mut m.store_before),
    ("store-after", |m| &mut m.store_after),
    ("store-crash", |m| &mut m.store_crash),
    ("hint-lost", |m| &mut m.hint_lost),
    ("hint-doubled", |m| &mut m.hint_doubled),
    ("hint-late", |m| &mut m.hint_late),
    ("trigger-lost", |m| &mut m.trigger_lost),
    ("sink", |m| &mut m.sink),
    ("takeover", |m| &mut m.takeover),
];

/// Kinds of faults that are left out, whatever is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Without(u16);

impl Without {
    /// Leaves out this kind too. `None` if there is no such kind.
    #[must_use]
    pub fn and(self, name: &str) -> Option<Self> {
        let at = KINDS.iter().position(|(n, _)| *n == name)?;
        Some(Self(self.0 | 1 << at))
    }

    /// Leaves out everything.
    pub fn everything() -> Self {
        Self((1 << KINDS.len()) - 1)
    }

    /// The kinds.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let kinds = KINDS.iter().enumerate();
        kinds
            .filter(move |(at, _)| self.0 & 1 << at != 0)
            .map(|(_, (name, _))| *name)
    }
}

impl FaultMix {
    /// No fault at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// The mix without some kinds.
    #[must_use]
    pub fn without(mut self, without: Without) -> Self {
        for (at, (_, of)) in KINDS.iter().enumerate() {
            if without.0 & 1 << at != 0 {
                *of(&mut self) = 0;
            }
        }
        self
    }

    /// The kinds that happen.
    pub fn kinds(mut self) -> Vec<&'static str> {
        let happens = KINDS.iter().filter(|(_, of)| *of(&mut self) > 0);
        happens.map(|(name, _)| *name).collect()
    }

    /// Draws a mix: each kind is off, rare or frequent.
    pub fn draw(rng: &mut Rng) -> Self {
        let mut some = |often: u64| match rng.below(5) {
            0..=2 => 0,
            3 => often.div_ceil(8),
            _ => often,
        };
        Self {
            crash: some(2_000),
            user_code: some(1_500),
            hang: some(300),
            stall: some(1_000),
            store_before: some(60),
            store_after: some(60),
            store_crash: some(30),
            hint_lost: some(400),
            hint_doubled: some(300),
            hint_late: some(300),
            trigger_lost: some(60),
            sink: some(100),
            takeover: some(500),
        }
    }
}

/// What becomes of a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Arrives,
    /// It doesn't.
    Lost,
    /// It arrives, and again behind what was sent later.
    Doubled,
    /// It arrives behind what was sent later.
    Late,
}

#[derive(Debug)]
struct State {
    mix: FaultMix,
    on: bool,
    user: Rng,
    store: Rng,
    hints: Rng,
    sink: Rng,
    turns: Rng,
    /// The user code of one place fails at its n-th record, whatever the mix says.
    planned: Option<(String, u64)>,
}

/// The source of all faults of a run. Clones share it.
#[derive(Debug, Clone)]
pub struct Faults(Arc<Mutex<State>>);

impl Faults {
    /// Faults of this mix, drawn from the seed.
    pub fn new(mix: FaultMix, seed: Seed) -> Self {
        Self(Arc::new(Mutex::new(State {
            mix,
            on: true,
            user: seed.child("user code").rng(),
            store: seed.child("store").rng(),
            hints: seed.child("hints").rng(),
            sink: seed.child("sinks").rng(),
            turns: seed.child("turns").rng(),
            planned: None,
        })))
    }

    /// No faults but those that are planned.
    pub fn none() -> Self {
        Self::new(FaultMix::none(), Seed(0))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing goes wrong from here on.
    pub fn stop(&self) {
        self.state().on = false;
    }

    /// Whether things may go wrong.
    pub fn is_on(&self) -> bool {
        self.state().on
    }

    /// User code panics once, `records` records from now, at this place.
    pub fn plan_panic(&self, place: &str, records: u64) {
        self.state().planned = Some((place.to_owned(), records));
    }

    /// To be called by user code with each record.
    ///
    /// # Errors
    /// When this record is one that fails.
    ///
    /// # Panics
    /// When this record is one that panics.
    pub fn user_code(&self, place: &str) -> Result<(), BoxError> {
        let (fails, panics) = {
            let mut state = self.state();
            let planned = match &mut state.planned {
                Some((at, 0)) if at == place => true,
                Some((at, left)) if at == place => {
                    *left -= 1;
                    false
                }
                _ => false,
            };
            if planned {
                state.planned = None;
                (true, true)
            } else {
                let often = state.mix.user_code;
                let fails = state.on && state.user.chance(often, 1_000_000);
                (fails, fails && state.user.chance(1, 2))
            }
        };
        if panics {
            // Without the panic hook, which would print.
            resume_unwind(Box::new(INJECTED_PANIC));
        }
        if fails {
            Err("injected error of user code".into())
        } else {
            Ok(())
        }
    }

    /// What becomes of a hint.
    pub fn hint(&self) -> Fate {
        let mut state = self.state();
        if !state.on {
            return Fate::Arrives;
        }
        let mix = state.mix;
        match state.hints.below(1000) {
            n if n < mix.hint_lost => Fate::Lost,
            n if n < mix.hint_lost + mix.hint_doubled => Fate::Doubled,
            n if n < mix.hint_lost + mix.hint_doubled + mix.hint_late => Fate::Late,
            _ => Fate::Arrives,
        }
    }

    /// Whether a trigger is lost.
    pub fn loses_trigger(&self) -> bool {
        let mut state = self.state();
        let often = state.mix.trigger_lost;
        state.on && state.hints.chance(often, 1000)
    }

    /// To be called by a sink's external system.
    ///
    /// # Errors
    /// When the call fails.
    pub fn sink(&self) -> Result<(), BoxError> {
        let mut state = self.state();
        let often = state.mix.sink;
        if state.on && state.sink.chance(often, 1000) {
            return Err("injected error of the log server".into());
        }
        Ok(())
    }

    /// What becomes of an operation of the store.
    pub fn store(&self, op: &Op) -> Fault {
        let mut state = self.state();
        if !state.on {
            return Fault::None;
        }
        let mix = state.mix;
        if op.kind.is_write() && state.store.chance(mix.store_crash, 1000) {
            return if state.store.chance(1, 2) {
                Fault::Crash
            } else {
                Fault::CrashAfter
            };
        }
        let full = op.kind.is_write() && state.store.chance(1, 2);
        let failure = if full {
            Failure::DiskFull
        } else {
            Failure::Unavailable
        };
        match state.store.below(1000) {
            n if n < mix.store_before => Fault::Before(failure),
            n if n < mix.store_before + mix.store_after && op.kind != OpKind::PutPart => {
                Fault::After(failure)
            }
            _ => Fault::None,
        }
    }

    /// Whether the process dies at this turn.
    pub fn crashes(&self) -> bool {
        let mut state = self.state();
        let often = state.mix.crash;
        state.on && state.turns.chance(often, 1_000_000)
    }

    /// Whether another process takes over at this turn.
    pub fn takes_over(&self) -> bool {
        let mut state = self.state();
        let often = state.mix.takeover;
        state.on && state.turns.chance(often, 1_000_000)
    }

    /// Whether a part of a process begins to stand still at this turn.
    pub fn stalls(&self) -> bool {
        let mut state = self.state();
        let often = state.mix.stall;
        state.on && state.turns.chance(often, 1_000_000)
    }

    /// Whether a task hangs in user code at this step.
    pub fn hangs(&self) -> bool {
        let mut state = self.state();
        let often = state.mix.hang;
        state.on && state.turns.chance(often, 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_planned_panic_comes_once_at_its_record() {
        let faults = Faults::none();
        faults.plan_panic("map", 2);
        for record in 0..5 {
            assert!(faults.user_code("other").is_ok());
            let came = catch_unwind(AssertUnwindSafe(|| faults.user_code("map")));
            assert_eq!(came.is_err(), record == 2, "{record}");
        }
    }

    #[test]
    fn nothing_fails_once_faults_are_stopped() {
        let mix = FaultMix {
            user_code: 1_000_000,
            hint_lost: 1000,
            sink: 1000,
            crash: 1_000_000,
            ..FaultMix::none()
        };
        let faults = Faults::new(mix, Seed(3));
        assert!(faults.sink().is_err() && faults.crashes() && faults.hint() == Fate::Lost);
        faults.stop();
        assert!(faults.user_code("map").is_ok() && faults.sink().is_ok() && !faults.crashes());
        assert_eq!(faults.hint(), Fate::Arrives);
    }

    #[test]
    fn kinds_are_left_out_by_name() {
        let mix = FaultMix {
            crash: 1,
            sink: 1,
            ..FaultMix::none()
        };
        let without = Without::default().and("crash").expect("there is such a kind");
        assert_eq!(mix.without(without).kinds(), ["sink"]);
        assert_eq!(without.names().collect::<Vec<_>>(), ["crash"]);
        assert_eq!(mix.without(Without::everything()), FaultMix::none());
        assert_eq!(Without::default().and("nonsense"), None);
    }

    #[test]
    fn a_mix_leaves_most_kinds_out() {
        let mut rng = Seed(9).rng();
        let off = (0..100).filter(|_| FaultMix::draw(&mut rng).crash == 0).count();
        assert!((40..80).contains(&off), "{off}");
    }
}

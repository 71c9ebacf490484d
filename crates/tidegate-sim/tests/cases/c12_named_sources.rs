//! C12, named snapshot sources: one that registers after a restore gets its state then, however many checkpoints lie
//! between; a second of the same name is refused, generated names skip those in use; the state of a finished operator
//! stays readable. What a registry does by itself is shown beside it (`crates/tidegate-
//! runtime/src/operators/named.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::prelude::*;
use tidegate_runtime::operators::{FunctionContext, RegisterError, SnapshotSources};
use tidegate_sim::log::{LogSink, Topic};
use tidegate_sim::process::Job;
use tidegate_sim::scenario::Tools;

use crate::kit::{Feed, World, configure, job_of};

/// When the function registers its source.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Registers {
    AtOpen,
    Never,
    /// With its first record.
    Late,
}

/// Counts records outside of declared state, in a named source.
struct Count {
    tools: Tools,
    registers: Registers,
    sources: Option<SnapshotSources>,
    count: Arc<AtomicU64>,
    restored: Arc<AtomicU64>,
}

impl Count {
    fn register(&self) -> Result<(), BoxError> {
        let Some(sources) = &self.sources else {
            return Ok(());
        };
        let (take, all) = (self.count.clone(), self.restored.clone());
        sources.register(
            "count",
            move || Ok(take.load(Ordering::Relaxed).to_le_bytes().to_vec()),
            move |old| {
                for (_, bytes) in old {
                    let count = u64::from_le_bytes(bytes[..].try_into()?);
                    all.fetch_add(count, Ordering::Relaxed);
                }
                Ok(())
            },
        )?;
        let again = sources.register("count", || Ok(Vec::new()), |_| Ok(()));
        if !matches!(again, Err(RegisterError::Duplicate(name)) if name == "count") {
            self.tools.violations.note("a second source took the same name");
        }
        Ok(())
    }
}

impl ProcessFunction<u64, u64, (String, u64)> for Count {
    fn open(&mut self, cx: &FunctionContext) -> Result<(), BoxError> {
        self.sources = Some(cx.snapshot_sources().clone());
        match self.registers {
            Registers::AtOpen => self.register(),
            Registers::Never | Registers::Late => Ok(()),
        }
    }

    fn process(
        &mut self,
        value: u64,
        cx: &mut ProcessContext<'_, u64, (String, u64)>,
    ) -> Result<(), BoxError> {
        if self.registers == Registers::Late && self.count.load(Ordering::Relaxed) == 0 {
            self.register()?;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        cx.collect(("n".to_owned(), value));
        Ok(())
    }
}

fn job(
    feeds: &[Feed<u64>; 2],
    world: &World,
    topic: &Topic<(String, u64)>,
    registers: Registers,
    (parallelism, restored): (u32, &Arc<AtomicU64>),
) -> Job {
    let mut env = Environment::new("named");
    configure(&mut env, &[("execution.checkpointing.mode", "unaligned")]);
    let (tools, restored) = (world.tools.clone(), restored.clone());
    let other = env
        .source("other", feeds[1].clone())
        .uid("other")
        .map("tell", |n: u64| ("n".to_owned(), n))
        .uid("tell");
    let _sink = env
        .source("source", feeds[0].clone())
        .uid("source")
        .key_by(|n: &u64| *n)
        .process("count", move || Count {
            tools: tools.clone(),
            registers,
            sources: None,
            count: Arc::default(),
            restored: restored.clone(),
        })
        .uid("count")
        .parallelism(parallelism)
        .rebalance()
        .union(&[&other.rebalance()])
        .sink("out", LogSink::new(topic.clone()))
        .uid("out");
    job_of(&env)
}

fn world(seed: u64) -> (World, [Feed<u64>; 2], Topic<(String, u64)>) {
    let world = World::new(seed);
    let topic = world.topic("out", (0..100).map(|n| ("n".to_owned(), n)).collect());
    (world, [Feed::new(1), Feed::new(1)], topic)
}

#[test]
fn a_source_that_registers_late_gets_its_state_after_any_number_of_checkpoints() {
    for (seed, then) in (0..).zip([1, 2, 3, 5]) {
        let (mut world, feeds, topic) = world(seed);
        let restored = Arc::new(AtomicU64::new(0));
        feeds[0].append(0, 0..40);
        let first = job(&feeds, &world, &topic, Registers::AtOpen, (3, &restored));
        world.run(first);
        world.until("all are counted", |w| {
            w.ids("count").iter().map(|c| w.records_out(*c)).sum::<u64>() == 40
        });
        world.checkpoint();
        world.crash();

        // Twice nobody registers, and checkpoints go on, at other parallelisms.
        for parallelism in [2, 4] {
            let nobody = job(&feeds, &world, &topic, Registers::Never, (parallelism, &restored));
            world.run(nobody);
            let stats = world.checkpoint();
            let kept = world.named(stats.id, "count", false);
            let counts: u64 = kept.iter().map(|(_, b)| u64::from(b[0])).sum();
            assert_eq!((kept.len(), counts), (3, 40), "each old value once");
            world.crash();
        }
        assert_eq!(restored.load(Ordering::Relaxed), 0);
        let late = job(&feeds, &world, &topic, Registers::Late, (then, &restored));
        world.run(late);
        feeds[0].append(0, [40]);
        world.until("one has registered", |_| restored.load(Ordering::Relaxed) > 0);
        assert_eq!(
            restored.load(Ordering::Relaxed),
            40,
            "all old subtasks' values, each once"
        );
        feeds[0].append(0, 41..60);
        feeds[1].append(0, 60..100);
        feeds.iter().for_each(Feed::end_all);
        world.finish(&topic);
    }
}

#[test]
fn the_state_of_a_finished_operator_stays_readable() {
    for seed in 0..6 {
        let (mut world, feeds, topic) = world(seed);
        let restored = Arc::new(AtomicU64::new(0));
        feeds[0].append(0, 0..60);
        feeds[0].end_all();
        feeds[1].append(0, 60..80);
        let job = job(&feeds, &world, &topic, Registers::AtOpen, (2, &restored));
        world.run(job.clone());
        let counts = world.ids("count");
        world.until("it is finished", |w| {
            use tidegate_runtime::task::TaskStatus::Finished;
            counts.iter().all(|c| w.driven(*c).metrics().status() == Finished)
        });
        for _ in 0..3 {
            let stats = world.checkpoint();
            let kept = world.named(stats.id, "count", true);
            let sum: u64 = kept.iter().map(|(_, b)| u64::from(b[0])).sum();
            assert_eq!((kept.len(), sum), (2, 60), "of both its subtasks");
            world.crash();
            world.run(job.clone());
            let running = world.process().tasks();
            assert!(running.iter().all(|t| !counts.contains(&t.id())));
        }
        assert_eq!(
            restored.load(Ordering::Relaxed),
            0,
            "never restored into a running one"
        );
        feeds[1].append(0, 80..100);
        feeds[1].end_all();
        world.finish(&topic);
    }
}

//! `tidegate demo backpressure`: what checkpoints of a job that can't keep up cost, in each mode and with each
//! buffer.
//!
//! A run per mode and buffer ([`round`]): checkpoints are shown as they complete ([`row`]), then a task is killed,
//! the job restored and its counts proven. Figures and their rendering are in [`report`]. The experiment is that
//! of the published measurements of aligned, unaligned and adaptive checkpoints under backpressure; `--preset
//! published` is its exact schedule.

mod report;
mod round;
mod row;

use std::path::PathBuf;
use std::time::Duration;

use tidegate_types::Parallelism;
use tidegate_types::options::{CheckpointingMode, GateBudget, keys};

use super::keyed::{self, Workload};
use crate::args::{BackpressureArgs, Global, Modes, Preset};
use crate::console::Console;
use crate::error::CliError;
use crate::session::Session;
use crate::settings::Decided;

use report::Summary;
use round::round;

/// Records per channel in the textbook's buffers: what Flink queues of 1 KB records by default.
const TEXTBOOK: GateBudget = GateBudget::Fixed(150);
/// Our own default.
const BUDGET: GateBudget = GateBudget::Time(Duration::from_millis(100));

/// What is to be measured.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    modes: Vec<CheckpointingMode>,
    in_flight: Vec<GateBudget>,
    interval: Duration,
    checkpoints: u32,
    aligned_timeout: Duration,
    dir: Option<PathBuf>,
    json: bool,
}

fn plan(args: &BackpressureArgs) -> (Plan, Workload) {
    let published = args.preset == Some(Preset::Published);
    let modes = || {
        use CheckpointingMode::{Adaptive, Aligned, Unaligned};
        Modes(vec![Aligned, Unaligned, Adaptive])
    };
    let in_flight = match args.in_flight {
        Some(given) => vec![given],
        None if published => vec![TEXTBOOK],
        None => vec![TEXTBOOK, BUDGET],
    };
    let (interval, checkpoints) = if published {
        (Duration::from_secs(5), 6)
    } else {
        (Duration::from_secs(2), 5)
    };
    let workload = Workload {
        parallelism: args.parallelism.unwrap_or(Parallelism(2)),
        work: args.work.unwrap_or(Duration::from_millis(5)),
        payload: args.payload.unwrap_or(1000),
        keys: args.keys.unwrap_or(100),
        per_second: None,
    };
    let plan = Plan {
        modes: args.modes.clone().unwrap_or_else(modes).0,
        in_flight,
        interval: args.interval.unwrap_or(interval),
        checkpoints: args.checkpoints.unwrap_or(checkpoints),
        aligned_timeout: args.aligned_timeout.unwrap_or(Duration::from_secs(1)),
        dir: args.dir.clone(),
        json: args.json,
    };
    (plan, workload)
}

/// The options that runs differ in, or that decide how long they take.
fn decided() -> Vec<Decided> {
    let mut all = keyed::decided().to_vec();
    all.extend([
        (keys::CHECKPOINT_INTERVAL.key(), Some("--interval")),
        (keys::CHECKPOINT_MODE.key(), Some("--modes")),
        (keys::UNALIGNED_ENABLED.key(), Some("--modes")),
        (keys::ALIGNED_TIMEOUT.key(), Some("--aligned-timeout")),
        (keys::GATE_BUDGET.key(), Some("--in-flight")),
    ]);
    all
}

/// Runs the demo.
pub(super) fn run(console: &Console, global: &Global, args: &BackpressureArgs) -> Result<(), CliError> {
    let (plan, workload) = plan(args);
    let session = Session::start(console, global, "backpressure", &decided())?;
    let done = measure(&session, &plan, &workload);
    session.end(done)
}

fn measure(session: &Session<'_>, plan: &Plan, workload: &Workload) -> Result<(), CliError> {
    let console = session.console;
    session.until_interrupted(async {
        if !plan.json {
            console.line(report::introduction(plan, workload))?;
        }
        let mut summaries: Vec<Summary> = Vec::new();
        for in_flight in &plan.in_flight {
            for mode in &plan.modes {
                let summary = round(session, plan, workload, *mode, *in_flight).await?;
                if !plan.json {
                    for line in report::in_words(&summary) {
                        console.line(line)?;
                    }
                }
                summaries.push(summary);
            }
        }
        console.clear();
        if plan.json {
            console.line(serde_json::json!({ "summary": summaries }))?;
        } else {
            for line in report::overview(&summaries) {
                console.line(line)?;
            }
        }
        report::verdict(&summaries)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_gives_what_the_command_line_doesnt() {
        let args = BackpressureArgs {
            preset: Some(Preset::Published),
            ..BackpressureArgs::default()
        };
        let (published, workload) = plan(&args);
        assert_eq!(
            (published.interval, published.checkpoints),
            (Duration::from_secs(5), 6)
        );
        assert_eq!(published.in_flight, [GateBudget::Fixed(150)]);
        assert_eq!(published.modes.len(), 3);
        assert_eq!(
            (workload.work, workload.payload, workload.keys),
            (Duration::from_millis(5), 1000, 100)
        );
        let args = BackpressureArgs {
            checkpoints: Some(3),
            in_flight: Some(BUDGET),
            ..args
        };
        let (changed, _) = plan(&args);
        assert_eq!((changed.checkpoints, changed.in_flight), (3, vec![BUDGET]));
        let (by_default, _) = plan(&BackpressureArgs::default());
        assert_eq!(by_default.in_flight, [TEXTBOOK, BUDGET]);
        assert_eq!(
            (by_default.interval, by_default.checkpoints),
            (Duration::from_secs(2), 5)
        );
    }
}

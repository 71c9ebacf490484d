//! The benchmark's workloads by hand-written threads, batches and hash maps: what the machine does without an engine,
//! without checkpoints, and without anything that isn't needed for this very job.
//!
//! `tidegate-bench-floor WORKLOAD key=value…`, see [`Arguments`](tidegate_bench_common::Arguments).

mod batch;
mod gate;
mod workloads;

use std::process::ExitCode;

use tidegate_bench_common::peer::peer;

fn main() -> ExitCode {
    peer(
        concat!("floor ", env!("CARGO_PKG_VERSION")),
        |arguments, lanes| {
            workloads::run(arguments, lanes);
            Ok(true)
        },
    )
}

//! The command line: what there is to be said, and how values are read.
//!
//! Owns: names, defaults and help of commands and flags. Does not own: options of the engine (`-D`), which are
//! declared in `tidegate_types::options`, nor what commands do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tidegate_types::Parallelism;
use tidegate_types::options::{CheckpointingMode, GateBudget, OptionValue, RestoreFrom};

/// Port of the REST interface if an address names none.
pub(crate) const REST_PORT: u16 = 8081;

/// Stateful stream processing whose heart is the distributed snapshot.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    max_term_width = 120,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(flatten)]
    defines: Defines,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that may stand before or behind any command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Configuration in YAML; also TIDEGATE_CONFIG
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What stood behind every `-D`, whatever the place; see [`Defines`].
    #[arg(skip)]
    pub(crate) define: Vec<String>,
    /// Where the REST interface listens (off without this), or where a running one is asked: host:port, host or port
    #[arg(long, global = true, value_name = "ADDR", value_parser = rest_address)]
    pub(crate) rest: Option<RestAddress>,
    /// Names the job and its checkpoint directory
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) job_id: Option<String>,
    /// Goes on from the newest checkpoint or from the one at a path
    #[arg(long, global = true, value_name = "latest|PATH", value_parser = value::<RestoreFrom>)]
    pub(crate) restore: Option<RestoreFrom>,
    /// Allows restoring a checkpoint that is older than what was committed; output begins a new lineage
    #[arg(long, global = true)]
    pub(crate) new_lineage: bool,
    /// Prints how checkpoint N went through the tasks
    #[arg(long, global = true, value_name = "N")]
    pub(crate) trace_checkpoint: Option<u64>,
}

/// `-D`, before the command and behind it. Not a global flag: of those clap keeps the values of one place only.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Defines {
    /// Sets an option of the engine; stronger than file and environment. Repeatable
    #[arg(
        short = 'D',
        value_name = "KEY=VALUE",
        help_heading = "Options of every command"
    )]
    define: Vec<String>,
}

impl Cli {
    /// Reads the process's command line.
    ///
    /// # Errors
    /// When it is wrong, or asks for help.
    pub(crate) fn read() -> Result<Self, clap::Error> {
        Self::try_parse().map(Self::with_defines)
    }

    /// Puts what stood behind `-D` in one list: before the command first, so that what stands behind it wins.
    fn with_defines(mut self) -> Self {
        let behind: &[String] = match &self.command {
            Command::Config(args) => &args.defines.define,
            Command::Demo(DemoCommand::Backpressure(args)) => &args.defines.define,
            Command::Demo(DemoCommand::Interval(args)) => &args.defines.define,
            Command::Demo(DemoCommand::Wordcount(args)) => &args.defines.define,
            Command::Checkpoint(_) | Command::Savepoint(_) | Command::Stop(_) | Command::Cancel(_) => &[],
        };
        self.global.define = [&self.defines.define, behind].concat();
        self
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists every option: value, default, meaning, and what it is in Flink
    Config(ConfigArgs),
    /// Jobs that show what the engine does
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Looks at checkpoints in a directory
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Takes a savepoint of a running job
    Savepoint(SavepointArgs),
    /// Stops a running job so that it can go on later, or with --drain for good
    Stop(StopArgs),
    /// Gives a running job up
    Cancel(CancelArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) defines: Defines,
    /// As the text of docs/configuration.md
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// As one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Checkpoints of a job that can't keep up, in each mode; then kills a task and proves the counts
    Backpressure(BackpressureArgs),
    /// One job at several checkpoint intervals: what a checkpoint costs and what a kill costs
    Interval(IntervalArgs),
    /// Counts the words of text files into files, exactly once; kill it and go on with --restore latest
    Wordcount(WordcountArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// The experiment of the published measurements: interval 5 s, checkpoints 2 to 6, fixed buffers
    Published,
}

/// What isn't given comes from the preset, or is the default.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct BackpressureArgs {
    #[command(flatten)]
    pub(crate) defines: Defines,
    /// Modes, separated by commas: aligned, unaligned, adaptive, at-least-once, quiesce; or all
    /// [default: aligned,unaligned,adaptive]
    #[arg(long, value_name = "LIST", value_parser = modes)]
    pub(crate) modes: Option<Modes>,
    /// Subtasks of generator and count [default: 2]
    #[arg(long, value_name = "N", value_parser = value::<Parallelism>)]
    pub(crate) parallelism: Option<Parallelism>,
    /// Work per record [default: 5ms]
    #[arg(long, value_name = "TIME", value_parser = value::<Duration>)]
    pub(crate) work: Option<Duration>,
    /// Payload of a record in bytes [default: 1000]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=MAX_PAYLOAD))]
    pub(crate) payload: Option<u32>,
    /// Distinct keys [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_KEYS))]
    pub(crate) keys: Option<u32>,
    /// Between checkpoints [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(crate) interval: Option<Duration>,
    /// Checkpoints per run, at least 2: the first one isn't measured [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) checkpoints: Option<u32>,
    /// After which an adaptive checkpoint overtakes [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(crate) aligned_timeout: Option<Duration>,
    /// What gates queue: a time, or fixed:N records per channel [default: fixed:150, then 100ms]
    #[arg(long, value_name = "TIME|fixed:N", value_parser = value::<GateBudget>)]
    pub(crate) in_flight: Option<GateBudget>,
    /// Settings of a known experiment
    #[arg(long)]
    pub(crate) preset: Option<Preset>,
    /// Where the checkpoints of the demo go, in a directory that is removed at the end [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// One JSON object per line instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct IntervalArgs {
    #[command(flatten)]
    pub(crate) defines: Defines,
    /// Intervals to compare
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "200ms,1s,5s", value_parser = positive)]
    pub(crate) intervals: Vec<Duration>,
    /// Runs per interval; each kills a task at another moment after a checkpoint
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Subtasks of generator and count
    #[arg(long, value_name = "N", default_value = "2", value_parser = value::<Parallelism>)]
    pub(crate) parallelism: Parallelism,
    /// Records that are due per second
    #[arg(long, value_name = "N", default_value_t = 800, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: u32,
    /// Work per record
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = value::<Duration>)]
    pub(crate) work: Duration,
    /// Payload of a record in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(..=MAX_PAYLOAD)
    )]
    pub(crate) payload: u32,
    /// Distinct keys
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MAX_KEYS))]
    pub(crate) keys: u32,
    /// How checkpoints are taken; by default as configured
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<CheckpointingMode>,
    /// Where the checkpoints of the demo go, in a directory that is removed at the end [default: the system's for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// One JSON object per line instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// The job fails, with file and byte offset
    Fail,
    /// It is passed over and counted
    Skip,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct WordcountArgs {
    #[command(flatten)]
    pub(crate) defines: Defines,
    /// Files, directories and patterns to read
    #[arg(long, value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) input: Vec<PathBuf>,
    /// Directory of the result: word, tab, count
    #[arg(long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Directory of checkpoints; without it they are in memory and nothing can be restored
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint_dir: Option<PathBuf>,
    /// Between checkpoints [default: 200ms, or as configured]
    #[arg(long, value_name = "TIME|off", value_parser = maybe_time)]
    pub(crate) interval: Option<MaybeTime>,
    /// How checkpoints are taken; by default as configured
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub(crate) mode: Option<CheckpointingMode>,
    /// Subtasks of every operator; by default as configured
    #[arg(long, value_name = "N", value_parser = value::<Parallelism>)]
    pub(crate) parallelism: Option<Parallelism>,
    /// Lines per second at most, so that there is time to kill it
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// What becomes of a file or line that can't be read
    #[arg(long, value_enum, default_value_t = OnError::Fail)]
    pub(crate) on_error: OnError,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Every checkpoint in a checkpoint directory or a job's directory
    List(PathArgs),
    /// What a checkpoint or savepoint holds; of a job's directory, the newest
    Show(PathArgs),
    /// Reads everything and compares checksums
    Verify(PathArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// A checkpoint, a savepoint, its _metadata, or a job's directory
    pub(crate) path: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SavepointArgs {
    /// The job; not needed if only one runs
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Where the savepoint goes; by default the job's execution.checkpointing.savepoint-dir
    #[arg(long, value_name = "DIR")]
    pub(crate) target: Option<String>,
    /// Lets barriers overtake: faster under backpressure, and records in flight become part of it
    #[arg(long)]
    pub(crate) unaligned: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The job; not needed if only one runs
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,
    /// Sources end and everything pending is put out: the job will not go on
    #[arg(long)]
    pub(crate) drain: bool,
    /// Ends in a savepoint below this directory; without it in a last checkpoint
    #[arg(long, value_name = "DIR")]
    pub(crate) savepoint: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The job; not needed if only one runs
    #[arg(long, value_name = "ID")]
    pub(crate) job: Option<String>,
}

/// Records of a demo are at most this large.
const MAX_PAYLOAD: i64 = 16 << 20;
/// A demo's counts are compared key by key, in memory.
const MAX_KEYS: i64 = 10_000_000;

/// A list of modes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Modes(pub(crate) Vec<CheckpointingMode>);

/// A time, or `off`. A type of its own, because to clap an `Option` is a flag that may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaybeTime(pub(crate) Option<Duration>);

/// Where the REST interface is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Default for RestAddress {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            port: REST_PORT,
        }
    }
}

/// A value in the notation that options have.
fn value<T: OptionValue>(text: &str) -> Result<T, String> {
    T::parse(text.trim()).ok_or_else(|| format!("expected {}", T::expected()))
}

fn positive(text: &str) -> Result<Duration, String> {
    value::<Duration>(text).and_then(|d| {
        if d.is_zero() {
            Err("must be above zero".to_owned())
        } else {
            Ok(d)
        }
    })
}

fn maybe_time(text: &str) -> Result<MaybeTime, String> {
    value::<Option<Duration>>(text).map(MaybeTime)
}

/// A mode by its own name; `exactly-once` is what the engine makes of it.
fn mode(text: &str) -> Result<CheckpointingMode, String> {
    match value(text)? {
        CheckpointingMode::ExactlyOnce => Ok(CheckpointingMode::Adaptive),
        mode => Ok(mode),
    }
}

fn modes(text: &str) -> Result<Modes, String> {
    use CheckpointingMode::{Adaptive, Aligned, AtLeastOnce, Quiesce, Unaligned};
    if text.trim().eq_ignore_ascii_case("all") {
        return Ok(Modes(vec![Aligned, Unaligned, Adaptive, AtLeastOnce, Quiesce]));
    }
    text.split(',').map(mode).collect::<Result<_, _>>().map(Modes)
}

/// `host:port`, `host`, `port`, each also as a URL.
fn rest_address(text: &str) -> Result<RestAddress, String> {
    let wrong = |why: &str| format!("{why}; expected host:port, host or port, such as localhost:{REST_PORT}");
    let bare = text
        .trim()
        .strip_prefix("http://")
        .unwrap_or(text.trim())
        .trim_end_matches('/');
    if bare.is_empty() || bare.contains('/') {
        return Err(wrong("not an address"));
    }
    if bare.bytes().all(|b| b.is_ascii_digit()) {
        let port = bare.parse().map_err(|_| wrong("ports go up to 65535"))?;
        return Ok(RestAddress {
            port,
            ..RestAddress::default()
        });
    }
    // Colons inside brackets, or several without brackets, belong to an IPv6 address.
    let is_bare_ipv6 = !bare.starts_with('[') && bare.matches(':').count() > 1;
    match bare.rsplit_once(':') {
        Some((host, port)) if !is_bare_ipv6 && !port.ends_with(']') => {
            let port = port
                .parse()
                .map_err(|_| wrong("the port isn't a number up to 65535"))?;
            let host = if host.is_empty() {
                "localhost".to_owned()
            } else {
                host.to_owned()
            };
            Ok(RestAddress { host, port })
        }
        _ => Ok(RestAddress {
            host: bare.to_owned(),
            port: REST_PORT,
        }),
    }
}

#[cfg(test)]
mod tests;

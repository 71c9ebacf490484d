//! The simulator's command line.

use crate::batch::Job;
use crate::faults::Without;

/// What can be said.
pub const HELP: &str = "\
tidegate-sim [OPTION...] SEED...

  --count N          N seeds, from each SEED on
  --threads N        threads that share the seeds (default: one per processor)
  --words            the word count instead of a random job
  --trace            prints the whole trace
  --no-shrink        a failing seed is left as it is

Smaller runs of the same seed:
  --no-faults        nothing goes wrong
  --without KIND,... kinds of faults that don't happen
  --unattended       nobody asks for savepoints or stops the job
  --nodes N          operators at most
  --records N        records of a source at most
  --parallelism N    subtasks of an operator at most
";

/// What was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// What is run.
    pub job: Job,
    /// Seeds as they were given.
    pub first: Vec<u64>,
    /// How many from each on.
    pub count: u64,
    /// Threads; 0: one per processor.
    pub threads: usize,
    /// Whether failing seeds are shrunk.
    pub shrinks: bool,
}

impl Arguments {
    /// Every seed.
    pub fn seeds(&self) -> Vec<u64> {
        let from = |first: &u64| {
            let first = *first;
            (0..self.count).map(move |n| first.wrapping_add(n))
        };
        self.first.iter().flat_map(from).collect()
    }
}

/// Reads the command line.
///
/// # Errors
/// What to say to whoever wrote it.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = arguments;
    let mut parsed = Arguments {
        job: Job::default(),
        first: Vec::new(),
        count: 1,
        threads: 0,
        shrinks: true,
    };
    while let Some(argument) = arguments.next() {
        let options = &mut parsed.job.options;
        let mut number = || {
            let text = arguments.next().unwrap_or_default();
            text.parse::<u64>()
                .map_err(|_| format!("{argument} needs a number, not `{text}`"))
        };
        match argument.as_str() {
            "--words" => parsed.job.words = true,
            "--trace" => options.trace = true,
            "--no-shrink" => parsed.shrinks = false,
            "--no-faults" => options.without = Without::everything(),
            "--unattended" => options.unattended = true,
            "--count" => parsed.count = number()?,
            "--threads" => parsed.threads = number()? as usize,
            "--nodes" => options.size.nodes = number()?,
            "--records" => options.size.records = number()?,
            "--parallelism" => options.size.parallelism = number()?.max(1),
            "--without" => {
                for name in arguments.next().unwrap_or_default().split(',') {
                    let without = options.without.and(name);
                    options.without = without.ok_or(format!("`{name}` is no kind of fault\n{HELP}"))?;
                }
            }
            "--help" | "-h" => return Err(HELP.to_owned()),
            seed => parsed
                .first
                .push(seed.parse().map_err(|_| format!("`{seed}` is no seed\n{HELP}"))?),
        }
    }
    if parsed.first.is_empty() {
        Err(HELP.to_owned())
    } else {
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = String> {
        text.split_whitespace().map(str::to_owned)
    }

    #[test]
    fn the_command_of_a_job_says_the_same_job() {
        let said = "--without crash,sink --unattended --nodes 2 --records 9 --parallelism 1 5";
        let parsed = parse(words(said)).unwrap();
        let command = parsed.job.command(5);
        let again = parse(words(command.strip_prefix("cargo xtask sim ").unwrap())).unwrap();
        assert_eq!(again, parsed);
        let plain = parse(words("7")).unwrap();
        assert_eq!(plain.job.command(7), "cargo xtask sim 7");
    }

    #[test]
    fn nonsense_is_refused() {
        for said in ["", "--count", "--without nonsense 1", "x", "--nodes many 1"] {
            assert!(parse(words(said)).is_err(), "{said}");
        }
    }

    #[test]
    fn count_goes_on_from_each_seed() {
        let parsed = parse(words("--count 2 1 10")).unwrap();
        assert_eq!(parsed.seeds(), [1, 2, 10, 11]);
    }
}

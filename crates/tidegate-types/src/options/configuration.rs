//! Gathers option values from code, file, environment and command line.
//!
//! Owns precedence, the checking of every single value where it is given, and the collection of problems. Does
//! not read files or the environment: it is handed their text. `settings` makes the typed settings of it.

use std::collections::BTreeMap;
use std::panic::Location;

use serde::{Deserialize, Serialize};

use super::error::{OptionError, OptionErrors, Origin, shortened};
use super::keys::ALL;
use super::names;
use super::settings::{self, Settings};
use super::spec::{Declared, DefaultValue, Opt};
use super::value::OptionValue;
use super::yaml;

/// Problems after which the rest of a file isn't looked at: it isn't a configuration then, and each unknown key is
/// compared with all known ones.
const MAX_PROBLEMS: usize = 100;

/// Option values from all sources. Later ones in this list win over earlier ones: the program's code, files (in
/// the order added), the environment, flags of a command, `-D` arguments (in the order added).
///
/// Nothing fails while it is filled; [`resolve`](Self::resolve) reports every problem at once. A bad value is a
/// problem even where another source overrides it.
///
/// ```
/// use std::time::Duration;
/// use tidegate_types::options::{Configuration, keys};
///
/// let mut configuration = Configuration::new();
/// configuration.set(&keys::CHECKPOINT_TIMEOUT, Duration::from_secs(60));
/// configuration.add_file("job.yaml", "execution.checkpointing:\n  interval: 10 s\n  dir: /data\npipeline.name: demo");
/// configuration.add_environment([("TIDEGATE_PARALLELISM_DEFAULT".to_owned(), "4".to_owned())]);
/// configuration.add_argument("execution.checkpointing.interval=500ms");
/// let settings = configuration.resolve().expect("all of these are valid");
/// assert_eq!(settings.checkpoints.interval, Some(Duration::from_millis(500)));
/// assert_eq!(settings.checkpoints.timeout, Duration::from_secs(60));
/// assert_eq!(settings.job.parallelism.0, 4);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    layers: [BTreeMap<&'static str, Given>; LAYERS],
    problems: [Vec<OptionError>; LAYERS],
}

const LAYERS: usize = 5;

/// The sources from the weakest to the strongest.
#[derive(Debug, Clone, Copy)]
enum Layer {
    Code,
    File,
    Environment,
    Flag,
    CommandLine,
}

/// A value as it was given, in its usual notation.
#[derive(Debug, Clone)]
struct Given {
    text: String,
    origin: Origin,
}

/// What holds for one option and why, for `tidegate config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// The option.
    pub key: String,
    /// Its value in the usual notation; without one, what that means.
    pub value: String,
    /// Who set it.
    pub origin: Origin,
}

impl Configuration {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option from code, the weakest source: what a program sets is what operators start from.
    #[track_caller]
    pub fn set<T: OptionValue>(&mut self, option: &'static Opt<T>, value: T) -> &mut Self {
        let at = Location::caller();
        let origin = Origin::Code {
            file: at.file().to_owned(),
            line: at.line(),
        };
        self.give(Layer::Code, option, &value.render(), origin);
        self
    }

    /// Sets an option that a flag of a command stands for, `--parallelism` for instance; errors name the flag. Stronger
    /// than file and environment, weaker than `-D`.
    pub fn set_flag<T: OptionValue>(&mut self, flag: &str, option: &'static Opt<T>, value: T) -> &mut Self {
        let origin = Origin::Flag {
            flag: flag.to_owned(),
        };
        self.give(Layer::Flag, option, &value.render(), origin);
        self
    }

    /// Sets an option from code by its key.
    #[track_caller]
    pub fn set_text(&mut self, key: &str, text: &str) -> &mut Self {
        let at = Location::caller();
        let origin = Origin::Code {
            file: at.file().to_owned(),
            line: at.line(),
        };
        self.give_by_key(Layer::Code, key, text, origin);
        self
    }

    /// Adds the text of a YAML file; `name` is what errors call it.
    pub fn add_file(&mut self, name: &str, text: &str) -> &mut Self {
        let mut seen: BTreeMap<&'static str, Origin> = BTreeMap::new();
        let entries = yaml::read(name, text, &mut self.problems[Layer::File as usize]);
        for entry in entries {
            if self.problems[Layer::File as usize].len() >= MAX_PROBLEMS {
                break;
            }
            let origin = Origin::File {
                name: name.to_owned(),
                line: entry.line,
            };
            let first =
                names::find(&entry.key).and_then(|option| seen.insert(option.spec().key, origin.clone()));
            match first {
                Some(first) => {
                    let problem = OptionError::Duplicate {
                        key: shortened(&entry.key),
                        first,
                        second: origin,
                    };
                    self.problems[Layer::File as usize].push(problem);
                }
                None => self.give_by_key(Layer::File, &entry.key, &entry.text, origin),
            }
        }
        self
    }

    /// Adds those of a process's environment variables that begin with `TIDEGATE_`; the others are ignored, and
    /// so are those that Kubernetes makes for a service of that name.
    pub fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) -> &mut Self {
        for (variable, value) in variables {
            if !variable.starts_with(names::ENV_PREFIX) || names::is_foreign_variable(&variable, &value) {
                continue;
            }
            let origin = Origin::Environment {
                variable: variable.clone(),
            };
            match names::find_variable(&variable) {
                Some(option) => self.give(Layer::Environment, option, &value, origin),
                None => {
                    let suggestion = names::suggest_variable(&variable);
                    let problem = OptionError::Unknown {
                        name: variable,
                        origin,
                        suggestion,
                    };
                    self.problems[Layer::Environment as usize].push(problem);
                }
            }
        }
        self
    }

    /// Adds what stands after a `-D`: `key=value`. Of two with one key the later holds.
    pub fn add_argument(&mut self, argument: &str) -> &mut Self {
        match argument.split_once('=') {
            Some((key, value)) => {
                self.give_by_key(Layer::CommandLine, key.trim(), value, Origin::CommandLine);
            }
            None => {
                let problem = OptionError::Argument {
                    argument: shortened(argument),
                };
                self.problems[Layer::CommandLine as usize].push(problem);
            }
        }
        self
    }

    /// The typed settings, or every problem there is.
    pub fn resolve(&self) -> Result<Settings, OptionErrors> {
        let mut problems = self.problems.concat();
        let settings = settings::resolve(self, &mut problems);
        if problems.is_empty() {
            Ok(settings)
        } else {
            Err(OptionErrors(problems))
        }
    }

    /// What holds for each option and who set it, in the order of the documentation; also of a configuration
    /// with problems, where a refused value counts as not set.
    pub fn effective(&self) -> Vec<Effective> {
        let row = |option: &&dyn Declared| {
            let spec = option.spec();
            let (value, origin) = match self.given(spec.key) {
                Some(given) => (given.text.clone(), given.origin.clone()),
                None => (spec.default.shown().to_owned(), Origin::Default),
            };
            Effective {
                key: spec.key.to_owned(),
                value,
                origin,
            }
        };
        ALL.iter().map(row).collect()
    }

    fn give_by_key(&mut self, layer: Layer, key: &str, text: &str, origin: Origin) {
        match names::find(key) {
            Some(option) => self.give(layer, option, text, origin),
            None => {
                let suggestion = names::suggest_key(key);
                let problem = OptionError::Unknown {
                    name: shortened(key),
                    origin,
                    suggestion,
                };
                self.problems[layer as usize].push(problem);
            }
        }
    }

    fn give(&mut self, layer: Layer, option: &dyn Declared, text: &str, origin: Origin) {
        let key = option.spec().key;
        match option.canonical(text) {
            Some(text) => {
                self.layers[layer as usize].insert(key, Given { text, origin });
            }
            None => {
                let problem = OptionError::BadValue {
                    key,
                    value: shortened(text),
                    origin,
                    expected: option.expected(),
                };
                self.problems[layer as usize].push(problem);
            }
        }
    }

    fn given(&self, key: &str) -> Option<&Given> {
        self.layers.iter().rev().find_map(|layer| layer.get(key))
    }

    /// Who set an option.
    pub(super) fn origin<T: OptionValue>(&self, option: &Opt<T>) -> Origin {
        self.given(option.spec.key)
            .map_or(Origin::Default, |given| given.origin.clone())
    }

    /// The option's value if someone set it.
    pub(super) fn find<T: OptionValue>(&self, option: &Opt<T>) -> Option<T> {
        self.given(option.spec.key).map(|given| {
            option
                .parse(&given.text)
                .expect("what was stored is the notation of a value that was accepted")
        })
    }

    /// The option's value: what was set, else its default.
    pub(super) fn get<T: OptionValue>(&self, option: &Opt<T>) -> T {
        let default = || match option.spec.default {
            DefaultValue::Value(text) => option.parse(text),
            DefaultValue::Unset(_) => None,
        };
        self.find(option)
            .or_else(default)
            .expect("only options with a default are read this way")
    }
}

//! Where a job begins: sources, settings, and the graph they grow into.

use std::sync::Arc;

use tidegate_runtime::graph::{SourceSpec, TypedOps, make_source};
use tidegate_runtime::source::{CollectionSource, GeneratorSource, Source, erase};
use tidegate_types::codec::Record;
use tidegate_types::options::Configuration;

use crate::build::{BuildErrors, Draft, Drafts, NodeDraft, build};
use crate::handle::JobGraph;
use crate::stream::Stream;

/// Collects the dataflow of one job. Nothing runs before the graph is [built](Self::build) and started.
///
/// ```
/// use tidegate::prelude::*;
/// let env = Environment::new("squares");
/// let squares = env.from_collection("numbers", vec![1u64, 2, 3]).map("square", |n| n * n).collect("result");
/// let graph = env.build()?;
/// println!("{}", graph.explain());
/// # let _ = squares;
/// # Ok::<(), BuildErrors>(())
/// ```
pub struct Environment {
    drafts: Drafts,
    configuration: Configuration,
    name: Arc<str>,
}

impl Environment {
    /// An environment with default settings. The name is the job's id too, unless the configuration sets one.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::with_configuration(name, Configuration::new())
    }

    /// An environment with these settings (from code, a file, the environment, the command line).
    pub fn with_configuration(name: impl Into<Arc<str>>, configuration: Configuration) -> Self {
        Self {
            drafts: Drafts::default(),
            configuration,
            name: name.into(),
        }
    }

    /// The settings, to change.
    pub fn configuration(&mut self) -> &mut Configuration {
        &mut self.configuration
    }

    /// Starts a stream at a source.
    pub fn source<S: Source>(&self, name: &str, source: S) -> Stream<S::Out> {
        let source = erase(source);
        let draft = NodeDraft {
            source: Some(SourceSpec::of(&source)),
            stateful: true,
            ..NodeDraft::new(name, make_source(source), TypedOps::<S::Out>::shared())
        };
        Stream::of(self.drafts.add(draft), self.drafts.clone())
    }

    /// Starts a stream with the records of a collection.
    pub fn from_collection<T: Record>(&self, name: &str, records: Vec<T>) -> Stream<T> {
        self.source(name, CollectionSource::new(records))
    }

    /// Starts a stream of records made from their number, without an end. For an end or a rate give a
    /// [`GeneratorSource`] to [`source`](Self::source).
    pub fn generate<T: Record>(
        &self,
        name: &str,
        make: impl Fn(u64) -> T + Send + Sync + 'static,
    ) -> Stream<T> {
        self.source(name, GeneratorSource::new(make))
    }

    /// Checks everything and makes the graph. Never connects, spawns or panics.
    ///
    /// # Errors
    /// Every problem at once.
    pub fn build(&self) -> Result<JobGraph, BuildErrors> {
        build(&self.drafts, &self.configuration, &self.name)
    }

    /// How many operators it has so far.
    pub fn operators(&self) -> usize {
        self.drafts.with(|d: &mut Draft| d.nodes.len())
    }
}

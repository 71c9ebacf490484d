//! A built job, and a running one.

use std::fmt;
use std::sync::Arc;

use tidegate_protocol::coordinator::{Request, RequestDone, RequestFailure, SavepointOrder};
use tidegate_runtime::graph::JobGraph as RuntimeGraph;
use tidegate_runtime::master::local::{Ended, Engine, RunningJob, StartError, TraceSink};
use tidegate_runtime::master::{JobError, JobOutcome, JobStatus};
use tidegate_types::options::Settings;
use tidegate_types::{CheckpointId, JobId, SavepointFormat};

/// A job that was checked and can be started, more than once if need be.
pub struct JobGraph {
    graph: Arc<RuntimeGraph>,
    settings: Settings,
}

impl fmt::Debug for JobGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobGraph")
            .field("job", &self.graph.job)
            .field("operators", &self.graph.nodes.len())
            .finish_non_exhaustive()
    }
}

/// What a job is started with beyond its settings.
#[derive(Clone, Default)]
pub struct StartOptions {
    engine: Option<Arc<Engine>>,
    trace: Option<TraceSink>,
}

impl StartOptions {
    /// Runs on this engine instead of the process's shared one.
    #[must_use]
    pub fn engine(self, engine: Arc<Engine>) -> Self {
        Self {
            engine: Some(engine),
            ..self
        }
    }

    /// Calls `sink` with every step of every checkpoint.
    #[must_use]
    pub fn trace(self, sink: TraceSink) -> Self {
        Self {
            trace: Some(sink),
            ..self
        }
    }
}

impl JobGraph {
    pub(crate) fn new(graph: RuntimeGraph, settings: Settings) -> Self {
        Self {
            graph: Arc::new(graph),
            settings,
        }
    }

    /// The plan, for people.
    pub fn explain(&self) -> String {
        self.graph.explain()
    }

    /// The settings it will run with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, to change before the start (what to restore, for instance).
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// What it is made of, for drivers of their own: the simulator.
    #[doc(hidden)]
    pub fn into_parts(self) -> (Arc<RuntimeGraph>, Settings) {
        (self.graph, self.settings)
    }

    /// Starts the job in this process.
    ///
    /// # Errors
    /// When the job runs already, or its checkpoint store can't be used. What goes wrong later is said by
    /// [`JobHandle::wait`].
    pub fn start(&self, options: StartOptions) -> Result<JobHandle, StartError> {
        let engine = match options.engine {
            Some(engine) => engine,
            None => Engine::shared()?,
        };
        let job = engine.run(self.graph.clone(), self.settings.clone(), options.trace)?;
        Ok(JobHandle { job })
    }
}

/// How a job that is stopped with a savepoint ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drain {
    /// It stops where it is, to go on from the savepoint later.
    Suspend,
    /// Its sources end and everything pending is flushed: it will not go on.
    Drain,
}

/// A job that runs in this process. Its methods may be awaited from any runtime. Dropping the handle doesn't stop
/// the job.
#[derive(Clone)]
pub struct JobHandle {
    job: Arc<RunningJob>,
}

impl JobHandle {
    /// The job.
    pub fn id(&self) -> JobId {
        self.job.graph().job.clone()
    }

    /// Resolves when the job has ended.
    ///
    /// # Errors
    /// Why it failed.
    pub async fn wait(&self) -> Result<JobOutcome, Arc<JobError>> {
        self.job.ended().await
    }

    /// Blocks until the job has ended. Not from asynchronous code: use [`wait`](Self::wait) there.
    ///
    /// # Errors
    /// Why it failed.
    pub fn wait_blocking(&self) -> Ended {
        block_on(self.job.ended())
    }

    /// How the job ended, if it has.
    pub fn try_wait(&self) -> Option<Ended> {
        self.job.try_ended()
    }

    /// Its state, vertices, counters and checkpoints, as of now.
    pub fn status(&self) -> JobStatus {
        self.job.board().read()
    }

    /// Takes a checkpoint now.
    ///
    /// # Errors
    /// Why it wasn't taken.
    pub async fn trigger_checkpoint(&self) -> Result<CheckpointId, RequestFailure> {
        let done = self.job.request(Request::Checkpoint { full: false }).await?;
        Ok(done.id.unwrap_or_default())
    }

    /// Takes a savepoint below `target` (or the configured directory) while the job runs on; says where it is.
    ///
    /// # Errors
    /// Why it wasn't taken.
    pub async fn savepoint(&self, target: Option<&str>) -> Result<String, RequestFailure> {
        self.savepoint_as(SavepointFormat::Canonical, target).await
    }

    /// As [`savepoint`](Self::savepoint), in this format. A native savepoint is smaller and quicker, and only a program
    /// whose types are unchanged can read it.
    ///
    /// # Errors
    /// Why it wasn't taken.
    pub async fn savepoint_as(
        &self,
        format: SavepointFormat,
        target: Option<&str>,
    ) -> Result<String, RequestFailure> {
        let request = Request::Savepoint(order(format, target));
        Ok(self.job.request(request).await?.path.unwrap_or_default())
    }

    /// Ends the job with a savepoint; says where that is.
    ///
    /// # Errors
    /// Why there is none; a job that could not be suspended runs on.
    pub async fn stop(&self, how: Drain, target: Option<&str>) -> Result<String, RequestFailure> {
        self.stop_as(how, SavepointFormat::Canonical, target).await
    }

    /// As [`stop`](Self::stop), with a savepoint in this format.
    ///
    /// # Errors
    /// Why there is none; a job that could not be suspended runs on.
    pub async fn stop_as(
        &self,
        how: Drain,
        format: SavepointFormat,
        target: Option<&str>,
    ) -> Result<String, RequestFailure> {
        let savepoint = Some(order(format, target));
        let what = match how {
            Drain::Suspend => Request::Suspend { savepoint },
            Drain::Drain => Request::Drain { savepoint },
        };
        Ok(self.job.request(what).await?.path.unwrap_or_default())
    }

    /// Ends the job in a last checkpoint, from which `latest` goes on: what a service does when it is told to end.
    ///
    /// # Errors
    /// Why it wasn't taken; the job runs on.
    pub async fn suspend(&self) -> Result<RequestDone, RequestFailure> {
        self.job.request(Request::Suspend { savepoint: None }).await
    }

    /// Gives the job up. Its checkpoints are deleted unless the configuration keeps them.
    pub fn cancel(&self) {
        self.job.cancel();
    }

    /// The running job, for whoever serves it to others.
    pub fn running(&self) -> &Arc<RunningJob> {
        &self.job
    }
}

fn order(format: SavepointFormat, target: Option<&str>) -> SavepointOrder {
    SavepointOrder {
        format,
        target: target.map(str::to_owned),
        unaligned: false,
    }
}

/// Runs a future that only waits for other threads.
fn block_on<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park();
    }
}

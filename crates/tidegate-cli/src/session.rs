//! What every demo runs in: the engine, the REST interface if it is wanted, and the configuration that jobs begin
//! with.
//!
//! Owns: starting jobs and waiting for facts about them. Does not own: the jobs.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tidegate::runtime::master::local::{Engine, RunningJob};
use tidegate::runtime::master::{JobOutcome, StatusBoard};
use tidegate::{Environment, JobHandle, StartOptions};
use tidegate_types::CheckpointId;
use tidegate_types::options::{Configuration, keys};
use tidegate_web::{Address, Server};
use tokio::time::timeout;

use crate::args::Global;
use crate::console::Console;
use crate::error::CliError;
use crate::settings::{self, Decided};
use crate::signals::{Came, Signals};
use crate::walk::Walk;

/// Between two looks at a job.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long the REST interface stays for clients that haven't fetched what came of their request.
const FETCH: Duration = Duration::from_secs(10);

/// How long a cancelled job is waited for.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Engine, REST interface and configuration of one command.
pub(crate) struct Session<'a> {
    pub(crate) console: &'a Console,
    pub(crate) engine: Arc<Engine>,
    configuration: Configuration,
    name: &'static str,
    traced: Option<CheckpointId>,
    server: Option<Server>,
}

impl<'a> Session<'a> {
    /// Starts an engine for jobs of this name, of which the command decides some options itself.
    ///
    /// # Errors
    /// When something is wrong with the configuration, or nothing can be listened at.
    pub(crate) fn start(
        console: &'a Console,
        global: &Global,
        name: &'static str,
        decided: &[Decided],
    ) -> Result<Self, CliError> {
        let mut configuration = settings::configuration(global)?;
        settings::refuse(&configuration, decided)?;
        configuration.set(&keys::PIPELINE_NAME, name.to_owned());
        let settings = configuration.resolve()?;
        let engine = Engine::start()
            .map_err(|error| CliError::Failed(format!("the engine can't be started: {error}")))?;
        let server = match Address::configured(&settings.rest) {
            None => None,
            Some(address) => {
                let server = Server::start(&engine, &address)?;
                console.note(format_args!("REST interface at http://{}/", server.local_addr()));
                Some(server)
            }
        };
        let traced = global.trace_checkpoint.map(CheckpointId);
        Ok(Self {
            console,
            engine,
            configuration,
            name,
            traced,
            server,
        })
    }

    /// An empty job, with what `configure` says where nobody outside of the program says otherwise.
    pub(crate) fn environment(&self, configure: impl FnOnce(&mut Configuration)) -> Environment {
        let mut configuration = self.configuration.clone();
        configure(&mut configuration);
        Environment::with_configuration(self.name, configuration)
    }

    /// Builds and starts a job.
    ///
    /// # Errors
    /// When it can't be built or started.
    pub(crate) fn launch(&self, env: &Environment) -> Result<Running<'a>, CliError> {
        let graph = env.build()?;
        let mut options = StartOptions::default().engine(self.engine.clone());
        let walk = self.traced.map(Walk::of);
        if let Some(walk) = &walk {
            options = options.trace(walk.sink());
        }
        let job = graph.start(options)?;
        Ok(Running {
            console: self.console,
            job,
            walk,
        })
    }

    /// Runs until done, or until a signal says to end.
    ///
    /// # Errors
    /// The future's; [`CliError::Interrupted`].
    pub(crate) fn until_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        self.engine.handle().block_on(async {
            let mut signals = take_over()?;
            let mut work = pin!(work);
            let Came { name, number } = match select(work.as_mut(), pin!(signals.next())).await {
                Either::Left((done, _)) => return done,
                Either::Right((came, _)) => came,
            };
            // What still runs writes into directories that go with the work; a second signal doesn't wait.
            let _either = select(pin!(self.give_up()), pin!(signals.next())).await;
            Err(CliError::Interrupted { name, number })
        })
    }

    /// Cancels every job that still runs, so that it leaves nothing in a directory that is about to go.
    pub(crate) async fn give_up(&self) {
        for job in self.engine.jobs() {
            job.cancel();
            // User code that hangs is left where it is.
            let _in_time = timeout(GIVE_UP, job.ended()).await;
        }
    }
}

impl Session<'_> {
    /// Ends with what was done. The REST interface stays until clients know what came of what they began: a client that
    /// stops the job would otherwise find nobody to tell it where the savepoint is. A signal ends this at once.
    ///
    /// # Errors
    /// What there was.
    pub(crate) fn end<T>(self, done: Result<T, CliError>) -> Result<T, CliError> {
        if let (Some(server), false) = (self.server, matches!(done, Err(CliError::Interrupted { .. }))) {
            self.engine.handle().block_on(async {
                let Ok(mut signals) = take_over() else { return };
                let fetched = timeout(FETCH, async {
                    server.outcomes_fetched().await;
                    // The last answer is still on its way.
                    server.shutdown().await;
                });
                let _either = select(pin!(fetched), pin!(signals.next())).await;
            });
        }
        done
    }
}

/// Takes SIGTERM and SIGINT over.
pub(crate) fn take_over() -> Result<Signals, CliError> {
    Signals::take_over().map_err(|error| CliError::Failed(format!("signals can't be waited for: {error}")))
}

/// A job that runs, with its trace if one is wanted.
pub(crate) struct Running<'a> {
    console: &'a Console,
    pub(crate) job: JobHandle,
    walk: Option<Walk>,
}

impl Drop for Running<'_> {
    /// Whoever asked for a checkpoint's walk and saw none is told why.
    fn drop(&mut self) {
        if let Some(walk) = &self.walk {
            // The last decision may have come after the last look.
            if walk.show(self.console, self.running()).is_ok() {
                walk.say_if_missed(self.console);
            }
        }
    }
}

impl Running<'_> {
    /// The running job itself.
    pub(crate) fn running(&self) -> &RunningJob {
        self.job.running()
    }

    /// Its status.
    pub(crate) fn board(&self) -> &StatusBoard {
        self.running().board()
    }

    /// A short while later. What happened meanwhile is shown, if it is to be traced.
    pub(crate) async fn moment(&self) -> Result<(), CliError> {
        tokio::time::sleep(LOOK_AGAIN).await;
        self.show_walk()
    }

    /// Prints the traced checkpoint's walk once it is decided.
    pub(crate) fn show_walk(&self) -> Result<(), CliError> {
        match &self.walk {
            Some(walk) => walk.show(self.console, self.running()),
            None => Ok(()),
        }
    }

    /// Looks again and again until there is something to be seen.
    ///
    /// # Errors
    /// When the job ends before.
    pub(crate) async fn until<T>(
        &self,
        mut look: impl FnMut() -> Result<Option<T>, CliError>,
    ) -> Result<T, CliError> {
        loop {
            // Asked first: what was there to be seen when it ended is seen below.
            let ended = self.job.try_wait();
            if let Some(seen) = look()? {
                return Ok(seen);
            }
            match ended {
                None => self.moment().await?,
                Some(Ok(outcome)) => {
                    return Err(CliError::Failed(format!("the job ended too early: {outcome:?}")));
                }
                Some(Err(error)) => return Err(error.into()),
            }
        }
    }

    /// How it ended.
    ///
    /// # Errors
    /// Why it failed.
    pub(crate) async fn end(&self) -> Result<JobOutcome, CliError> {
        let outcome = self.job.wait().await?;
        self.show_walk()?;
        Ok(outcome)
    }
}

//! A job that runs in this process, as others see and steer it.

use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_protocol::coordinator::{Request, RequestDone, RequestFailure, RequestId};
use tidegate_storage::layout;
use tidegate_types::CheckpointId;
use tidegate_types::options::Settings;

use crate::graph::JobGraph;

use super::super::env::MasterEvent;
use super::super::error::JobError;
use super::super::machine::JobOutcome;
use super::super::status::StatusBoard;

pub(super) type Answer = Result<RequestDone, RequestFailure>;
pub(super) type Answers = Arc<Mutex<Asked>>;

/// Who waits for an answer.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) waiting: HashMap<RequestId, tokio::sync::oneshot::Sender<Answer>>,
    /// The job has ended: nobody answers any more.
    pub(super) closed: bool,
}

/// How a job ended, for everybody who waits for it.
pub type Ended = Result<JobOutcome, Arc<JobError>>;

/// A job that was started in this process.
pub struct RunningJob {
    pub(super) board: Arc<StatusBoard>,
    pub(super) events: Mutex<Sender<MasterEvent>>,
    pub(super) answers: Answers,
    pub(super) next_request: Mutex<u64>,
    pub(super) outcome: tokio::sync::watch::Receiver<Option<Ended>>,
    pub(super) settings: Settings,
    pub(super) graph: Arc<JobGraph>,
}

impl RunningJob {
    /// Its status.
    pub fn board(&self) -> &StatusBoard {
        &self.board
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its dataflow.
    pub fn graph(&self) -> &JobGraph {
        &self.graph
    }

    /// Where a checkpoint is; `None` if checkpoints are only in memory.
    pub fn checkpoint_path(&self, id: CheckpointId) -> Option<String> {
        let dir = self.settings.checkpoints.dir.as_deref()?.trim_end_matches('/');
        let job = layout::job_dir_name(&self.graph.job).ok()?;
        Some(format!("{dir}/{job}/{}", layout::checkpoint_dir(id)))
    }

    /// Asks for something. Resolves when that is done or has failed; any runtime will do.
    pub fn request(&self, what: Request) -> impl Future<Output = Answer> + Send + 'static {
        let id = {
            let mut next = self.next_request.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            RequestId(*next)
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut asked = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.closed {
            asked.waiting.insert(id, sender);
            self.tell(MasterEvent::Request(id, what));
        }
        drop(asked);
        async move {
            let refused = || RequestFailure::Refused {
                reason: "the job has ended".to_owned(),
            };
            receiver.await.unwrap_or_else(|_| Err(refused()))
        }
    }

    /// Cancels the job.
    pub fn cancel(&self) {
        self.tell(MasterEvent::Cancel);
    }

    fn tell(&self, event: MasterEvent) {
        // A master that is gone has said how the job ended.
        let _heard = self
            .events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(event);
    }

    /// Resolves when the job has ended; any runtime will do.
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + 'static {
        let mut outcome = self.outcome.clone();
        async move {
            match outcome.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().expect("waited for"),
                Err(_) => Err(Arc::new(JobError::Bug("nobody said how it ended".into()))),
            }
        }
    }

    /// How it ended, if it has.
    pub fn try_ended(&self) -> Option<Ended> {
        self.outcome.borrow().clone()
    }
}

//! A few threads for what may block and must not hold up a task: encoding, writing, the store's requests.
//!
//! Separate from a runtime's pool of blocking threads, which the store's own file operations use: a job here waits
//! for one there, and if both shared a bounded pool they could wait for each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::master::Spawner;

type Job = Box<dyn FnOnce() + Send>;

/// The pool. Its threads end when it is dropped and everything given to it is done.
#[derive(Debug)]
pub struct Pool {
    jobs: Mutex<Sender<Job>>,
}

impl Pool {
    /// A pool of so many threads.
    ///
    /// # Errors
    /// When a thread can't be made.
    pub fn start(name: &str, threads: usize) -> std::io::Result<Arc<Self>> {
        let (jobs, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for n in 0..threads.max(1) {
            let receiver = receiver.clone();
            std::thread::Builder::new()
                .name(format!("{name}-{n}"))
                .spawn(move || work(&receiver))?;
        }
        Ok(Arc::new(Self {
            jobs: Mutex::new(jobs),
        }))
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job catches what user code panics on and answers; a panic of ours must not cost the thread.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a background job panicked");
        }
    }
}

impl Spawner for Pool {
    fn spawn(&self, job: Job) {
        let sent = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        debug_assert!(sent.is_ok(), "the threads live as long as the pool");
    }
}

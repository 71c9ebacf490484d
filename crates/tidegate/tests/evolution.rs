//! A field is added to a state's type between two runs of a job: what a savepoint of the old program holds is read by
//! the new one where fields have names, and refused by uid, state and field where they have none.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

use serde::{Deserialize, Serialize};
use tidegate::prelude::*;

/// What the first program stores per account.
mod first {
    use super::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Account {
        pub total: u64,
        pub last: Vec<u64>,
    }
}

/// What the second one does.
mod second {
    use super::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Account {
        pub total: u64,
        #[serde(default = "unknown")]
        pub currency: String,
        pub last: Vec<u64>,
    }

    fn unknown() -> String {
        "unknown".to_owned()
    }
}

trait Account: tidegate::types::codec::Record {
    fn opened() -> Self;
    fn add(&mut self, amount: u64);
    fn shown(&self) -> String;
}

impl Account for first::Account {
    fn opened() -> Self {
        Self {
            total: 0,
            last: Vec::new(),
        }
    }

    fn add(&mut self, amount: u64) {
        self.total += amount;
        self.last.push(amount);
    }

    fn shown(&self) -> String {
        format!("{} {:?}", self.total, self.last)
    }
}

impl Account for second::Account {
    fn opened() -> Self {
        Self {
            total: 0,
            currency: "EUR".to_owned(),
            last: Vec::new(),
        }
    }

    fn add(&mut self, amount: u64) {
        self.total += amount;
        self.last.push(amount);
    }

    fn shown(&self) -> String {
        format!("{} {} {:?}", self.total, self.currency, self.last)
    }
}

struct Book<A: Account> {
    accounts: ValueState<u8, A>,
}

impl<A: Account> ProcessFunction<u8, (u8, u64), (u8, String)> for Book<A> {
    fn state(&mut self, states: &mut States<'_, u8>) {
        states.value("accounts", &mut self.accounts);
    }

    fn process(
        &mut self,
        (_, amount): (u8, u64),
        cx: &mut ProcessContext<'_, u8, (u8, String)>,
    ) -> Result<(), BoxError> {
        let account = self.accounts.get_or_insert_with(cx.at(), A::opened);
        account.add(amount);
        cx.collect((*cx.key(), account.shown()));
        Ok(())
    }
}

type Latest = Arc<(Mutex<BTreeMap<u8, String>>, Condvar)>;

struct Program {
    job: JobHandle,
    bookings: ChannelSender<(u8, u64)>,
    latest: Latest,
}

impl Program {
    fn start<A: Account>(format: SavepointFormat, restored: Option<&str>) -> Self {
        // One job each, so that the tests may run side by side.
        let mut env = Environment::new(format!("accounts-{format:?}"));
        if let Some(path) = restored {
            env.configuration()
                .set_text("execution.state-recovery.path", path);
        }
        env.configuration().set_text("parallelism.default", "2");
        let (bookings, source) = ChannelSource::with_capacity(64);
        let latest = Latest::default();
        let shown = latest.clone();
        env.source("bookings", source)
            .uid("bookings")
            .parallelism(1)
            .key_by(|booking: &(u8, u64)| booking.0)
            .process("book", || Book::<A> {
                accounts: ValueState::new(),
            })
            .uid("book")
            .for_each("show", move |(owner, account)| {
                shown.0.lock().expect("nobody panics here").insert(owner, account);
                shown.1.notify_all();
            })
            .uid("show");
        let job = env
            .build()
            .expect("builds")
            .start(StartOptions::default())
            .expect("starts");
        Self {
            job,
            bookings,
            latest,
        }
    }

    /// The accounts as soon as `done` likes them.
    fn accounts(&self, done: impl Fn(&BTreeMap<u8, String>) -> bool) -> BTreeMap<u8, String> {
        let accounts = self.latest.0.lock().expect("nobody panics here");
        let wait = std::time::Duration::from_secs(120);
        let (accounts, timeout) = self
            .latest
            .1
            .wait_timeout_while(accounts, wait, |a| !done(a))
            .expect("nobody panics here");
        assert!(!timeout.timed_out(), "{accounts:?}");
        accounts.clone()
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Runs the first program on six bookings of three owners, and stops it with a savepoint.
fn savepoint(format: SavepointFormat, dir: &str) -> String {
    let program = Program::start::<first::Account>(format, None);
    for (id, booking) in [(1, 10), (2, 20), (3, 30), (1, 1), (2, 2), (3, 3)]
        .into_iter()
        .enumerate()
    {
        program
            .bookings
            .send(id as u64 + 1, booking)
            .expect("the job takes it");
    }
    program.accounts(|a| ["11 [10, 1]", "22 [20, 2]", "33 [30, 3]"].iter().eq(a.values()));
    let stopped = block_on(program.job.stop_as(Drain::Suspend, format, Some(dir)));
    let path = stopped.expect("the savepoint is taken");
    program.job.wait_blocking().expect("ends well");
    path
}

#[test]
fn a_canonical_savepoint_is_read_after_a_field_was_added() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = savepoint(SavepointFormat::Canonical, dir.path().to_str().expect("Unicode"));
    let program = Program::start::<second::Account>(SavepointFormat::Canonical, Some(&path));
    for (id, owner) in [(7, 1), (8, 2), (9, 4)] {
        program.bookings.send(id, (owner, 5)).expect("the job takes it");
    }
    let accounts = program.accounts(|a| a.len() == 3);
    let expected = [
        (1, "16 unknown [10, 1, 5]"),
        (2, "27 unknown [20, 2, 5]"),
        (4, "5 EUR [5]"),
    ];
    assert_eq!(
        accounts,
        expected
            .map(|(owner, account)| (owner, account.to_owned()))
            .into()
    );
    program.bookings.close();
    program.job.wait_blocking().expect("ends well");
}

#[test]
fn a_native_savepoint_is_read_by_the_same_type_and_refused_with_another_field() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = savepoint(SavepointFormat::Native, dir.path().to_str().expect("Unicode"));
    let program = Program::start::<first::Account>(SavepointFormat::Native, Some(&path));
    program.bookings.send(7, (3, 5)).expect("the job takes it");
    let accounts = program.accounts(|a| !a.is_empty());
    assert_eq!(accounts, [(3, "38 [30, 3, 5]".to_owned())].into());
    program.bookings.close();
    program.job.wait_blocking().expect("ends well");

    // Positions can't tell that a field is missing, whatever serde's default says.
    let program = Program::start::<second::Account>(SavepointFormat::Native, Some(&path));
    let error = program.job.wait_blocking().expect_err("the type changed");
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&*error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    for part in ["\"book\"", "\"accounts\"", "currency", "canonical"] {
        assert!(text.contains(part), "{part} isn't in {text:?}");
    }
}

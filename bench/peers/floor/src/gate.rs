//! A bounded queue of batches between threads: many senders, one receiver.
//!
//! Empty batches travel back, so that a run allocates as many as are in flight and no more.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Batches that may wait for each sender.
const WAITING: usize = 2;
/// But at least so many, so that both sides of a gate with one sender run at the same time.
const WAITING_AT_LEAST: usize = 8;

struct Gate<B> {
    state: Mutex<State<B>>,
    filled: Condvar,
    drained: Condvar,
    capacity: usize,
}

struct State<B> {
    queue: VecDeque<B>,
    empty: Vec<B>,
    senders: usize,
    /// Nobody receives any more.
    closed: bool,
    receiver_waits: bool,
    senders_wait: bool,
}

/// Puts batches in. The gate is at its end when the last sender is dropped.
pub struct Sender<B>(Arc<Gate<B>>);

/// Takes batches out.
pub struct Receiver<B>(Arc<Gate<B>>);

/// A gate with so many senders.
pub fn gate<B>(senders: usize) -> (Vec<Sender<B>>, Receiver<B>) {
    let capacity = WAITING_AT_LEAST.max(WAITING * senders);
    let gate = Arc::new(Gate {
        state: Mutex::new(State {
            queue: VecDeque::with_capacity(capacity),
            empty: Vec::new(),
            senders,
            closed: false,
            receiver_waits: false,
            senders_wait: false,
        }),
        filled: Condvar::new(),
        drained: Condvar::new(),
        capacity,
    });
    let all = (0..senders).map(|_| Sender(gate.clone())).collect();
    (all, Receiver(gate))
}

/// A gate for each of `receivers` threads, each with a sender for each of `senders` threads: the senders by thread
/// and then by receiver.
pub fn gates<B>(senders: usize, receivers: usize) -> (Vec<Vec<Sender<B>>>, Vec<Receiver<B>>) {
    let mut by_sender: Vec<Vec<Sender<B>>> = (0..senders).map(|_| Vec::new()).collect();
    let receiver = |_| {
        let (all, receiver) = gate(senders);
        for (of_sender, sender) in by_sender.iter_mut().zip(all) {
            of_sender.push(sender);
        }
        receiver
    };
    let receivers = (0..receivers).map(receiver).collect();
    (by_sender, receivers)
}

impl<B> Gate<B> {
    /// The state is right between any two statements that touch it, so a panic elsewhere doesn't spoil it.
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Default> Sender<B> {
    /// Puts a batch in, waiting for room, and gets an empty one for it.
    pub fn send(&self, batch: B) -> B {
        let gate = &*self.0;
        let mut state = gate.lock();
        while state.queue.len() >= gate.capacity && !state.closed {
            state.senders_wait = true;
            state = gate.drained.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let empty = state.empty.pop();
        if !state.closed {
            state.queue.push_back(batch);
        }
        let wake = std::mem::take(&mut state.receiver_waits);
        drop(state);
        if wake {
            gate.filled.notify_one();
        }
        empty.unwrap_or_default()
    }
}

impl<B> Receiver<B> {
    /// The next batch, waiting for one; nothing at the end.
    pub fn next(&self) -> Option<B> {
        let gate = &*self.0;
        let mut state = gate.lock();
        loop {
            if let Some(batch) = state.queue.pop_front() {
                // Senders that wait sleep on until there is room for several batches.
                let wake = state.queue.len() <= gate.capacity / 2 && std::mem::take(&mut state.senders_wait);
                drop(state);
                if wake {
                    gate.drained.notify_all();
                }
                return Some(batch);
            }
            if state.senders == 0 {
                return None;
            }
            state.receiver_waits = true;
            state = gate.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives an emptied batch back to whoever sends next.
    pub fn give_back(&self, empty: B) {
        self.0.lock().empty.push(empty);
    }
}

impl<B> Drop for Sender<B> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.filled.notify_one();
    }
}

impl<B> Drop for Receiver<B> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.drained.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_arrives_in_order_and_the_gate_ends() {
        let (senders, receiver) = gate::<Vec<u64>>(2);
        let threads: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(s, sender)| {
                std::thread::spawn(move || {
                    for n in 0..1000 {
                        let mut empty = sender.send(vec![s as u64, n]);
                        assert!(empty.is_empty());
                        empty.push(0);
                    }
                })
            })
            .collect();
        let mut seen = [0, 0];
        while let Some(mut batch) = receiver.next() {
            assert_eq!(batch[1], seen[batch[0] as usize]);
            seen[batch[0] as usize] += 1;
            batch.clear();
            receiver.give_back(batch);
        }
        assert_eq!(seen, [1000, 1000]);
        for thread in threads {
            thread.join().expect("senders don't panic");
        }
    }

    #[test]
    fn senders_go_on_when_nobody_receives() {
        let (senders, receiver) = gate::<Vec<u64>>(1);
        drop(receiver);
        for _ in 0..100 {
            senders[0].send(vec![1]);
        }
    }
}

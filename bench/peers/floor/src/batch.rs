//! What travels through gates.

use crate::gate::Sender;

/// Records that travel together.
pub trait Batch: Default {
    /// How many.
    fn len(&self) -> usize;
}

impl<T> Batch for Vec<T> {
    fn len(&self) -> usize {
        self.len()
    }
}

/// Texts one behind another, so that none is allocated by itself.
#[derive(Default)]
pub struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds one.
    #[inline]
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// All of them.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let text = &self.text[begin..*end];
            begin = *end;
            text
        })
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }
}

impl Batch for Texts {
    fn len(&self) -> usize {
        self.ends.len()
    }
}

/// One sending thread's batches, one for each receiver; what is left in them is sent when it is dropped.
pub struct Outputs<B: Batch> {
    outputs: Vec<(B, Sender<B>)>,
    full: usize,
}

impl<B: Batch> Outputs<B> {
    /// Batches are sent when they hold `full` records.
    pub fn new(senders: Vec<Sender<B>>, full: usize) -> Self {
        let outputs = senders.into_iter().map(|s| (B::default(), s)).collect();
        Self { outputs, full }
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.outputs.len()
    }

    /// The receiver of records whose hash is `hash`: equal shares of all hashes.
    #[inline(always)]
    pub fn of_hash(&self, hash: u64) -> usize {
        (((hash >> 32) * self.outputs.len() as u64) >> 32) as usize
    }

    /// Adds a record to a receiver's batch.
    #[inline(always)]
    pub fn put(&mut self, receiver: usize, put: impl FnOnce(&mut B)) {
        let (batch, sender) = &mut self.outputs[receiver];
        put(batch);
        if batch.len() >= self.full {
            *batch = sender.send(std::mem::take(batch));
        }
    }
}

impl<B: Batch> Drop for Outputs<B> {
    fn drop(&mut self) {
        for (batch, sender) in self.outputs.drain(..) {
            if batch.len() > 0 {
                sender.send(batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::gates;

    #[test]
    fn texts_stay_apart() {
        let mut texts = Texts::default();
        for text in ["one", "", "three"] {
            texts.push(text);
        }
        assert_eq!(texts.iter().collect::<Vec<_>>(), ["one", "", "three"]);
        texts.clear();
        assert_eq!(texts.iter().count(), 0);
    }

    #[test]
    fn what_is_left_is_sent() {
        let (mut senders, receivers) = gates::<Vec<u64>>(1, 2);
        let mut outputs = Outputs::new(senders.remove(0), 2);
        for n in 0..5 {
            outputs.put(1, |batch| batch.push(n));
        }
        drop(outputs);
        assert_eq!(receivers[0].next(), None);
        let batches: Vec<_> = std::iter::from_fn(|| receivers[1].next()).collect();
        assert_eq!(batches, [vec![0, 1], vec![2, 3], vec![4]]);
    }

    #[test]
    fn every_receiver_has_hashes() {
        let outputs = Outputs::new(gates::<Vec<u64>>(1, 3).0.remove(0), 1);
        assert_eq!([0, 1 << 63, u64::MAX].map(|h| outputs.of_hash(h)), [0, 1, 2]);
    }
}

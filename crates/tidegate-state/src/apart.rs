//! Collections that have outgrown their slot: each lives in blocks of its own.
//!
//! A block is preserved whole, so a key with a list of ten megabytes would make the first write to any of its
//! neighbours after a cut copy ten megabytes. Such a collection is taken out of the table; its slot keeps the
//! number under which it stands here. It is preserved in parts, each a chunk with the key and some elements,
//! and a block's chunk holds only the mark that there are parts.
//!
//! Owns: the numbers, collections that were removed while a cut still wants them, the sweep along all of them.
//! Does not own: what a part is ([`Big`]: `list` and `map`).

use tidegate_types::codec::{CodecError, Key, encode_as};
use tidegate_types::key_group::HashRange;
use tidegate_types::snapshot::Encoding;

use crate::cell::StoreContext;
use crate::cuts::{CHUNK_PART, Cuts, Owed};
use crate::error::StatePlace;
use crate::keyed::Progress;
use crate::ttl::Ttl;

/// A collection counts as large from this many bytes, encoded or in memory, whichever is known.
pub(crate) const LARGE_BYTES: usize = 64 * 1024;

/// A collection in blocks of its own.
pub(crate) trait Big: Send {
    /// Preserves the next part that is owed, if any is, beginning anew with each lap. `false` at the end of the
    /// lap.
    fn sweep_one(&mut self, lap: u32, sink: &mut PartSink<'_>) -> bool;

    /// Begins anew even within a lap: a cut may have come since it was swept.
    fn rewind(&mut self);

    /// Memory held.
    fn memory_bytes(&self) -> u64;
}

/// Writes the key of the collection at hand.
type WriteKey<'a> = dyn Fn(Encoding, &mut Vec<u8>) -> Result<(), CodecError> + 'a;

/// Where a collection's parts go.
pub(crate) struct PartSink<'a> {
    cuts: &'a mut Cuts,
    place: &'a StatePlace,
    hash: u64,
    /// Cuts that began later don't contain it.
    until: u32,
    /// When it was last touched, if it can expire.
    life: Option<(Ttl, i64)>,
    key: &'a WriteKey<'a>,
}

impl PartSink<'_> {
    /// The current epoch.
    pub(crate) fn epoch(&self) -> u32 {
        self.cuts.epoch()
    }

    /// The cuts.
    pub(crate) fn cuts(&self) -> &Cuts {
        self.cuts
    }

    /// Appends a part that was last preserved in `since` to every cut it is owed to. Parts of a key are
    /// restored in the order of `ordinal`, which is above 0.
    pub(crate) fn part(
        &mut self,
        since: u32,
        ordinal: u32,
        mut write: impl FnMut(Encoding, &mut Vec<u8>) -> Result<u32, CodecError>,
    ) {
        if !self.cuts.owes(since) {
            return;
        }
        let hashes = HashRange {
            first: self.hash,
            last: self.hash,
        };
        let (life, key) = (self.life, self.key);
        let owed = Owed {
            since,
            until: self.until,
            hashes,
            ordinal,
            flags: CHUNK_PART,
        };
        self.cuts.preserve(owed, self.place, |target, out| {
            // What had expired at the cut can't have been touched since, so the last time tells.
            if life.is_some_and(|(ttl, stamp_ms)| ttl.is_expired(stamp_ms, target.now_ms)) {
                return Ok(0);
            }
            key(target.encoding, out)?;
            out.extend_from_slice(&ordinal.to_le_bytes());
            write(target.encoding, out)
        });
    }
}

struct Owned<K, B> {
    key: K,
    hash: u64,
    stamp_ms: i64,
    /// The epoch in which it was removed; the greatest number as long as it isn't.
    until: u32,
    big: B,
}

impl<K: Key, B> Owned<K, B> {
    fn with_sink<R>(
        &mut self,
        cuts: &mut Cuts,
        place: &StatePlace,
        ttl: Option<Ttl>,
        run: impl FnOnce(&mut B, &mut PartSink<'_>) -> R,
    ) -> R {
        let Self {
            key,
            hash,
            stamp_ms,
            until,
            big,
        } = self;
        let key = |encoding: Encoding, out: &mut Vec<u8>| encode_as(encoding, key, out);
        let life = ttl.map(|ttl| (ttl, *stamp_ms));
        run(
            big,
            &mut PartSink {
                cuts,
                place,
                hash: *hash,
                until: *until,
                life,
                key: &key,
            },
        )
    }
}

/// The large collections of one state.
pub(crate) struct Apart<K, B> {
    owned: Vec<Option<Owned<K, B>>>,
    free: Vec<u32>,
    /// Removed, and still wanted by a cut.
    doomed: Vec<Owned<K, B>>,
    /// The next of `owned` in this lap.
    next: usize,
    lap: u32,
}

impl<K, B> Default for Apart<K, B> {
    fn default() -> Self {
        Self {
            owned: Vec::new(),
            free: Vec::new(),
            doomed: Vec::new(),
            next: 0,
            lap: 0,
        }
    }
}

impl<K: Key, B: Big> Apart<K, B> {
    /// Takes a collection in; its content has been preserved for all open cuts.
    pub(crate) fn add(&mut self, key: K, hash: u64, stamp_ms: i64, big: B) -> u32 {
        let owned = Some(Owned {
            key,
            hash,
            stamp_ms,
            until: u32::MAX,
            big,
        });
        match self.free.pop() {
            Some(number) => {
                self.owned[number as usize] = owned;
                number
            }
            None => {
                self.owned.push(owned);
                (self.owned.len() - 1) as u32
            }
        }
    }

    fn owned(&self, number: u32) -> &Owned<K, B> {
        self.owned[number as usize]
            .as_ref()
            .expect("a slot names a collection that is there")
    }

    fn owned_mut(&mut self, number: u32) -> &mut Owned<K, B> {
        self.owned[number as usize]
            .as_mut()
            .expect("a slot names a collection that is there")
    }

    /// A collection.
    pub(crate) fn get(&self, number: u32) -> &B {
        &self.owned(number).big
    }

    /// Works on a collection, with what it needs to preserve parts first.
    pub(crate) fn edit<R>(
        &mut self,
        number: u32,
        context: StoreContext<'_>,
        run: impl FnOnce(&mut B, &mut PartSink<'_>) -> R,
    ) -> R {
        self.owned_mut(number)
            .with_sink(context.cuts, context.place, context.ttl, run)
    }

    /// A collection to be written where nothing is owed: the caller has preserved what it will touch.
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut B {
        &mut self.owned_mut(number).big
    }

    /// Says when a collection was last touched.
    pub(crate) fn touch(&mut self, number: u32, stamp_ms: i64) {
        self.owned_mut(number).stamp_ms = stamp_ms;
    }

    /// Gives a collection up.
    pub(crate) fn doom(&mut self, number: u32, cuts: &Cuts) {
        let Some(mut owned) = self.owned[number as usize].take() else {
            return;
        };
        self.free.push(number);
        if cuts.is_open() {
            owned.until = cuts.epoch();
            owned.big.rewind();
            self.doomed.push(owned);
        }
    }

    /// Takes a collection out that no cut wants.
    pub(crate) fn take(&mut self, number: u32) -> Option<B> {
        let owned = self.owned[number as usize].take()?;
        self.free.push(number);
        Some(owned.big)
    }

    /// Preserves along all collections until `more` ends it.
    pub(crate) fn sweep(&mut self, context: StoreContext<'_>, more: &mut dyn FnMut() -> bool) -> Progress {
        let (StoreContext { cuts, place, ttl }, lap) = (context, self.lap);
        while let Some(last) = self.doomed.last_mut() {
            // Taken from the end; nobody sees the order.
            if !last.with_sink(cuts, place, ttl, |big, sink| big.sweep_one(lap, sink)) {
                self.doomed.pop();
            }
            if !more() {
                return Progress::More;
            }
        }
        while let Some(owned) = self.owned.get_mut(self.next) {
            let Some(owned) = owned else {
                self.next += 1;
                continue;
            };
            if !owned.with_sink(cuts, place, ttl, |big, sink| big.sweep_one(lap, sink)) {
                self.next += 1;
            }
            if !more() {
                return Progress::More;
            }
        }
        Progress::Done
    }

    /// A lap begins.
    pub(crate) fn restart(&mut self) {
        self.next = 0;
        self.lap = self.lap.wrapping_add(1);
    }

    /// No cut is open: nobody wants what was removed.
    pub(crate) fn idle(&mut self) {
        self.doomed.clear();
    }

    /// Memory held.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let owned = self.owned.iter().flatten().chain(&self.doomed);
        owned.map(|owned| owned.big.memory_bytes()).sum::<u64>()
            + (self.owned.capacity() * size_of::<Option<Owned<K, B>>>()) as u64
    }
}

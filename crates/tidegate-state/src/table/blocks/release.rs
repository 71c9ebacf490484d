//! Dropping a table's entries: each once, whatever their drop does.

use super::{Blocks, Slot};
use crate::table::word::occupied;

impl<E> Drop for Blocks<E> {
    fn drop(&mut self) {
        /// Goes on with the rest should a drop panic, as a vector does.
        struct Rest<'a, E>(&'a mut Blocks<E>);
        impl<E> Drop for Rest<'_, E> {
            fn drop(&mut self) {
                self.0.drop_entries();
            }
        }
        if std::mem::needs_drop::<E>() {
            let rest = Rest(self);
            rest.0.drop_entries();
        }
    }
}

impl<E> Blocks<E> {
    fn drop_entries(&mut self) {
        for block in 0..self.len {
            for group in 0..Self::GROUPS {
                let mut left = occupied(self.word(block, group));
                while left != 0 {
                    let slot = Slot {
                        block,
                        index: (group * 8) as u8 + (left.trailing_zeros() >> 3) as u8,
                    };
                    // Emptied first: nothing is dropped twice, whatever the drop does.
                    self.set_control(slot, 0);
                    // SAFETY: the slot was occupied and no longer is, so the entry is dropped exactly once.
                    unsafe { self.entry(slot).drop_in_place() };
                    left &= left - 1;
                }
            }
        }
    }
}

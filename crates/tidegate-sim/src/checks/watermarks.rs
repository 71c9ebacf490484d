//! Checker: event time never goes back.
//!
//! Of whatever is watched under a name (a task's head, a key of an operator): within one attempt its watermark
//! only rises. A restore begins anew: where it may begin is the operators' affair.

use std::collections::BTreeMap;

use tidegate_types::EventTime;

/// The watermarks of everything watched so far.
#[derive(Debug)]
pub struct WatermarkCheck<K> {
    highest: BTreeMap<K, EventTime>,
}

impl<K> Default for WatermarkCheck<K> {
    fn default() -> Self {
        Self {
            highest: BTreeMap::new(),
        }
    }
}

impl<K: Ord> WatermarkCheck<K> {
    /// Something has this watermark now: what is wrong with that?
    pub fn saw(&mut self, what: K, watermark: EventTime) -> Option<String> {
        let highest = self.highest.entry(what).or_insert(EventTime::MIN);
        if watermark < *highest {
            return Some(format!("the watermark fell from {highest} to {watermark}"));
        }
        *highest = watermark;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watermark_that_falls_is_told() {
        let mut check = WatermarkCheck::default();
        assert_eq!(check.saw("a", 5), None);
        assert_eq!(check.saw("a", 5), None);
        assert_eq!(check.saw("b", 1), None);
        assert_eq!(
            check.saw("a", 4).as_deref(),
            Some("the watermark fell from 5 to 4")
        );
        assert_eq!(check.saw("b", 4), None);
    }
}

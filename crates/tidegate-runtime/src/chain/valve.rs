//! Merges the watermarks and activities of a node's channels.
//!
//! The merged watermark is the minimum over the channels that are active. Channels that a restore brought back
//! (they hold records that were in flight) count until they are drained; a live channel starts where the old
//! channels that it continues will end, so that it neither holds back nor overtakes them.
//!
//! A channel that has ended, or is about to (its watermark is the last one), holds nothing back and drives
//! nothing: what
//! the others say counts, and if they are idle they may still have something to say.

use tidegate_types::time::{MAX_WATERMARK, MIN_WATERMARK};
use tidegate_types::{Activity, EventTime};

#[derive(Debug, Clone, Copy)]
struct Source {
    watermark: EventTime,
    activity: Activity,
    ended: bool,
}

impl Source {
    fn is_done(&self) -> bool {
        self.ended || self.watermark == MAX_WATERMARK
    }
}

/// What a change of one channel did to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Merged {
    /// The merged watermark rose to this.
    pub watermark: Option<EventTime>,
    /// The whole became idle or active.
    pub status: Option<Activity>,
}

/// The channels of one node input.
#[derive(Debug)]
pub struct Valve {
    sources: Vec<Source>,
    merged: EventTime,
    idle: bool,
}

impl Valve {
    /// `channels` live channels that have seen nothing.
    pub fn new(channels: usize) -> Self {
        let source = Source {
            watermark: MIN_WATERMARK,
            activity: Activity::Active,
            ended: false,
        };
        Self {
            sources: vec![source; channels],
            merged: MIN_WATERMARK,
            idle: false,
        }
    }

    /// The merged watermark.
    pub fn watermark(&self) -> EventTime {
        self.merged
    }

    /// Whether no channel holds the watermark back.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// One channel's watermark and activity.
    pub fn channel(&self, channel: usize) -> (EventTime, Activity) {
        let s = &self.sources[channel];
        (s.watermark, s.activity)
    }

    /// Starts a live channel at a restored watermark.
    pub fn restore_channel(&mut self, channel: usize, watermark: EventTime) {
        self.sources[channel].watermark = watermark;
    }

    /// Never merges to less than this again: the watermark that the operator had.
    pub fn restore_merged(&mut self, watermark: EventTime) {
        self.merged = self.merged.max(watermark);
    }

    /// A channel's watermark. A channel that speaks is active.
    pub fn on_watermark(
        &mut self,
        channel: usize,
        watermark: EventTime,
        restored: Option<EventTime>,
    ) -> Merged {
        let source = &mut self.sources[channel];
        source.watermark = source.watermark.max(watermark);
        source.activity = Activity::Active;
        self.merge(restored)
    }

    /// A channel's activity.
    pub fn on_status(&mut self, channel: usize, activity: Activity, restored: Option<EventTime>) -> Merged {
        self.sources[channel].activity = activity;
        self.merge(restored)
    }

    /// A channel ended: it holds nothing back.
    pub fn on_end(&mut self, channel: usize, restored: Option<EventTime>) -> Merged {
        self.sources[channel].ended = true;
        self.merge(restored)
    }

    /// Merges anew; `restored` is the least watermark of restored channels that aren't drained.
    pub fn merge(&mut self, restored: Option<EventTime>) -> Merged {
        let active = self
            .sources
            .iter()
            .filter(|s| !s.is_done() && s.activity == Activity::Active);
        let live = active.map(|s| s.watermark).min();
        let all_done = self.sources.iter().all(Source::is_done);
        let low = match (live, restored) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // When every channel is done, what the last of them said counts.
        let low = match low {
            None if all_done => self.sources.iter().map(|s| s.watermark).min(),
            low => low,
        };
        let mut merged = Merged::default();
        if let Some(low) = low
            && low > self.merged
        {
            self.merged = low;
            merged.watermark = Some(low);
        }
        let idle = low.is_none() && !self.sources.is_empty();
        if idle != self.idle {
            self.idle = idle;
            merged.status = Some(if idle { Activity::Idle } else { Activity::Active });
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_active_channel_counts() {
        let mut valve = Valve::new(2);
        assert_eq!(valve.on_watermark(0, 10, None), Merged::default());
        assert_eq!(valve.on_watermark(1, 5, None).watermark, Some(5));
        assert_eq!(valve.on_status(1, Activity::Idle, None).watermark, Some(10));
        let both_idle = valve.on_status(0, Activity::Idle, None);
        assert_eq!(
            both_idle,
            Merged {
                watermark: None,
                status: Some(Activity::Idle)
            }
        );
        let back = valve.on_watermark(1, 12, None);
        assert_eq!(
            back,
            Merged {
                watermark: Some(12),
                status: Some(Activity::Active)
            }
        );
        assert_eq!(
            valve.on_watermark(0, 11, None),
            Merged::default(),
            "never goes back"
        );
    }

    #[test]
    fn a_restored_channel_holds_back_until_drained() {
        let mut valve = Valve::new(1);
        valve.restore_channel(0, 50);
        valve.restore_merged(20);
        assert_eq!(valve.merge(Some(30)).watermark, Some(30));
        assert_eq!(valve.on_watermark(0, 60, Some(30)), Merged::default());
        assert_eq!(valve.merge(None).watermark, Some(60));
    }

    #[test]
    fn ended_channels_hold_nothing_back() {
        let mut valve = Valve::new(2);
        valve.on_watermark(0, i64::MAX, None);
        assert_eq!(valve.on_end(0, None), Merged::default());
        assert_eq!(valve.on_watermark(1, 7, None).watermark, Some(7));
        assert_eq!(valve.on_watermark(1, i64::MAX, None).watermark, Some(i64::MAX));
        assert_eq!(valve.on_end(1, None), Merged::default());
    }
    #[test]
    fn an_ended_channel_does_not_end_the_idle_ones() {
        let mut valve = Valve::new(2);
        valve.on_watermark(1, 7, None);
        valve.on_status(1, Activity::Idle, None);
        valve.on_watermark(0, 3, None);
        let last = valve.on_watermark(0, MAX_WATERMARK, None);
        assert_eq!(last.watermark, None, "the idle channel may come back");
        valve.on_end(0, None);
        assert!(valve.is_idle());
        assert_eq!(valve.on_watermark(1, 9, None).watermark, Some(9));
        assert_eq!(
            valve.on_watermark(1, MAX_WATERMARK, None).watermark,
            Some(MAX_WATERMARK)
        );
    }
}

//! Tidegate's keyed state: the block table, typed states, timers and their snapshot sections

//! Tidegate: a stateful stream-processing engine whose heart is the distributed snapshot

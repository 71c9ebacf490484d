//! The failing store itself: it does what its plan says, no more, the same each time.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tidegate_storage::fault::{Failure, Fault, FaultStore, Op, OpKind, Script, crash_at_write};

use crate::common::*;

fn put(store: &impl ObjectStore, path: &str) -> bool {
    block_on(store.put(&Path::from(path), PutPayload::from_static(b"abc"))).is_ok()
}

fn there(store: &Arc<dyn ObjectStore>, path: &str) -> bool {
    block_on(store.head(&Path::from(path))).is_ok()
}

#[test]
fn before_has_no_effect_and_after_has() {
    let inner = memory();
    let script = Script::new()
        .on(OpKind::Put, "a", 1, Fault::Before(Failure::Unavailable))
        .on(OpKind::Put, "b", 0, Fault::After(Failure::Unavailable));
    let store = FaultStore::new(inner.clone(), script.plan());
    assert!(put(&store, "a1"), "the first is skipped");
    assert!(!put(&store, "a2") && !there(&inner, "a2"));
    assert!(put(&store, "a2"), "once");
    assert!(!put(&store, "b") && there(&inner, "b"));
}

#[test]
fn a_delay_is_counted_in_polls() {
    let store = FaultStore::new(memory(), |_| Fault::delay(3));
    let path = Path::from("a");
    let mut future = std::pin::pin!(store.put(&path, PutPayload::new()));
    let mut context = Context::from_waker(Waker::noop());
    let polls = std::iter::from_fn(|| match future.as_mut().poll(&mut context) {
        Poll::Pending => Some(()),
        Poll::Ready(result) => {
            result.unwrap();
            None
        }
    });
    assert_eq!(polls.count(), 3);
}

#[test]
fn after_a_crash_nothing_works() {
    for (after_effect, expected) in [(false, 1), (true, 2)] {
        let inner = memory();
        let store = FaultStore::new(inner.clone(), crash_at_write(1, after_effect));
        assert!(put(&store, "a"));
        assert!(!put(&store, "b") && store.is_crashed());
        assert!(!put(&store, "c"));
        assert!(block_on(store.get(&Path::from("a"))).is_err());
        assert!(block_on(store.list(None).try_collect::<Vec<_>>()).is_err());
        assert!(block_on(store.delete(&Path::from("a"))).is_err());
        let left = block_on(inner.list(None).try_collect::<Vec<_>>()).unwrap();
        assert_eq!(left.len(), expected);
    }
}

#[test]
fn every_kind_of_operation_passes_the_plan() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::<Op>::new()));
    let log = seen.clone();
    let store = FaultStore::new(memory(), move |op| {
        log.lock().unwrap().push(op.clone());
        Fault::None
    });
    let (a, b) = (Path::from("a"), Path::from("b"));
    block_on(async {
        store.put(&a, PutPayload::from_static(b"abc")).await.unwrap();
        let mut upload: Box<dyn MultipartUpload> = store.put_multipart(&b).await.unwrap();
        upload.put_part(PutPayload::from_static(b"x")).await.unwrap();
        upload.complete().await.unwrap();
        store.get_range(&a, 0..2).await.unwrap();
        store.list_with_delimiter(None).await.unwrap();
        store.list(None).try_collect::<Vec<_>>().await.unwrap();
        store.copy(&a, &Path::from("c")).await.unwrap();
        store.rename(&b, &Path::from("d")).await.unwrap();
        store.delete(&a).await.unwrap();
    });
    use OpKind::*;
    let kinds: Vec<_> = seen.lock().unwrap().iter().map(|op| op.kind).collect();
    assert_eq!(
        kinds,
        [
            Put,
            BeginUpload,
            PutPart,
            CompleteUpload,
            Get,
            List,
            List,
            Copy,
            Copy,
            Delete
        ]
    );
    assert_eq!((store.ops(), store.writes()), (10, 5));
    let bytes: u64 = seen.lock().unwrap().iter().map(|op| op.bytes).sum();
    assert_eq!(bytes, 4);
}

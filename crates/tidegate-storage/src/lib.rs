//! Tidegate's checkpoint storage over object_store: layout, decision objects, claims, retention

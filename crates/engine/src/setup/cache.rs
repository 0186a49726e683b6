//! A cache that is emptied when it is full.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Entries of one cache; one more empties it.
const MAX_CACHED: usize = 1_000;

/// A cache that is emptied when it is full.
pub(crate) struct Cache<K, V>(Mutex<HashMap<K, V>>);

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    pub(crate) fn get(&self, key: &K, is_current: impl Fn(&V) -> bool) -> Option<V> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.get(key).filter(|value| is_current(value)).cloned()
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if values.len() >= MAX_CACHED {
            values.clear();
        }
        values.insert(key, value);
    }
}

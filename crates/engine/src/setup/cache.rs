//! A cache that is emptied when it is full.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Entries of a cache in which each weighs 1.
pub(crate) const MAX_CACHED: usize = 1_000;

/// A cache that is emptied when one more entry would be too much.
pub(crate) struct Cache<K, V> {
    /// With the weight of all.
    entries: Mutex<(HashMap<K, V>, usize)>,
    max: usize,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache whose entries weigh at most `max` together.
    pub(crate) fn of(max: usize) -> Self {
        Self { entries: Mutex::new((HashMap::new(), 0)), max }
    }

    pub(crate) fn get(&self, key: &K, is_current: impl Fn(&V) -> bool) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.0.get(key).filter(|value| is_current(value)).cloned()
    }

    /// Adds an entry of this weight, which is always the same for a key.
    pub(crate) fn put(&self, key: K, value: V, weight: usize) {
        let mut locked = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (entries, sum) = &mut *locked;
        if !entries.contains_key(&key) {
            if *sum + weight > self.max {
                entries.clear();
                *sum = 0;
            }
            *sum += weight;
        }
        entries.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_never_weigh_more_than_allowed() {
        let cache = Cache::of(10);
        for (key, kept) in
            [("four", vec!["four"]), ("other", vec!["four", "other"]), ("four", vec!["four", "other"])]
        {
            cache.put(key, (), key.len());
            assert!(kept.iter().all(|key| cache.get(key, |()| true).is_some()), "{key}");
        }
        cache.put("ab", (), 2);
        let kept: Vec<&str> =
            ["four", "other", "ab"].into_iter().filter(|key| cache.get(key, |()| true).is_some()).collect();
        assert_eq!(kept, ["ab"]);
    }
}

//! Lists: `?limit=&cursor=` in, `{data, has_more, next_cursor}` out. A cursor is a position; clients must not
//! care which.

use std::fmt::LowerHex;

use serde::Deserialize;
use uuid::Uuid;

use crate::error::ApiError;

const USUAL: u8 = 20;
const MOST: u8 = 100;

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    pub(crate) limit: Option<String>,
    pub(crate) cursor: Option<String>,
}

/// Which list a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Messages,
    History,
    Agentables,
    Notes,
    Learnings,
    Memories,
    CustomInstructions,
    FeedItems,
    Agents,
    Teams,
    Sessions,
    Compressions,
    Tasks,
    CheckIns,
    Users,
    Runs,
    Erasures,
}

impl List {
    fn mark(self) -> char {
        match self {
            Self::Messages => 'm',
            Self::History => 'h',
            Self::Agentables => 'a',
            Self::Notes => 'n',
            Self::Learnings => 'l',
            Self::Memories => 'y',
            Self::CustomInstructions => 'c',
            Self::FeedItems => 'f',
            Self::Agents => 'g',
            Self::Teams => 't',
            Self::Sessions => 's',
            Self::Compressions => 'k',
            Self::Tasks => 'q',
            Self::CheckIns => 'w',
            Self::Users => 'u',
            Self::Runs => 'r',
            Self::Erasures => 'e',
        }
    }
}

impl PageQuery {
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        self.limit_or(USUAL)
    }

    /// The limit; without one, `usual`.
    pub(crate) fn limit_or(&self, usual: u8) -> Result<usize, ApiError> {
        let Some(limit) = &self.limit else { return Ok(usual.min(MOST).into()) };
        limit
            .parse::<u8>()
            .ok()
            .filter(|limit| (1..=MOST).contains(limit))
            .map(usize::from)
            .ok_or_else(|| ApiError::parameter("limit", format!("must be a number from 1 to {MOST}")))
    }

    /// The position the cursor stands for.
    pub(crate) fn position(&self, list: List) -> Result<Option<i64>, ApiError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        cursor
            .strip_prefix(list.mark())
            .and_then(|position| i64::from_str_radix(position, 16).ok())
            .filter(|position| *position >= 0)
            .map(Some)
            .ok_or(ApiError::InvalidCursor)
    }

    /// The id the cursor stands for, in a list that goes by ids.
    pub(crate) fn id(&self, list: List) -> Result<Option<Uuid>, ApiError> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        cursor
            .strip_prefix(list.mark())
            .filter(|id| !id.starts_with('+'))
            .and_then(|id| u128::from_str_radix(id, 16).ok())
            .map(|id| Some(Uuid::from_u128(id)))
            .ok_or(ApiError::InvalidCursor)
    }
}

/// How many rows to ask for: one more than the page has, to see whether there are more.
pub(crate) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1
}

/// What follows a page whose rows are shown all at once.
#[derive(Debug)]
pub(crate) struct Next(Option<String>);

impl Next {
    /// Leaves at most `limit` of up to `limit + 1` rows; `position` is what the next page begins at.
    pub(crate) fn of<R, P: LowerHex>(
        list: List,
        limit: usize,
        rows: &mut Vec<R>,
        position: impl Fn(&R) -> P,
    ) -> Self {
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Self(rows.last().filter(|_| has_more).map(|last| format!("{}{:x}", list.mark(), position(last))))
    }

    /// The page of these.
    pub(crate) fn page<T>(self, data: Vec<T>) -> houston_protocol::page::Page<T> {
        houston_protocol::page::Page { data, has_more: self.0.is_some(), next_cursor: self.0 }
    }
}

/// Makes pages.
pub(crate) enum Page {}

impl Page {
    /// Makes a page of at most `limit` from up to `limit + 1` rows; `position` is what the next page begins at.
    pub(crate) fn of<T, R, P: LowerHex>(
        list: List,
        limit: usize,
        mut rows: Vec<R>,
        position: impl Fn(&R) -> P,
        show: impl Fn(R) -> T,
    ) -> houston_protocol::page::Page<T> {
        let next = Next::of(list, limit, &mut rows, position);
        next.page(rows.into_iter().map(show).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(limit: Option<&str>, cursor: Option<&str>) -> PageQuery {
        PageQuery { limit: limit.map(str::to_owned), cursor: cursor.map(str::to_owned) }
    }

    #[test]
    fn a_page_names_the_next_until_there_is_none() {
        let page = Page::of(List::Messages, 2, vec![30_i64, 20, 10], |row| *row, |row| row);
        assert_eq!((page.data.as_slice(), page.has_more), ([30, 20].as_slice(), true));
        let next = query(None, page.next_cursor.as_deref());
        assert_eq!(next.position(List::Messages).unwrap(), Some(20));
        assert!(next.position(List::History).is_err(), "another list's cursor");
        let page = Page::of(List::Notes, 1, vec![u128::MAX, 1], |id| *id, |id| id);
        let next = query(None, page.next_cursor.as_deref());
        assert_eq!(next.id(List::Notes).unwrap(), Some(Uuid::from_u128(u128::MAX)));
        assert!(next.id(List::Learnings).is_err(), "another list's cursor");
        let last = Page::of(List::Messages, 2, vec![10_i64], |row| *row, |row| row);
        assert!(!last.has_more && last.next_cursor.is_none());
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        assert_eq!(query(None, None).limit().unwrap(), 20);
        assert_eq!(query(Some("100"), None).limit().unwrap(), 100);
        for bad in ["0", "101", "-1", "x", ""] {
            assert!(query(Some(bad), None).limit().is_err(), "{bad}");
        }
        for bad in ["", "m", "mzz", "m-1", "5"] {
            assert!(query(None, Some(bad)).position(List::Messages).is_err(), "{bad}");
        }
    }
}

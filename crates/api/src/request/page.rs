//! Pagination: `?limit=&cursor=` in the query, `{"data": […], "has_more": true, "next_cursor": "m1f"}` in the response.
//! A cursor is the prefix of its list and a position in hexadecimal; it is opaque to clients.

use std::fmt::LowerHex;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::Deserialize;
use uuid::Uuid;

use crate::error::{ApiError, Result};
use crate::request::query::Query;

/// Items on a page if the query has no limit.
const DEFAULT_LIMIT: u8 = 20;
/// Maximum number of items on a page.
const MAX_LIMIT: u8 = 100;

/// The query parameters of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    pub(crate) limit: Option<String>,
    pub(crate) cursor: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for PageQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        Query::from_request_parts(parts, state).await.map(|Query(query)| query)
    }
}

/// The list a cursor belongs to, so that the cursor of another list is refused: cursors begin with its letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum List {
    Messages = b'm',
    History = b'h',
    Agentables = b'a',
    Notes = b'n',
    Learnings = b'l',
    Memories = b'y',
    CustomInstructions = b'c',
    FeedItems = b'f',
    Agents = b'g',
    Teams = b't',
    Sessions = b's',
    Compressions = b'k',
    Tasks = b'q',
    CheckIns = b'w',
    Users = b'u',
    Runs = b'r',
    AllRuns = b'R',
    Audit = b'A',
    Erasures = b'e',
    Questions = b'o',
    Files = b'p',
    Grants = b'v',
    Snippets = b'j',
    Todos = b'd',
    Tables = b'b',
    Records = b'x',
    Deliveries = b'i',
    Plans = b'z',
    PlanSteps = b'P',
    PlanVersions = b'V',
    Keys = b'K',
    HealthChanges = b'H',
}

impl List {
    fn prefix(self) -> char {
        char::from(self as u8)
    }

    /// The cursor of what follows `position`.
    pub(crate) fn cursor(self, position: impl LowerHex) -> String {
        format!("{}{position:x}", self.prefix())
    }
}

impl PageQuery {
    pub(crate) fn limit(&self) -> Result<usize> {
        self.limit_or(DEFAULT_LIMIT)
    }

    /// The limit of the query, or `default`, at most [`MAX_LIMIT`].
    pub(crate) fn limit_or(&self, default: u8) -> Result<usize> {
        let Some(limit) = &self.limit else { return Ok(default.min(MAX_LIMIT).into()) };
        limit
            .parse::<u8>()
            .ok()
            .filter(|limit| (1..=MAX_LIMIT).contains(limit))
            .map(usize::from)
            .ok_or_else(|| ApiError::parameter("limit", format!("must be a number from 1 to {MAX_LIMIT}")))
    }

    /// The position in the cursor, for lists ordered by a number.
    ///
    /// # Errors
    /// [`ApiError::InvalidCursor`] when it is not a cursor of `list`.
    pub(crate) fn position(&self, list: List) -> Result<Option<i64>> {
        self.read(list, |text| i64::from_str_radix(text, 16).ok().filter(|position| *position >= 0))
    }

    /// The id in the cursor, for lists ordered by id.
    ///
    /// # Errors
    /// [`ApiError::InvalidCursor`] when it is not a cursor of `list`.
    pub(crate) fn id(&self, list: List) -> Result<Option<Uuid>> {
        let parse = |id: &str| u128::from_str_radix(id, 16).ok().filter(|_| !id.starts_with('+'));
        Ok(self.read(list, parse)?.map(Uuid::from_u128))
    }

    /// The text in the cursor, for lists ordered by a text.
    ///
    /// # Errors
    /// [`ApiError::InvalidCursor`] when it is not a cursor of `list`.
    pub(crate) fn text(&self, list: List) -> Result<Option<String>> {
        Ok(self.read(list, HexText::parse)?.map(|text| text.0))
    }

    fn read<T>(&self, list: List, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        cursor.strip_prefix(list.prefix()).and_then(parse).map(Some).ok_or(ApiError::InvalidCursor)
    }
}

/// A text as a position, for lists ordered by a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HexText(pub(crate) String);

impl LowerHex for HexText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.bytes().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl HexText {
    fn parse(hex: &str) -> Option<Self> {
        if !hex.len().is_multiple_of(2) || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
        String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?)
            .ok()
            .filter(|text| !text.contains('\0'))
            .map(Self)
    }
}

/// How many rows to query: one more than the page has, to see whether there are more.
pub(crate) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1
}

/// The cursor of the next page, if there is one, for pages whose rows are converted all at once.
#[derive(Debug)]
pub(crate) struct NextPage(pub(crate) Option<String>);

impl NextPage {
    /// Truncates up to `limit + 1` rows to `limit`. The next page begins after the `position` of the last row.
    pub(crate) fn of<R, P: LowerHex>(
        list: List,
        limit: usize,
        rows: &mut Vec<R>,
        position: impl Fn(&R) -> P,
    ) -> Self {
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Self(rows.last().filter(|_| has_more).map(|last| list.cursor(position(last))))
    }

    /// The page with `data`.
    pub(crate) fn page<T>(self, data: Vec<T>) -> houston_protocol::page::Page<T> {
        houston_protocol::page::Page { data, has_more: self.0.is_some(), next_cursor: self.0 }
    }
}

/// Builds pages.
pub(crate) enum Page {}

impl Page {
    /// Builds a page of at most `limit` items from up to `limit + 1` rows, each converted by `show`. The next page
    /// begins after the `position` of the last row.
    pub(crate) fn of<T, R, P: LowerHex>(
        list: List,
        limit: usize,
        mut rows: Vec<R>,
        position: impl Fn(&R) -> P,
        show: impl Fn(R) -> T,
    ) -> houston_protocol::page::Page<T> {
        let next = NextPage::of(list, limit, &mut rows, position);
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
    fn page_has_the_cursor_of_the_next_page() {
        let page = Page::of(List::Messages, 2, vec![30_i64, 20, 10], |row| *row, |row| row);
        assert_eq!((page.data.as_slice(), page.has_more), ([30, 20].as_slice(), true));
        let next = query(None, page.next_cursor.as_deref());
        assert_eq!(next.position(List::Messages).unwrap(), Some(20));
        assert!(next.position(List::History).is_err(), "another list's cursor");
        let page = Page::of(List::Notes, 1, vec![u128::MAX, 1], |id| *id, |id| id);
        let next = query(None, page.next_cursor.as_deref());
        assert_eq!(next.id(List::Notes).unwrap(), Some(Uuid::from_u128(u128::MAX)));
        assert!(next.id(List::Learnings).is_err(), "another list's cursor");
        let page =
            Page::of(List::Files, 1, vec!["a/ä", "b"], |path| HexText((*path).to_owned()), |path| path);
        let next = query(None, page.next_cursor.as_deref());
        assert_eq!(next.text(List::Files).unwrap().as_deref(), Some("a/ä"));
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
        for bad in ["", "m61", "p6", "pzz", "pff", "p00", "p+1", "pä"] {
            assert!(query(None, Some(bad)).text(List::Files).is_err(), "{bad}");
        }
    }
}

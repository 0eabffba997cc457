//! One page of a list, and the cursor of the next one.

use serde::{Deserialize, Serialize};

use crate::base::limit::PAGE_ROWS_MAX;

/// One page of a list. `next` is what to pass as `after` for the next page.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "{T}List"))]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Returns how many rows to read for a page of `limit`: one extra reveals whether more follow.
    pub fn rows_to_read(limit: u32) -> u32 {
        limit.clamp(1, PAGE_ROWS_MAX) + 1
    }

    /// Returns the page: at most `limit` of the rows read.
    pub fn of(mut rows: Vec<T>, limit: u32, cursor: impl Fn(&T) -> String) -> Page<T> {
        let limit = limit.clamp(1, PAGE_ROWS_MAX) as usize;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next = if has_more { rows.last().map(cursor) } else { None };
        Page { items: rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_has_no_next() {
        let page = Page::of(vec![1, 2, 3], 2, i32::to_string);
        assert_eq!((page.items.as_slice(), page.next.as_deref()), (&[1, 2][..], Some("2")));
        let page = Page::of(vec![1, 2], 2, i32::to_string);
        assert_eq!(page.next, None);
        assert_eq!(Page::of(Vec::<i32>::new(), 0, i32::to_string).next, None);
        assert_eq!(Page::<i32>::rows_to_read(u32::MAX), PAGE_ROWS_MAX + 1);
    }
}

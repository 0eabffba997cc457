//! The budget that the agents of a channel share.

use crate::api::channels::Budget;
use crate::base::{Error, Result};

/// Largest number of turns or tokens in a budget.
const COUNT_MAX: i64 = 1_000_000_000_000;
/// Largest amount in a budget, in US dollars.
const COST_MAX: f64 = 1e9;

impl Budget {
    /// Refuses an invalid budget.
    ///
    /// # Errors
    /// `invalid` with code `bad_parameter`.
    pub fn check(&self) -> Result<()> {
        let is_count = |most: Option<i64>| most.is_none_or(|it| (1..COUNT_MAX).contains(&it));
        let is_cost = |most: f64| most.is_finite() && most > 0.0 && most < COST_MAX;
        let is_right =
            is_count(self.turns) && is_count(self.tokens) && self.cost_usd.is_none_or(is_cost);
        match is_right {
            true => Ok(()),
            false => Err(Error::invalid("a budget is of numbers above 0")
                .code("bad_parameter")
                .of_input("budget")),
        }
    }

    /// Returns whether at least this many thirds of any limit are used.
    pub fn is_used(&self, thirds: i64, (turns, tokens, cost_usd): (i64, i64, f64)) -> bool {
        let is_past = |used: i64, most: Option<i64>| {
            most.is_some_and(|most| used.saturating_mul(3) >= most.saturating_mul(thirds))
        };
        let parts = if thirds >= 3 { 3.0 } else { 2.0 };
        is_past(turns, self.turns)
            || is_past(tokens, self.tokens)
            || self.cost_usd.is_some_and(|most| cost_usd * 3.0 >= most * parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_where_its_first_part_is() {
        let budget = Budget { turns: Some(6), tokens: None, cost_usd: Some(3.0) };
        assert!(!budget.is_used(2, (3, 1_000_000, 1.9)));
        assert!(budget.is_used(2, (4, 0, 0.0)) && !budget.is_used(3, (5, 0, 0.0)));
        assert!(budget.is_used(3, (6, 0, 0.0)) && budget.is_used(3, (0, 0, 3.0)));
        assert!(!Budget::default().is_used(2, (i64::MAX, i64::MAX, f64::MAX)));
        assert!(Budget { turns: Some(0), ..budget }.check().is_err());
        assert!(Budget { cost_usd: Some(f64::NAN), ..budget }.check().is_err());
    }
}

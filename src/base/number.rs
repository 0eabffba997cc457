//! Whole numbers in JSON, which some write as `3.0`: Lua does after every division.

use serde_json::Value;

/// Largest whole number up to which a float has all of them.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns a number without a fraction as a whole one, and any other value as it is.
pub fn as_whole(value: Value) -> Value {
    whole(&value).map_or(value, Value::from)
}

/// Returns the whole number that a value is, however it is written.
pub fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().and_then(whole_of))
}

/// Returns the whole number that a float is.
pub fn whole_of(number: f64) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "it is whole and within the range")]
    (number.fract() == 0.0 && number.abs() <= EXACT_MAX).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_without_a_fraction_is_whole_however_it_is_written() {
        for (given, wanted) in [
            (json!(3.0), json!(3)),
            (json!(-0.0), json!(0)),
            (json!(3), json!(3)),
            (json!(1e3), json!(1000)),
        ] {
            assert_eq!(as_whole(given.clone()).to_string(), wanted.to_string(), "{given}");
        }
        for other in [json!(3.5), json!(1e300), json!(u64::MAX), json!("3.0"), json!(null)] {
            assert_eq!(as_whole(other.clone()), other);
        }
    }
}

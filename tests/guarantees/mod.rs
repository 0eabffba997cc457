//! The guarantees by their numbers, on the real server. Each test says which switch makes it fail.

mod results;

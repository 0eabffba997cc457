//! The description of the HTTP interface, for programs.

/// OpenAPI 3.1, made of the types and of the table of routes by a test.
pub const OPENAPI: &str = include_str!("../../docs/openapi.json");

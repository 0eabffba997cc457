//! The text of a script: tokens, spans, places of declarations, and findings about them.

mod absence;
pub(in crate::script) mod ast;
pub(in crate::script) mod constructor;
pub(in crate::script) mod diagnostic;
pub(in crate::script) mod field_span;
pub(in crate::script) mod lexer;
pub(in crate::script) mod location;
pub(in crate::script) mod source_map;
pub(in crate::script) mod span;
pub(in crate::script) mod syntax;

//! Parts shared by pages: frame, forms, fields, labels, times and images.

pub(in crate::http) mod ansi;
pub(in crate::http::pages) mod difference;
pub(in crate::http::pages) mod fields;
pub(in crate::http::pages) mod form;
pub(in crate::http::pages) mod frame;
pub(in crate::http::pages) mod health_banner;
pub(in crate::http::pages) mod holder;
pub(in crate::http::pages) mod icon;
pub(in crate::http::pages) mod image_sizes;
pub(in crate::http::pages) mod job;
pub(in crate::http::pages) mod labels;
pub(in crate::http) mod message;
pub(in crate::http::pages) mod payload_form;
pub(in crate::http::pages) mod preferences;
pub(in crate::http::pages) mod reading;
pub(in crate::http::pages) mod schedule_fields;
pub(in crate::http::pages) mod time;
pub(in crate::http::pages) mod visible;

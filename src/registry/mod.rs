//! `accounts.toml`: which accounts, providers and projects there are, edited by people and by us.

pub mod file;
pub mod install;
pub mod key;
pub mod path;
pub mod project;
pub mod schema;
pub mod shape;
pub mod validate;
pub mod value;
